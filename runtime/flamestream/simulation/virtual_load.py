"""Virtual load: what slots cost a simulated worker, whose passes take no time. Each item at the door of a slot
counts for some microseconds, so what is told follows from the run alone.

Does not: make anything slower; a run with a model of latency does (process.py).
"""

from collections.abc import Callable

from flamestream.core.dataflow.meter import Cost
from flamestream.core.dataflow.parts import Flow
from flamestream.model.time import Instant


class VirtualLoad:
    """The load of one worker's life (`node.busy_meter.Measured`)."""

    def __init__(self, flow: Flow, entrance_us: int, now: Callable[[], Instant]) -> None:
        flow.measure(1)
        self._flow, self._each, self._now = flow, entrance_us, now
        self._costs: list[Cost] = []
        self._busy = self._waited = 0

    def waited(self) -> int:
        """Microseconds that are left of its time."""
        taken = [(slot, count * self._each * 1000, None) for slot, count, _ in self._flow.measured()]
        self._costs += taken
        self._busy += sum(cost for _, cost, _ in taken) // 1000
        self._waited = max(self._waited, self._now() - self._busy)
        return self._waited

    def measured(self) -> list[Cost]:
        """The cost of each slot since the last call."""
        costs, self._costs = self._costs, []
        return costs
