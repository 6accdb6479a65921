"""A graph as DataFrame jobs gives the bytes of the reference interpreter, on the examples and on drawn
graphs."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from flamestream.job.application import load
from flamestream.reference import ERRORS, interpret
from support.docs.examples import JOBS, example_file
from support.frames.frame_graphs import drawn, runs_of
from support.frames.session import batch_results, encoded

pytestmark = [pytest.mark.spark, pytest.mark.frames]
SEEDS = st.integers(0, 1 << 32)


@pytest.mark.parametrize("example", JOBS)
def test_examples_give_the_bytes_of_the_reference(example: str) -> None:
    graph, runs = load(example_file(f"{example}.py"), "graph"), runs_of(example)
    expected = interpret(graph, runs)
    assert bool(expected[ERRORS]) == (example == "turnover"), "only its data has a line that is none"
    assert encoded(batch_results(graph, runs)) == encoded(expected)


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
