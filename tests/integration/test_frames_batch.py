"""A graph as DataFrame jobs gives the bytes of the reference interpreter, on the examples and on drawn graphs."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import flamestream as fs
from flamestream.adapters.application import load
from flamestream.model.graph import Graph
from flamestream.model.records import Document
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.testing import graphs
from flamestream.testing.reference import ERRORS, interpret
from support.frames import EXAMPLES, batch_results, encoded

pytestmark = [pytest.mark.spark, pytest.mark.frames]
SEEDS = st.integers(0, 1 << 32)


def at(timestamp: int, front: int = 0) -> Time:
    return time_of(Timestamp(timestamp), FrontId(front))


def lines_of(name: str) -> list[str]:
    return (EXAMPLES / "data" / name).read_text().splitlines()


def runs_of(example: str) -> list[tuple[Time, list[Any]]]:
    if example in ("inverted_index", "kafka_search"):
        files = sorted(Path(__file__).parents[2].glob("docs/*.md"))
        found = [(file.name, file.read_text()) for file in files]
        made = [Document(*each) if example == "inverted_index" else fs.Map({"name": each[0], "text": each[1]}) for each in found]
        return [(at(number, 0), [record]) for number, record in enumerate(made, 1)]
    if example == "two_front_merge":
        inputs = [(front, lines_of(f"{name}.txt")) for front, name in enumerate(("prices", "orders"))]
        return sorted((at(number, front), [line]) for front, lines in inputs for number, line in enumerate(lines, 1))
    data = {"concatenation": "letters", "minute_counts": "events", "turnover": "sales"}
    lines = lines_of(f"{data.get(example, 'lines')}.txt")
    return [(at(number + 1), lines[number : number + 3]) for number in range(0, len(lines), 3)]


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.yaml")))
def test_examples_give_the_bytes_of_the_reference(example: str) -> None:
    graph, runs = load(EXAMPLES / f"{example}.py", "graph"), runs_of(example)
    expected = interpret(graph, runs)
    assert bool(expected[ERRORS]) == (example == "turnover"), "only its data has a line that is none"
    assert encoded(batch_results(graph, runs)) == encoded(expected)


def drawn(seed: int, records: int = 40) -> tuple[Graph, list[tuple[Time, list[Any]]]]:
    rng = Random(seed)
    job = graphs.drawn_job(rng)
    runs, timestamp = [], 0
    while records > 0:
        timestamp += rng.choice([0, 1, 50])
        front = rng.randrange(job.sources)
        count = rng.randint(1, 5)
        time = at(timestamp, front)
        if not any(time == other for other, _ in runs):
            runs.append((time, [job.record(rng, records - i) for i in range(count)]))
            records -= count
    return job.graph, sorted(runs, key=lambda run: run[0])


@given(SEEDS)
@examples(max_examples=10)
def test_drawn_graphs_give_the_bytes_of_the_reference(seed: int) -> None:
    graph, runs = drawn(seed)
    assert encoded(batch_results(graph, runs)) == encoded(interpret(graph, runs))


@pytest.mark.slow
@given(st.integers(1 << 32, 1 << 40))
@examples(max_examples=150)
def test_many_drawn_graphs_do(seed: int) -> None:
    graph, runs = drawn(seed, records=80)
    assert encoded(batch_results(graph, runs, partitions=1 + seed % 4)) == encoded(interpret(graph, runs))
