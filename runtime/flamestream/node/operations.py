"""Operations: what each vertex of the graph does. A worker tells it, the coordinator adds it up for people.

Keeps: a report is bounded, and costs a worker nothing between two reports but the counts that its dataflow has.
Does not: count (core/dataflow/operations.py), or time (core/dataflow/meter.py).
"""

from collections.abc import Sequence
from typing import Final

from flamestream.core.dataflow.meter import OperationCount
from flamestream.core.protocol.messages import MOST_OPERATIONS, Busy, Operation
from flamestream.job.plan.drawing import label
from flamestream.job.status import OperationFigures
from flamestream.model.graph import Graph

MOST_NAME: Final = 80
"""Characters of what people are shown of an operation."""


class OperationMeter:
    """The operations of a graph on one worker: what they do since it began, and since the report before."""

    def __init__(self, graph: Graph) -> None:
        self._known = [
            Operation(f"{vertex.id} {label(vertex)}"[:MOST_NAME])
            for vertex in graph.vertices[:MOST_OPERATIONS]
        ]
        self._before: list[list[int]] = [[] for _ in self._known]
        """The vertices whose edges lead to each: as often as they do."""
        for vertex in graph.vertices:
            for output in vertex.outputs:
                if output < len(self._known):
                    self._before[output].append(vertex.id)

    def report(self, counts: Sequence[OperationCount]) -> list[Operation]:
        """The operations, each with what is new since the last call. Into a source comes what it leads on."""
        told = []
        for vertex, (known, before) in enumerate(zip(self._known, self._before, strict=True)):
            count = counts[vertex]
            items_in = sum(counts[other].led_on for other in before) if before else count.led_on
            cost_us = count.cost // 1000
            recent = (items_in - known.items_in, count.led_on - known.items_out, cost_us - known.cost_us)
            told.append(
                Operation(known.name, items_in, count.led_on, cost_us, *recent, count.keys, count.size)
            )
        self._known = told
        return list(told)


def operations(said: Sequence[Busy]) -> list[OperationFigures]:
    """The figures of each vertex, from what workers of one graph have said last."""
    told: dict[str, list[tuple[Operation, float]]] = {}
    for busy in said:
        for operation in busy.operations:
            told.setdefault(operation.name, []).append((operation, max(1, busy.us) / 1e6))
    return [_figures(name, each) for name, each in told.items()]


def _figures(name: str, told: Sequence[tuple[Operation, float]]) -> OperationFigures:
    """The figures of a vertex, from what each worker has said and the seconds that its report is of."""
    items, took = sum(each.recent_in for each, _ in told), sum(each.recent_us for each, _ in told)
    return OperationFigures(
        operation=name, items_in=sum(each.items_in for each, _ in told),
        items_out=sum(each.items_out for each, _ in told),
        in_rate=sum(each.recent_in / seconds for each, seconds in told),
        out_rate=sum(each.recent_out / seconds for each, seconds in told),
        busy=sum(each.recent_us / seconds for each, seconds in told) / 1e6,
        item_us=took / items if items else None, keys=sum(each.keys for each, _ in told),
        state_bytes=sum(each.size for each, _ in told),
    )  # fmt: skip
