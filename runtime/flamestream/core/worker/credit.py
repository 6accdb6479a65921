"""Credit: how much of a front's input may be under way before it must wait.

It is taken before stamping, in runs and bytes of input, and returns when minimal time has passed the run
*and* every bundle below is acknowledged: that is when the settled time of all workers passes it, also if the
run had no output. Credit that came back from the barrier alone would let a slow consumer's backlog grow
without bound (!).

>>> credit = Credit(runs=2, size=100)
>>> credit.take(Time(1), 60); credit.take(Time(2), 60); credit.left
(0, 0)
>>> credit.settled(Time(2)); credit.left
(1, 40)

Keeps: invariant 8 (bounded by what is in flight). A run larger than all credit still enters, alone.
"""

from collections import deque

from flamestream.model.time import Time


class Credit:
    """The credit of one front."""

    def __init__(self, runs: int, size: int) -> None:
        self._runs = runs
        self._size = size
        self._taken: deque[tuple[Time, int, int]] = deque()
        self._taken_size = 0
        self.items = 0
        """Items in flight: those of runs that took credit and have not given it back."""

    @property
    def left(self) -> tuple[int, int]:
        """Runs and bytes; both are positive or both zero."""
        runs, size = self._runs - len(self._taken), self._size - self._taken_size
        return (runs, size) if runs > 0 and size > 0 else (0, 0)

    def take(self, time: Time, size: int, items: int = 0) -> None:
        """The run at `time` enters, with so many bytes and items."""
        self._taken.append((time, size, items))
        # may pass the limit: a run larger than all credit would otherwise never enter
        self._taken_size += size
        self.items += items

    def settled(self, time: Time) -> None:
        """Every run below `time` is out of the system."""
        # settled time, not minimal time: its bundles are acknowledged too (!)
        while self._taken and self._taken[0][0] < time:
            _, size, items = self._taken.popleft()
            self._taken_size -= size
            self.items -= items
