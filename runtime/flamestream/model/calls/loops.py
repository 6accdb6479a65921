"""Loops through calls: how many answers an item has behind it, which bounds its rounds.

What a call gives enters anew, with a trace of its own, so no trace tells how often something went round. Its
place in its run does: there stand as many `Round`s in front of an answer as the answers of calls in loops that
it came of, and itself. So the first component of a meta counts them, in every runner, and nothing is written beside it.

    record -> request -> run (Round, answer) -> ... -> request -> run (Round, Round, answer) -> ...

Who would ask too often gets an error for an answer, and the outside is not asked. Productions hand the count on
and add nothing, so a loop has the same bound under every guarantee.

Keeps: a run has one answer, or an intent. Does not: bound how much one round makes of an item.
Source: ours; decision 071.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flamestream.model.errors import GraphError
from flamestream.model.meta import Meta, first_component, time_of_meta
from flamestream.model.payload import ErrorValue, payload_type
from flamestream.model.time import FrontId, front_of
from flamestream.model.vertex import Kind, Vertex

if TYPE_CHECKING:
    from flamestream.model.graph import Graph

PRODUCTION: Final = "production:"
"""How the names of productions begin, and of no other call."""
MOST: Final = 1_000
"""Answers that one may have behind it: each is a record of its run."""


@payload_type
@dataclass(frozen=True, slots=True)
class Round:
    """Stands in front of an answer for one that it came of, or for itself. It has no results."""


class Rounds:
    """The answers behind items of a graph, where its loops lead through calls. `sources`: of all fronts."""

    def __init__(self, graph: "Graph", sources: Mapping[FrontId, str]) -> None:
        self._heads = heads_of(graph)
        self._fronts = {
            front: int(asks_outside(source)) for front, source in sources.items() if source in self._heads
        }
        """Rounds that an answer adds, by the fronts at which those in loops enter."""
        self._most = most_rounds(self._heads)

    def of(self, meta: Meta) -> int:
        """Answers of calls in loops that an item has behind it."""
        return first_component(meta) if front_of(time_of_meta(meta)) in self._fronts else 0

    def too_often(self, call: str, request: Meta) -> ErrorValue | None:
        """The answer to a request that has gone round too often; None if it has not."""
        # (!) A production may be on the way out: only who asks has gone round for certain.
        heads = self._heads.get(call, []) if asks_outside(call) else []
        return too_often(heads[0]) if heads and self.of(request) > self._most else None

    def runs(self, front: FrontId, entering: Iterable[Any]) -> Iterator[list[Any]]:
        """The runs in which answers and intents enter at a call's front, each of which must stay whole where
        it has one answer."""
        if front not in self._fronts:
            yield list(entering)
            return
        for each in entering:
            before = self._fronts[front] + self.of(Meta(each.request)) if hasattr(each, "results") else 0
            yield [*[Round()] * before, each]

    def counts(self, front: FrontId) -> bool:
        """Whether runs of a front say how many answers are behind theirs."""
        return front in self._fronts


def heads_of(graph: "Graph") -> dict[str, list[Vertex]]:
    """The heads of loops that lead through a call, by the call's name."""
    heads: dict[str, list[Vertex]] = {}
    for head in (vertex for vertex in graph.vertices if vertex.kind is Kind.LOOP):
        ahead = graph.reachable(head.id, through_calls=True)
        for name, sink in graph.calls.items():
            if sink.id in ahead and head.id in graph.reachable(sink.id, through_calls=True):
                heads.setdefault(name, []).append(head)
    return heads


def asks_outside(call: str) -> bool:
    """Whether a call is no production."""
    return not call.startswith(PRODUCTION)


def most_rounds(heads: Mapping[str, list[Vertex]]) -> int:
    """Answers that a request may have behind it. Exact where each item meets every call of the loops in each
    round; it bounds all loops together."""
    rounds = {head.id: head.max_iterations for of_call in heads.values() for head in of_call}
    return (1 + sum(rounds.values())) * sum(map(asks_outside, heads)) - 1


def check_loops(graph: "Graph") -> None:
    """Raises GraphError for a loop through calls that cannot be bounded, or that goes by event time."""
    heads = heads_of(graph)
    if heads:
        _check_no_time(graph, heads)
    if heads and most_rounds(heads) > MOST:
        head = next(iter(heads.values()))[0]
        raise GraphError(
            f"{head.place}: loop {head.name!r} in graph {graph.name!r} leads through a call, and may go round "
            f"{head.max_iterations} times: of all such loops together that are {most_rounds(heads)} answers behind "
            f"one, and at most {MOST:,} can be"
        )


def _check_no_time(graph: "Graph", heads: Mapping[str, list[Vertex]]) -> None:
    from flamestream.model.windows.process import Steps  # it stands on graphs

    for head in {head.id: head for of_call in heads.values() for head in of_call}.values():
        where = f"loop {head.name!r} in graph {graph.name!r} leads through a call"
        for number in graph.reachable(head.id, through_calls=True):
            vertex = graph.vertices[number]
            if head.id not in graph.reachable(number, through_calls=True):
                continue
            if vertex.call is not None and vertex.timing is not None:
                raise GraphError(
                    f"{vertex.place}: {where}, {vertex.name}, whose results have event time: it would never end. "
                    "Leave out at=, or close the loop before it"
                )
            # (!) What a mark leads to has the mark's meta, and no rounds behind it.
            if isinstance(vertex.combine, Steps):
                raise GraphError(
                    f"{vertex.place}: {where}, and through {vertex.combine.written}, which goes by event time: nobody "
                    "would count the rounds of what a mark leads to. Put it before the loop, or behind"
                )


def too_often(loop: Vertex) -> ErrorValue:
    """The error item of what goes round without end."""
    return ErrorValue(
        "loop", "LoopLimit", f"loop {loop.name!r} goes round more than {loop.max_iterations} times"
    )
