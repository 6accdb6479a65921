"""How long results take: from when their run was stamped to when the consumer has acknowledged them, counted
in fixed classes.

A sample is a call to a consumer, by its oldest result. Counts only grow, so what happened in a minute is a
difference, and the counts of several workers add up.

Keeps: a fixed size. Does not: count what a timed source gave (its stamps are no clock's), or say when (who
reads does).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

BOUNDS: Final = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 80, 120, 200, 500, 1000, 2000, 5000, 10_000, 30_000)
"""Milliseconds; a class holds what is at most its bound, the last one of all what is above."""
WINDOW: Final = 60_000_000
"""Microseconds that are recent."""
_PIECES: Final = 6


class Latency:
    """The counts of one worker, by class."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0
        """Microseconds of all samples together."""

    def observe(self, microseconds: int) -> None:
        """Count a call that took so long."""
        # a stamp may be ahead of the clock: it is above all that its front was asked for
        taken = max(0, microseconds)
        self.counts[bisect_left(BOUNDS, taken / 1000)] += 1
        self.total += taken


class Recent:
    """The part of growing counts that is younger than WINDOW."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, list[int]]] = deque()

    def take(self, now: int, counts: Sequence[int]) -> None:
        """Take note of the counts at `now`."""
        # few marks, whatever the number of reports
        if not self._marks or now - self._marks[-1][0] >= WINDOW // _PIECES:
            self._marks.append((now, list(counts)))
        while len(self._marks) > 1 and now - self._marks[0][0] > WINDOW:
            self._marks.popleft()

    def counts(self, newest: Sequence[int]) -> list[int]:
        """The counts since the oldest mark; all of them before there is one. Counts that went back, against
        the rule, are none."""
        oldest = self._marks[0][1] if self._marks else [0] * len(newest)
        return [max(0, new - old) for new, old in zip(newest, oldest, strict=True)]


def quantile(counts: Sequence[int], share: float) -> float:
    """Milliseconds at a share of all samples, as if they were spread evenly in their class. 0 if there is
    none."""
    wanted = share * sum(counts)
    if not wanted:
        return 0.0
    place = bisect_left(list(accumulate(counts)), wanted)
    below = sum(counts[:place])
    low = BOUNDS[place - 1] if place else 0
    high = BOUNDS[place] if place < len(BOUNDS) else BOUNDS[-1]
    return round(low + (high - low) * (wanted - below) / counts[place], 2)
