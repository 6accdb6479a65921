"""Merges: a graph in which a session's `merge` is held to its `combine`.

Folding all items of a session must give what merging the folds of its first and of its last items gives,
wherever it is cut; or a window's value depends on the order in which items came. Numbers with a fraction may
differ in their last digits.

Does not: look at ready-made aggregates.
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from math import isclose
from typing import Any

from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.failure import shortened
from flamestream.model.graph import Graph
from flamestream.model.payloads.registry import PLANS
from flamestream.model.vertex import Vertex, name_of
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.process import Steps
from flamestream.model.windows.sessions import Sessions

Both = tuple[Any, tuple[Any, ...]]
"""An accumulator, and the items that it was made of."""


def merges_checked(graph: Graph) -> Graph:
    """The graph with each `merge` of the user's compared at every item of a session. One that differs becomes
    an error item."""
    checked = copy(graph)
    checked.vertices = [_checked(vertex) for vertex in graph.vertices]
    return checked


def _checked(vertex: Vertex) -> Vertex:
    if not isinstance(vertex.combine, Steps):
        return vertex
    steps = copy(vertex.combine)
    program = steps.program
    if not isinstance(program, Sessions) or program.aggregate.merge is None or program.aggregate.said:
        return vertex
    steps.program = replace(program, aggregate=_Law(program.aggregate).aggregate())
    return replace(vertex, combine=steps)


@dataclass(frozen=True, slots=True)
class _Law:
    """A user's aggregate, and the same with the items in its accumulators."""

    users: Aggregate

    def aggregate(self) -> Aggregate:
        return Aggregate(self.initial, self.combine, self.emit, self.merge, self.users.written)

    def initial(self) -> Both:
        return self.users.initial(), ()

    def combine(self, both: Both, item: Any) -> Both:
        items = (*both[1], item)
        # every cut, since a session may become one at any of its items
        for cut in range(1, len(items)):
            self.merge((self._folded(items[:cut]), items[:cut]), (self._folded(items[cut:]), items[cut:]))
        return self.users.folded(both[0], item), items

    def emit(self, both: Both) -> Any:
        return self.users.result(both[0])

    def merge(self, left: Both, right: Both) -> Both:
        users, items = self.users.merge, (*left[1], *right[1])
        assert users is not None, "it is not looked at otherwise"
        merged, whole = users(left[0], right[0]), self._folded(items)
        if not _alike(merged, whole):
            raise UserError(
                f"{name_of(users)} is no merge of {self.users.written}: it gave {shortened(merged)} for "
                f"{shortened(left[0])} and "
                f"{shortened(right[0])}, but folding {shortened(left[1])} and then {shortened(right[1])} "
                f"gives {shortened(whole)}"
            )
        return merged, items

    def _folded(self, items: tuple[Any, ...]) -> Any:
        return reduce(self.users.folded, items, self.users.initial())


def _alike(one: Any, other: Any) -> bool:
    """Whether two accumulators are the same payload, but for the rounding of floats."""
    if type(one) is float and type(other) is float:
        # `encode` for the values that are never close to themselves: NaN
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or codec.encode(one) == codec.encode(other)
    plan = PLANS.get(type(one))
    if plan is None or plan.members is None or type(one) is not type(other):
        return codec.encode(one) == codec.encode(other)
    ours, theirs = plan.members(one), plan.members(other)
    return len(ours) == len(theirs) and all(map(_alike, ours, theirs))
