"""Patience: how often a transaction may be decided before it waits until nothing can come below it any more.

    guessing   each is decided when it comes, and again when that was too early: no hop more, but more decisions
    waiting    each is decided once, when only others that wait could still change what it reads: a hop more

Results leave only when minimal time has passed them, so both give the same bytes, at any moment and on any worker.
What is measured chooses: guessing ends when many decisions are repairs, and begins again when few of those that waited
would have been decided too early.

>>> patience = Patience(judged=4)
>>> for _ in range(4):
...     patience.decided(early=False)
...     patience.repaired()
>>> patience.waits
True

Keeps: counts alone decide, no clock, so that a run that is repeated goes the same way. Does not: say who waits for what
(transactions.py). The mirror is native/src/state/transactions/patience.rs.
"""

from typing import ClassVar


class Patience:
    """The patience of one worker."""

    most: ClassVar = 8
    """Runs of one transaction while others are guessed: then it waits, whoever changes what it has read."""

    def __init__(self, pinned: int | None = None, judged: int = 64) -> None:
        """`pinned`: the runs behind which a transaction waits, always; None: by measure, of so many that are `judged`
        together."""
        self.runs = self.most if pinned is None else pinned
        """Behind so many runs a transaction waits."""
        self._adapts, self._judged = pinned is None, judged
        self._decided = self._early = 0

    @property
    def waits(self) -> bool:
        """Whether no transaction is decided when it comes."""
        return self.runs == 0

    def decided(self, *, early: bool) -> None:
        """A transaction was decided for the first time. `early`: when it came that would have been too early."""
        self._decided += 1
        self._early += early
        if self._adapts and self._decided >= self._judged:
            self._judge()

    def repaired(self) -> None:
        """A transaction was decided again."""
        self._early += not self.waits

    def _judge(self) -> None:
        # Apart, so that what is in between does not change from one to the other all the time.
        if self._early * 2 > self._decided:
            self.runs = 0
        elif self._early * 8 < self._decided:
            self.runs = self.most
        self._decided = self._early = 0
