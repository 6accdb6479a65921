"""One Spark session for DataFrame jobs a test process, and a graph's results through it as the reference
gives them."""

import atexit
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flamestream.connectors.files.pieces import Given
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta
from flamestream.model.time import Time, front_of
from flamestream.reference import ERRORS, Results
from flamestream.spark.frames.job_graph import ByValue
from flamestream.spark.frames.pipeline import results_of
from flamestream.spark.frames.session import frames_settings, session_of
from flamestream.spark.frames.tasks import Meaning
from flamestream.spark.streaming.session import SparkDriver
from support.docs.examples import EXAMPLES

TESTS = Path(__file__).parents[2]
Runs = Sequence[tuple[Time, Sequence[Any]]]


@cache
def spark_session() -> Any:
    """Started at the first call, ended with the process: a start takes seconds."""
    scratch = tempfile.TemporaryDirectory(prefix="flamestream-spark-")
    driver = SparkDriver(
        frames_settings(
            cores=2,
            scratch=Path(scratch.name) / "spark",
            python_path=(TESTS, EXAMPLES, EXAMPLES / "event_time"),
        )
    )
    atexit.register(scratch.cleanup)
    atexit.register(driver.close)
    return session_of(driver)


def batch_results(graph: Graph, runs: Runs, *, slots: int = 16, partitions: int = 2) -> Results:
    """What each sink gets, as the reference interpreter gives it, with error items under ERRORS."""
    meaning = Meaning(ByValue.of(graph), slots, fail=False)
    rows = results_of(spark_session(), meaning, pieces(graph, runs), partitions=partitions).collect()
    return sorted_results(graph, [(row.to, bytes(row.meta), bytes(row.payload)) for row in rows])


def pieces(graph: Graph, runs: Runs, count: int = 3) -> list[tuple[int, Given]]:
    """The runs in some pieces, round robin: no piece has neighbours."""
    vertices = [vertex.id for vertex in graph.sources]
    groups: dict[tuple[int, int], list[tuple[Time, Sequence[Any]]]] = defaultdict(list)
    for number, (time, records) in enumerate(runs):
        groups[vertices[front_of(time)], number % count].append((time, records))
    return [(vertex, Given(tuple(group))) for (vertex, _), group in groups.items()]


def sorted_results(graph: Graph, rows: Sequence[tuple[int, bytes, bytes]]) -> Results:
    names = {vertex.id: vertex.name for vertex in graph.sinks} | {len(graph.vertices): ERRORS}
    results: Results = {name: [] for name in names.values()}
    for to, meta, payload in sorted(rows):
        results[names[to]].append((Meta(meta), codec.decode(payload)))
    return results


def encoded(results: Results) -> dict[str, list[tuple[bytes, bytes]]]:
    """For a comparison byte by byte."""
    return {
        name: [(bytes(meta), codec.encode(value)) for meta, value in items] for name, items in results.items()
    }
