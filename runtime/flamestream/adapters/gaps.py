"""Gaps: the stretches in which no consumer was given anything, from what all workers of a job say of their acknowledgments.

A worker reports some ten times a second when its consumers acknowledged first and last since its report before; between the two it is
taken as giving. What a worker gave behind its last report is not known of one that was killed: a gap is too long by a report at most.

Keeps: the longest gap that ended after any moment of the last MEMORY, exactly, in a bounded size.
Does not: know why nothing came; an idle input makes gaps too.
"""

from collections import deque
from typing import Final

MEMORY: Final = 3600 * 1_000_000
"""Microseconds."""
MOST: Final = 64


class Gaps:
    """Of one job. All times are microseconds."""

    def __init__(self) -> None:
        self.first = self.last = 0
        """When a consumer acknowledged something first, that was reported here, and last."""
        self._longest: deque[tuple[int, int]] = deque()
        """(end, length), each shorter than those before it: what ended earlier and was shorter is nobody's answer."""

    def gave(self, first: int, last: int) -> None:
        """A worker's consumers acknowledged from `first` to `last`."""
        self.first = self.first or first
        if self.last and first > self.last:
            length = first - self.last
            while self._longest and self._longest[-1][1] <= length:
                self._longest.pop()
            self._longest.append((first, length))
            while len(self._longest) > MOST or self._longest[0][0] < first - MEMORY:
                self._longest.popleft()
        self.last = max(self.last, last)

    def all(self) -> list[tuple[int, int]]:
        """(end, length), the longest first: the first that ended after a moment is the longest since."""
        return list(self._longest)
