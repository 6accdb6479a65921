"""Contention: how often transactions are decided, for which rows again, and how many are aborted; for people.

Keeps: a fixed size; the same counts as the kernel's (native/src/state/transactions/contention.rs). Does not: decide
anything.
"""

from typing import Final, NamedTuple

MOST_ROWS: Final = 8
"""Rows that are remembered."""


class Contended(NamedTuple):
    """Counts since a worker began. What a recovery decides again counts again."""

    decided: int = 0
    """Transactions whose outcome is final."""
    runs: int = 0
    """The same and once more for each time that one was decided again."""
    aborted: int = 0
    rows: tuple[tuple[bytes, int], ...] = ()
    """Those whose changes had most others looked at again, the most first, by their key: how many, or somewhat
    fewer."""
    waits: bool = False
    """Whether each transaction waits now until nothing can come below it (patience.py)."""


class Contention:
    """The counts of one worker."""

    def __init__(self) -> None:
        self.decided = self.runs = self.aborted = 0
        self._rows: dict[bytes, int] = {}

    def final(self, runs: int, aborted: bool) -> None:
        """A transaction's outcome is final, after so many runs."""
        self.decided += 1
        self.runs += runs
        self.aborted += aborted

    def changed(self, row: bytes, others: int) -> None:
        """A change of a row has so many others looked at again."""
        # A row that is new takes over the count of the least one: who has many is never missing (space-saving).
        before = self._rows.pop(min(self._rows, key=self._rows.__getitem__)) if self._full(row) else 0
        self._rows[row] = self._rows.get(row, before) + others

    def told(self, *, waits: bool = False) -> Contended:
        """The counts so far."""
        rows = sorted(self._rows.items(), key=lambda row: (-row[1], row[0]))
        return Contended(self.decided, self.runs, self.aborted, tuple(rows), waits)

    def _full(self, row: bytes) -> bool:
        return row not in self._rows and len(self._rows) == MOST_ROWS
