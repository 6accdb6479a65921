"""The busy meter: where a worker's time goes, told to the coordinator every two seconds.

The loop counts the time in which it waits, the dataflow what its slots cost (core/dataflow/meter.py) and what each
operation does, and a source that gets no credit could give more than is taken.

Keeps: a report is of the time since the last one, and its size is bounded; keys are users' data, and stay in
the worker's log where others read the status. Does not: decide what follows (core/coordinator/balance.py,
scaling.py).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from flamestream.core.dataflow.meter import Cost, OperationCount
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.protocol.messages import MOST_KEYS, MOST_SLOTS, Busy, Operation
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Fence, Slot
from flamestream.model.time import FrontId, Instant
from flamestream.node.operations import OperationMeter

log = logging.getLogger(__name__)
REPORT_US: Final = 2_000_000
EVERY: Final = 64
"""Entrances into slots of which one is timed: some hundred a second at least on a busy worker, for a
nanosecond each."""
MOST_KEY: Final = 80
"""Characters of a key that people are shown."""


class Measured(Protocol):
    """The dataflow as it is measured here."""

    def measured(self) -> list[Cost]: ...
    def contended(self) -> Contended: ...
    def by_operation(self) -> list[OperationCount]: ...


class BusyMeter:
    """The meter of one worker's life. `waited`: microseconds in which its loop has waited so far; `private`:
    keys are not told."""

    def __init__(
        self, flow: Measured, graph: Graph, waited: Callable[[], int], began: Instant, *, private: bool,
        every_us: int = REPORT_US, spans: Callable[[], tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        """`spans`: how many of traces were exported and dropped so far; None: there are none."""
        self._flow, self._waited, self._private, self._every_us = flow, waited, private, every_us
        self._operations = OperationMeter(graph)
        self.operations: Sequence[Operation] = ()
        """The work of each vertex, as it was reported last; in the order of the graph."""
        self._spans = spans
        self._since, self._waited_before = began, waited()
        self._fence: Fence | None = None
        self._held: dict[FrontId, Instant] = {}
        """Since when a front gets no credit."""
        self._held_us = 0
        self._logged: Sequence[tuple[Slot, str]] = ()

    def pulled(self, front: FrontId, records: int, now: Instant) -> None:
        """A front may take so many records."""
        if not records:
            self._held.setdefault(front, now)
        elif (since := self._held.pop(front, None)) is not None:
            self._held_us = max(self._held_us, now - since)

    def report(self, fence: Fence, now: Instant) -> Busy | None:
        """The report that is due; None: the last one was not long ago. What was measured under another fence
        is forgotten: its slots were others."""
        if fence == self._fence and now - self._since < self._every_us:
            return None
        us, waited = now - self._since, self._waited()
        busy_us = max(0, us - (waited - self._waited_before))
        self._since, self._waited_before = now, waited
        costs = sorted(self._flow.measured(), key=lambda cost: (-cost[1], cost[0]))
        self.operations = operations = self._operations.report(self._flow.by_operation())
        held_us = max([self._held_us, *(now - since for since in self._held.values())], default=0)
        self._held, self._held_us = dict.fromkeys(self._held, now), 0
        if fence != self._fence:
            self._fence, self._held = fence, {}
            return None
        slots = [(slot, nanoseconds // 1000) for slot, nanoseconds, _ in costs]
        rest = sum(cost for _, cost in slots[MOST_SLOTS:])
        keys = self._keys(costs)
        if self._private:
            self._log([each for each in keys if 2 * dict(slots)[each[0]] > busy_us])
            keys = []
        rows = [] if self._private else self._rows()
        told = (0, 0) if self._spans is None else self._spans()
        return Busy(
            fence, us, busy_us, slots[:MOST_SLOTS], rest, keys, min(us, held_us), rows, *told, operations
        )

    def _keys(self, costs: Sequence[Cost]) -> list[tuple[Slot, str]]:
        """The frequent keys of the slots that cost most."""
        known = [(slot, key) for slot, _, key in costs[:MOST_KEYS] if key is not None]
        return [(slot, repr(codec.decode(key))[:MOST_KEY]) for slot, key in known]

    def _rows(self) -> list[tuple[str, int]]:
        """The rows that are contended most."""
        decoded = [(codec.decode(row), count) for row, count in self._flow.contended().rows[:MOST_KEYS]]
        return [(f"{table}[{key!r}]"[:MOST_KEY], count) for (table, key), count in decoded]

    def _log(self, keys: Sequence[tuple[Slot, str]]) -> None:
        """Log the key of a slot that takes more than half of the time; once while it is the same."""
        if keys and keys != self._logged:
            self._logged = keys
            log.info("a slot takes more than half of the time", extra={"slot": keys[0][0], "key": keys[0][1]})
