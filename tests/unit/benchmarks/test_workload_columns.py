"""The benchmarks' job means the same however its functions are written, and wherever a batch ends."""

import pytest
import workload
import workload_columns
from harness.corpus import documents

from flamestream.columns.vectorized import ForVertex
from flamestream.model.graph import Graph
from flamestream.model.time import Time
from flamestream.reference import interpret

LINES = [*documents(30, 40), "7\tone", "8\tone two one"]


def test_the_vectorised_function_makes_the_postings_of_the_other() -> None:
    words = workload_columns.graph.vertices[1].function
    assert words is not None
    assert [words(line) for line in LINES] == [workload.words(line) for line in LINES]


@pytest.mark.parametrize("size", [1, 3, 32])
def test_a_batch_may_end_anywhere(size: int) -> None:
    words = workload_columns.graph.vertices[1].function
    assert isinstance(words, ForVertex)
    made = [
        postings for at in range(0, len(LINES), size) for postings in words.together(LINES[at : at + size])
    ]
    assert made == [workload.words(line) for line in LINES]


@pytest.mark.parametrize(
    "graph", [workload.ready_made, workload_columns.graph, workload_columns.chained, workload_columns.behind]
)
def test_all_graphs_give_the_same_changes(graph: Graph) -> None:
    runs = [(Time(number * 4096), [line]) for number, line in enumerate(LINES, 1)]
    assert interpret(graph, runs)["index"] == interpret(workload.graph, runs)["index"]
