"""Graphs: what a user's calls build, and what is refused with a message that names the vertex."""

from collections.abc import Callable
from typing import Any

import pytest

from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.model.stream import MAX_WINDOW
from flamestream.model.vertex import Kind, name_of
from flamestream.model.windows.shapes import tumbling


def same(value: Any) -> Any:
    return value


def odd(value: int) -> bool:
    return value % 2 == 1


def test_calls_build_vertices_in_order_with_their_edges() -> None:
    graph = Graph("g")
    numbers = graph.source("numbers")
    numbers.map(same).merge(numbers.filter(odd)).group(3, key=same).sink("out", key=same)
    assert [(v.id, v.kind, v.outputs) for v in graph.validated().vertices] == [
        (0, Kind.SOURCE, [1, 2]),
        (1, Kind.MAP, [3]),
        (2, Kind.FILTER, [3]),
        (3, Kind.MERGE, [4]),
        (4, Kind.GROUPING, [5]),
        (5, Kind.SINK, []),
    ]
    assert ([v.name for v in graph.sources], [v.name for v in graph.sinks]) == (["numbers"], ["out"])


def test_broadcast_is_the_stream_several_times_and_costs_no_vertex() -> None:
    graph = Graph("g")
    left, right = graph.source("s").broadcast(2)
    assert left == right
    assert len(graph.vertices) == 1
    with pytest.raises(GraphError, match="at least one way"):
        left.broadcast(0)


def test_balance_belongs_to_the_next_operation_only() -> None:
    graph = Graph("g")
    graph.source("s").balance(hash).map(same).map(same).sink("out")
    assert [v.balance for v in graph.vertices] == [None, hash, None, None]


def test_balance_of_what_goes_round_belongs_to_the_loop() -> None:
    graph = Graph("g")
    loop = graph.loop("l", max_iterations=3)
    loop.close(graph.source("s").merge(loop).filter(odd).balance(hash))
    assert graph.vertices[0].balance is hash


def test_a_reduce_is_one_vertex_and_unfused_a_cycle() -> None:
    fused, unfused = Graph("g"), Graph("g")
    fused.source("s").reduce(key=same, initial=int, combine=max).sink("out")
    unfused.source("s").reduce(key=same, initial=int, combine=max, fused=False).sink("out")
    assert [v.kind for v in fused.validated().vertices] == [Kind.SOURCE, Kind.REDUCE, Kind.SINK]
    assert {Kind.LOOP, Kind.GROUPING} <= {v.kind for v in unfused.validated().vertices}


def no_source(graph: Graph) -> None:
    graph.loop("l", 1).sink("out")


def no_sink(graph: Graph) -> None:
    graph.source("s").map(same)


def leads_nowhere(graph: Graph) -> None:
    graph.source("s").sink("out")
    graph.vertices[0].outputs.clear()


def forgotten(graph: Graph) -> None:
    numbers = graph.source("s")
    numbers.filter(odd)
    numbers.sink("out")


def never_closed(graph: Graph) -> None:
    graph.source("s").merge(graph.loop("again", 2)).sink("out")


def closed_elsewhere(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    loop.sink("out")
    loop.close(graph.source("s"))


def no_way_out(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    loop.close(graph.source("s").merge(loop).filter(odd))
    graph.source("t").sink("out")


def never_ends(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    round_ = graph.source("s").merge(loop).map(same)
    loop.close(round_)
    round_.sink("out")


def only_groups(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    round_ = graph.source("s").merge(loop).group(2, key=same)
    loop.close(round_)
    round_.sink("out")


def through_a_call_too_often(graph: Graph) -> None:
    loop = graph.loop("again", 500)
    round_ = graph.source("s").merge(loop).call(same, name="first").call(same, name="second")
    loop.close(round_.filter(odd))
    round_.sink("out")


def through_event_time(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    round_ = graph.source("s").merge(loop).call(same, at=same, unit="s")
    loop.close(round_.filter(odd))
    round_.sink("out")


def through_a_window(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    timed = graph.source("s", at=same, unit="s").merge(loop)
    round_ = timed.window(tumbling("1m"), key=same).count().call(same)
    loop.close(round_.filter(odd))
    round_.sink("out")


def no_way_out_of_a_call(graph: Graph) -> None:
    loop = graph.loop("again", 2)
    loop.close(graph.source("s").merge(loop).call(same))
    graph.source("t").sink("out")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (no_source, "graph 'g' has no source"),
        (no_sink, "graph 'g' has no sink"),
        (leads_nowhere, "source 's' in graph 'g' leads nowhere"),
        (forgotten, r"filter '.*odd' in graph 'g' leads nowhere"),
        (never_closed, "loop 'again' in graph 'g' is never closed"),
        (closed_elsewhere, "loop 'again' in graph 'g' does not lead back to itself"),
        (no_way_out, "loop 'again' in graph 'g' has no way out"),
        (never_ends, "loop 'again' in graph 'g' never ends"),
        (
            through_a_call_too_often,
            r"loop 'again' in graph 'g' leads through a call.* 1001 answers behind one, and at",
        ),
        (
            through_event_time,
            r"loop 'again' in graph 'g' leads through a call, same\(\), whose results have event time",
        ),
        (
            through_a_window,
            "loop 'again' in graph 'g' leads through a call, and through .*, which goes by event time",
        ),
        (no_way_out_of_a_call, "loop 'again' in graph 'g' has no way out"),
        (only_groups, "loop 'again' in graph 'g' never ends: it needs a filter or flat_map inside"),
    ],
)
def test_a_graph_that_cannot_run_is_refused_by_name(build: Callable[[Graph], None], message: str) -> None:
    graph = Graph("g")
    build(graph)
    with pytest.raises(GraphError, match=message):
        graph.validated()


def test_a_loop_may_end_in_a_call_and_begin_behind_one() -> None:
    graph = Graph("g")
    loop = graph.loop("again", 9)
    round_ = graph.source("s").call(same, name="before").merge(loop)
    loop.close(round_.filter(odd).map(lambda number: number + 1))
    round_.filter(lambda number: not odd(number)).call(same, name="behind").sink("out")
    assert graph.run(s=[3]) == {"out": [4]}


def test_a_cycle_with_a_filter_and_a_way_out_is_valid() -> None:
    graph = Graph("g")
    loop = graph.loop("again", 2)
    round_ = graph.source("s").merge(loop).map(same)
    loop.close(round_.filter(odd))
    round_.sink("out")
    assert graph.validated() is graph


def test_what_is_wrong_at_once_is_refused_at_once() -> None:
    graph = Graph("g")
    source = graph.source("s")
    source.sink("out")
    loop = graph.loop("l", 1)
    loop.close(loop)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: graph.source("s"), "two sources named 's'"),
        (lambda: source.sink("out"), "two sinks named 'out'"),
        (lambda: loop.close(source), "loop 'l' in graph 'g' is closed twice"),
        (lambda: graph.loop("x", 0), "max_iterations must be at least 1"),
        (lambda: source.group(0, same), r"group\(window=0\)"),
        (lambda: source.group(MAX_WINDOW + 1, same), "a window holds 1 to 64 items"),
    ]
    for call, message in calls:
        with pytest.raises(GraphError, match=message):
            call()


def test_the_identity_is_the_shape_and_not_the_functions() -> None:
    def build(function: Any, window: int, sink: str) -> str:
        graph = Graph("g")
        graph.source("s").map(function).group(window, key=same).sink(sink)
        return graph.identity

    assert build(same, 2, "out") == build(odd, 2, "out")
    assert len({build(same, 2, "out"), build(same, 3, "out"), build(same, 2, "other")}) == 3


def test_functions_are_called_by_module_and_name_in_messages() -> None:
    assert name_of(odd) == f"{__name__}.odd"
