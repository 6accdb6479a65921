"""The trace of a simulated run: every thing that happened, in order, folded into one hash and, if asked, kept
as lines.

Two runs of one seed have the same hash (invariant 10), so a failure found once can always be looked at again.

Does not: decide anything; a run with lines and a run without are the same run.
"""

from collections import Counter
from collections.abc import Callable
from zlib import crc32

MAX_LINES = 2_000_000


class Trace:
    """A running hash, counters of what was covered, and the lines if somebody wants to read them."""

    def __init__(self, keep: bool = False, show: Callable[[str], None] | None = None) -> None:
        self.keep = keep
        self.lines: list[str] = []
        self.coverage: Counter[str] = Counter()
        self.events = 0
        self._show = show
        self._low = 0
        self._high = 0x5BD1E995

    @property
    def digest(self) -> str:
        """64 bits over everything noted so far."""
        return f"{self._high:08x}{self._low:08x}"

    def note(self, now: int, who: str, what: str, detail: object = "") -> None:
        """`detail` is for readers: its text is made only if lines are kept, and is not part of the hash."""
        self.events += 1
        # without the detail: reprs change with versions
        self._low = crc32(f"{now} {who} {what}".encode(), self._low)
        self._high = (self._high * 31 + self._low) & 0xFFFFFFFF
        if self.keep and len(self.lines) < MAX_LINES:
            line = f"{now:>12} {who:<14} {what} {detail}"
            self.lines.append(line)
            if self._show is not None:
                self._show(line)

    def cover(self, mark: str) -> None:
        """Count that a branch of the protocol, or a fault, really happened."""
        self.coverage[mark] += 1
