"""`Graph.run` gives what a job would deliver, from lists to lists."""

from dataclasses import dataclass

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError, UserError


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Click:
    user: str
    at: int


def clicks_a_minute() -> fs.Graph:
    graph = fs.Graph("clicks")
    counts = graph.source("clicks", at="at", unit="s").window(fs.tumbling("1m"), key="user").count()
    counts.map(lambda count: (count.key, count.start, count.value)).sink("counts")
    return graph


def test_windows_close_at_the_end_of_the_input() -> None:
    results = clicks_a_minute().run(clicks=[Click("ann", 5), Click("ann", 30), Click("bob", 90)])
    assert sorted(results["counts"]) == [("ann", 0, 2), ("bob", 60, 1)]


def test_sources_that_are_left_out_are_empty() -> None:
    assert clicks_a_minute().run() == {"counts": []}


def test_an_unknown_source_is_named_with_those_there_are() -> None:
    with pytest.raises(GraphError, match="has no source 'views': its sources are 'clicks'"):
        clicks_a_minute().run(views=[])


def test_a_function_that_raises_is_told_as_a_job_tells_it() -> None:
    graph = fs.Graph("halves")
    graph.source("numbers").map(lambda n: 1 // n).sink("halves")
    with pytest.raises(UserError, match=r"ZeroDivisionError.*\n.*operation 1, map of"):
        graph.run(numbers=[1, 0])


def test_however_many_windows_close_at_once_none_is_an_error() -> None:
    """The graph's own limits are for what users' functions make of one item."""
    graph = fs.Graph("many", max_results=2, max_result_bytes=64, shards=1)
    graph.source("clicks", at="at", unit="s").window(fs.tumbling("1m"), key="user").count().map(
        lambda count: count.key
    ).sink("keys")
    assert len(graph.run(clicks=[Click(f"user-{number}", 1) for number in range(50)])["keys"]) == 50


def test_a_sink_may_have_any_name() -> None:
    graph = fs.Graph("any")
    graph.source("numbers").sink("errors")
    assert graph.run(numbers=[1, 2]) == {"errors": [1, 2]}
