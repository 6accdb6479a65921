"""The kernel's walk and fold give the rows of their reference, byte for byte, whatever the graph and wherever
batches end."""

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flamestream.columns import vectorized
from flamestream.connectors.files.pieces import Given, Piece, Stamps
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.stream import Stream
from flamestream.model.time import FrontId
from flamestream.simulation import graphs
from flamestream.simulation.jobs import ready
from flamestream.spark.frames import native
from flamestream.spark.frames.rows import HALT, SCHEMA
from flamestream.spark.frames.stages import stages_of
from flamestream.spark.frames.tasks import Meaning, RunLevel, walked
from support.frames.frame_jobs import graph_of, lines

pytestmark = pytest.mark.skipif(not native.THERE, reason="the native kernel is not built")
SLOTS = 16
DRAWN = (
    graphs.sometimes_raising,
    graphs.scatter,
    graphs.concatenation,
    graphs.rekey,
    graphs.windows,
    graphs.rounds,
)


class AsItIs:
    """`JobGraph` of this process."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph.validated()

    def get(self) -> Graph:
        return self._graph


def pieces(seed: int, sources: int = 2) -> list[tuple[int, Piece]]:
    made: list[tuple[int, Piece]] = []
    for number in range(sources):
        stamps = Stamps(FrontId(number), 7)
        records: list[Any] = lines(seed + number, 40).splitlines()
        records[11] = ErrorValue("source", "BadRow", "row 12")
        runs = [(time, tuple(some)) for time, _, some in stamps.cut(0, records)]
        made.append((number, Given(runs)))
    return made


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def in_batches(rows: list[tuple[Any, ...]], size: int) -> list[Any]:
    return [batch_of(rows[at : at + size]) for at in range(0, len(rows), size)]


def batch_of(rows: list[tuple[Any, ...]]) -> Any:
    return pa.record_batch(
        [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def all_rows(meaning: Meaning, given: list[tuple[int, Piece]], size: int) -> list[list[tuple[Any, ...]]]:
    """What each level gives, from the walk to the last."""
    stages = stages_of(meaning.graph.get())
    rows = rows_of(walked(meaning, given))
    levels = [sorted(rows)]
    for level in range(1, stages.depth + 1):
        rows.sort(key=lambda row: (stages.of.get(row[0], row[0]), row[2], row[3]))
        rows = rows_of(RunLevel(meaning, level, 1)(in_batches(rows, size)))
        levels.append(sorted(rows))
    return levels


def drawn(seed: int) -> Graph:
    rng = Random(seed)
    stages: list[Callable[[Stream[Any]], Stream[Any]]] = [
        lambda stream, stage=stage: stage(Random(seed), stream)  # type: ignore[misc]
        for stage in rng.sample(DRAWN, rng.randrange(1, len(DRAWN)))
    ]
    return graph_of(*stages)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("fail", [False, True])
def test_rows_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch, seed: int, fail: bool) -> None:
    meaning = Meaning(AsItIs(drawn(seed)), SLOTS, fail)
    found = all_rows(meaning, pieces(seed), size=5 + seed)
    monkeypatch.setattr(native, "THERE", False)
    assert found == all_rows(meaning, pieces(seed), size=1000)
    assert any(row[0] == HALT for row in found[0]) == fail


def test_an_item_is_seen_by_several_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("doors")
    stream = graph.source("s0").map(str)
    stream.merge(graph.source("s1")).group(2, key=len).sink("windows")
    stream.reduce(key=str, initial=int, combine=lambda count, _: count + 1).sink("counts")
    meaning = Meaning(AsItIs(graph), SLOTS, fail=False)
    found = all_rows(meaning, pieces(1), size=3)
    monkeypatch.setattr(native, "THERE", False)
    assert found == all_rows(meaning, pieces(1), size=1000)


@pytest.mark.parametrize("size", [1, 300])
def test_vectorised_functions_are_asked_about_the_records_of_a_run_together(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Also where rows are full in the middle of it."""
    calls: list[int] = []

    def several(numbers: Any) -> Any:
        calls.append(len(numbers))
        return pa.array([range(size)] * len(numbers), pa.list_(pa.int64()))

    def negated(numbers: Any) -> Any:
        calls.append(len(numbers))
        return pc.negate(numbers)

    graph = Graph("batch")
    made = (
        graph.source("s0")
        .flat_map(vectorized(takes=int, makes=int)(several))
        .map(vectorized(takes=int, makes=int)(negated))
    )
    made.sink("out")
    stamps = Stamps(FrontId(0), 100)
    given: list[tuple[int, Piece]] = [
        (0, Given([(time, list(some)) for time, _, some in stamps.cut(0, range(100))]))
    ]
    meaning = Meaning(AsItIs(graph), SLOTS, fail=False)
    found = rows_of(walked(meaning, given))
    assert calls == [100, 100 * size] and len(found) == 100 * size
    monkeypatch.setattr(native, "THERE", False)
    assert found == rows_of(walked(meaning, given))


@pytest.mark.parametrize("seed", range(20))
def test_ready_made_and_vectorised_functions_give_the_rows_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    job = ready.ready_job(rng)
    stamps, records = Stamps(FrontId(0), 7), [job.record(rng, number) for number in range(60)]
    runs = [(time, tuple(some)) for time, _, some in stamps.cut(0, records)]
    given: list[tuple[int, Piece]] = [(vertex.id, Given(runs)) for vertex in job.graph.sources[:1]]
    meaning = Meaning(AsItIs(job.graph), SLOTS, fail=False)
    found = all_rows(meaning, given, size=9)
    monkeypatch.setattr(native, "THERE", False)
    assert found == all_rows(meaning, given, size=1000) and found[0]
