"""Output gaps: the stretches in which no consumer was given anything, from what is said of the stretches in
which one was.

    worker 0   ──●●●──●●─────────────●●──      A stretch (first, last) is reported as giving; a gap is what
    worker 1   ─●●──●●●──────✗                  no stretch of anybody covers. Whoever says it late, or twice,
    gap                 └──────────┘            changes nothing but the truth: a coordinator that is younger
                                                than a gap hears of both its ends.

A worker remembers its own stretches of the last `RECENT` and reports them anew to each coordinator; what a
worker that was killed gave behind its last report nobody knows: so a gap may be too long by a report, and
never too short by more than PAUSE.

>>> gaps = OutputGaps()
>>> gaps.gave(0, 100_000); gaps.gave(500_000, 600_000)
>>> gaps.all()
[(500000, 400000)]
>>> gaps.gave(90_000, 300_000)          # somebody else, heard of later
>>> gaps.all()
[(500000, 200000)]

Keeps: the longest gap that ended after any moment of the last MEMORY, in a bounded size. Of RECENT at most
MOST stretches are kept; the pause between two of them that matters least is given up first. Does not: know
why nothing came; an idle input makes gaps too.
"""

from collections import deque
from itertools import pairwise
from typing import Final

PAUSE: Final = 10_000
"""Microseconds: a shorter gap is none."""
RECENT: Final = 120 * 1_000_000
"""Microseconds in which somebody may still tell of it."""
MEMORY: Final = 3600 * 1_000_000
MOST: Final = 64


class OutputGaps:
    """The gaps of one worker, or of one job. All times are microseconds."""

    def __init__(self) -> None:
        self.first = self.last = 0
        """The first and the last moment at which a consumer acknowledged something, as far as it was said
        here."""
        self._recent: list[tuple[int, int]] = []
        """Stretches, in order, with more than PAUSE between them."""
        self._longest: deque[tuple[int, int]] = deque()
        """(end, length) of older gaps, each shorter than those before it: what ended earlier and was shorter
        is nobody's answer."""

    def gave(self, first: int, last: int) -> None:
        """Consumers acknowledged from `first` to `last`."""
        recent = self._recent
        # 0 stands for never
        self.first, self.last = min(self.first or first, first), max(self.last, last)
        if recent and recent[-1][0] <= first <= recent[-1][1] + PAUSE:  # the usual case, and the hot one
            recent[-1] = (recent[-1][0], max(recent[-1][1], last))
            return
        if last < self.last - RECENT:
            return  # too late to be told
        self._recent = recent = _joined([*recent, (first, last)])
        while len(recent) > 1 and recent[0][1] < self.last - RECENT:
            self._settle(recent[1][0], recent[1][0] - recent[0][1])
            del recent[0]
        while len(recent) > MOST:
            at = _least(recent)
            recent[at - 1 : at + 1] = [(recent[at - 1][0], recent[at][1])]

    def recent(self) -> list[tuple[int, int]]:
        """The stretches that somebody who has not heard of them should be told."""
        return list(self._recent)

    def all(self) -> list[tuple[int, int]]:
        """(end, length), the longest first: the first that ended after a moment is the longest since."""
        found: list[tuple[int, int]] = []
        recent = self._recent
        new = [(after[0], after[0] - before[1]) for before, after in pairwise(recent)]
        for end, length in (*self._longest, *new):
            while found and found[-1][1] <= length:
                found.pop()
            found.append((end, length))
        return found

    def longest(self, since: int, until: int) -> int:
        """The length of the longest that had not ended by `since`, as long as it was by `until`; 0: there was none."""
        found, end = 0, until
        for first, last in reversed(self._recent):
            if end <= since:
                break
            found, end = max(found, min(end, until) - last), first
        return max(found, next((length for when, length in self._longest if when > since), 0))

    def _settle(self, end: int, length: int) -> None:
        longest = self._longest
        while longest and longest[-1][1] <= length:
            longest.pop()
        longest.append((end, length))
        while len(longest) > MOST or longest[0][0] < end - MEMORY:
            longest.popleft()


def _least(stretches: list[tuple[int, int]]) -> int:
    """The stretch behind the pause that matters least: the shortest with one behind it that is as long, else
    the shortest."""
    lengths = [after[0] - before[1] for before, after in pairwise(stretches)]
    longest, covered = 0, []
    for index in range(len(lengths) - 1, -1, -1):
        covered += [index] if lengths[index] <= longest else []
        longest = max(longest, lengths[index])
    return 1 + min(covered or range(len(lengths)), key=lengths.__getitem__)


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(stretches):
        if found and first <= found[-1][1] + PAUSE:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
