"""The reference in each partition of keys gives what the reference gives in one process; and it is not the
engine's."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from flamestream.audit import reference_rows
from flamestream.audit.reference_rows import ReferenceJob, levels_of, rows_of
from flamestream.job.application import load
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payloads import encoding
from flamestream.model.slot import slot_of
from flamestream.reference import ERRORS, Results, interpret
from flamestream.simulation import graphs
from flamestream.spark.frames.job_graph import ByValue
from flamestream.spark.frames.rows import HALT
from support.docs.examples import JOBS, example_file
from support.frames.frame_graphs import drawn, runs_of
from support.frames.frame_jobs import graph_of
from support.frames.session import Runs, encoded, pieces, sorted_results, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.frames]
SLOTS = 16


def in_partitions(graph: Graph, runs: Runs, *, fail: bool = False, partitions: int = 3) -> list[Any]:
    job = ReferenceJob(ByValue.of(graph), SLOTS, fail)
    found: list[Any] = rows_of(spark_session(), job, pieces(graph, runs), partitions=partitions).collect()
    return found


def results_in_partitions(graph: Graph, runs: Runs) -> Results:
    rows = in_partitions(graph, runs)
    return sorted_results(graph, [(row.to, bytes(row.meta), bytes(row.payload)) for row in rows])


def feeds_itself(graph: Graph) -> bool:
    try:
        levels_of(graph)
    except UserError:
        return True
    return False


@pytest.mark.parametrize("example", JOBS)
def test_examples(example: str) -> None:
    graph, runs = load(example_file(f"{example}.py"), "graph"), runs_of(example)
    if feeds_itself(graph):
        with pytest.raises(
            UserError, match=r"Leave out --spark: the interpreter in one process does every graph"
        ):
            in_partitions(graph, runs)
    else:
        assert encoded(results_in_partitions(graph, runs)) == encoded(interpret(graph, runs))


@given(st.integers(0, 1 << 32))
@examples(max_examples=10)
def test_drawn_graphs(seed: int) -> None:
    graph, runs = drawn(seed)
    assume(not feeds_itself(graph))
    assert encoded(results_in_partitions(graph, runs)) == encoded(interpret(graph, runs))


def test_doors_behind_doors_are_levels() -> None:
    graph = graph_of(lambda s: graphs.concatenation(Random(1), s), lambda s: graphs.windows(Random(2), s))
    assert sorted(levels_of(graph).values()) == [1, 2]


def test_every_result_says_its_slot() -> None:
    graph, runs = drawn(3)
    sink = next(vertex for vertex in graph.sinks)
    for row in in_partitions(graph, runs):
        if row.to == sink.id:
            payload = encoding.decode(bytes(row.payload))
            key = payload if sink.key is None else sink.key(payload)
            assert row.slot == slot_of(encoding.encode(key), SLOTS)


def failing(payload: Any) -> Any:
    if payload[1].endswith("7"):
        raise ValueError("seven")
    return payload[0]


def test_errors_are_items_or_the_end() -> None:
    graph = Graph("errors")
    graph.source("s0").map(lambda record: record).reduce(
        key=failing, initial=int, combine=lambda n, _: n + 1
    ).sink("out")
    runs = [(time, [("a", str(number)) for number in range(10)]) for time in (4096, 8192)]
    expected = interpret(graph, runs)  # type: ignore[arg-type]  # any int is a time
    assert len(expected[ERRORS]) == 2
    assert encoded(results_in_partitions(graph, runs)) == encoded(expected)  # type: ignore[arg-type]
    ended = in_partitions(graph, runs, fail=True)  # type: ignore[arg-type]
    assert min(bytes(row.meta) for row in ended if row.to == HALT) == expected[ERRORS][0][0]


def test_neither_the_engine_nor_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that a task has loaded the reference from take nothing of theirs but the input and the
    graph."""
    text = Path(reference_rows.__file__).read_text() + Path(interpret.__code__.co_filename).read_text()
    for theirs in (
        "flamestream.core",
        "frames.pipeline",
        "frames.keyed",
        "frames.walk",
        "frames.native",
        "model.payloads.codec",
        "kernel import",
    ):
        assert theirs not in text
