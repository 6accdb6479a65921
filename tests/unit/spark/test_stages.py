"""How a graph is cut into stages, and which graphs are refused before anything runs."""

from typing import Any

import pytest

from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.spark.frames.stages import stages_of


def first(payload: Any) -> Any:
    return payload[0]


def second(payload: Any) -> Any:
    return payload[1]


def test_stages_that_do_not_feed_each_other_share_a_level() -> None:
    graph = Graph("g")
    left, right = graph.source("in").broadcast(2)
    left.group(2, key=first).sink("left")
    right.group(2, key=second).map(first).group(3, key=first).sink("right")
    stages = stages_of(graph)
    assert stages.depth == 2
    assert [len(stages.at(level)) for level in (1, 2)] == [2, 1]
    assert not stages.cyclic


def test_a_cycle_is_one_stage() -> None:
    graph = Graph("g")
    graph.source("in").reduce(key=first, initial=int, combine=max, fused=False).sink("out")
    stages = stages_of(graph)
    assert stages.depth == 1 and len(stages.cyclic) == 1


def none_of(window: Any) -> tuple[Any, ...]:
    return ()


@pytest.mark.parametrize("balanced", [False, True])
def test_a_cycle_through_two_keys_or_two_places_is_refused(balanced: bool) -> None:
    graph = Graph("g")
    head = graph.loop("round", max_iterations=2)
    merged = graph.source("in").merge(head)
    grouped = (merged.balance(lambda key: 1) if balanced else merged).group(2, key=first).map(second)
    turned = grouped.group(2, key=first if balanced else second).flat_map(none_of)
    head.close(turned)
    turned.sink("out")
    with pytest.raises(GraphError, match=r"loop 'round' goes through operations .*streaming runner"):
        stages_of(graph)
