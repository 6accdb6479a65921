"""What a function may make of one item is bounded, and what comes beyond is the same error item wherever the
function is called."""

import itertools
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

import flamestream as fs
from flamestream.connectors.files.pieces import Given, Stamps
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol import actions
from flamestream.model import payload as codec
from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.model.kernel import kernel
from flamestream.model.payload import ErrorValue
from flamestream.model.stream import Stream
from flamestream.model.time import FrontId
from flamestream.reference import ERRORS, interpret
from flamestream.spark.frames import native as frames_native
from flamestream.spark.frames.tasks import Meaning, walked
from support.core.one_worker import OneWorker

MOST, MOST_BYTES = 1000, 20_000
RECORDS = [1, -1, 2]
"""Of the one in the middle is made too much."""


def endless(number: int) -> Iterator[int]:
    """The attack: 1.4 GB in 6 s."""
    yield from itertools.count() if number < 0 else [number]


def long_list(number: int) -> list[int]:
    return [number] * (MOST + 1 if number < 0 else 1)


def endless_texts(number: int) -> Iterator[str]:
    """Few results, which together are big."""
    while True:
        yield "x" * 500 if number < 0 else str(number)
        if number > 0:
            return


def big(number: int) -> Any:
    return ("é" * 10_000, number) if number < 0 else number


@fs.vectorized(takes=int, makes=int)
def many_at_once(numbers: Any) -> Any:
    return pa.array(
        [[number] * (MOST + 1 if number < 0 else 1) for number in numbers.to_pylist()], pa.list_(pa.int64())
    )


@fs.vectorized(takes=int, makes=str)
def big_at_once(numbers: Any) -> Any:
    return pa.array(["x" * (MOST_BYTES + 1) if number < 0 else str(number) for number in numbers.to_pylist()])


@fs.vectorized(takes=int, makes=str)
def big_together(numbers: Any) -> Any:
    return pa.array(
        [["x" * 500] * (41 if number < 0 else 1) for number in numbers.to_pylist()], pa.list_(pa.string())
    )


MANY = f"it makes more than {MOST} results of one item"
BIG = f"what it makes of one item takes more than {MOST_BYTES} bytes"
ATTACKS: dict[str, tuple[Callable[[Stream[Any]], Stream[Any]], str]] = {
    "a generator without end": (lambda stream: stream.flat_map(endless), MANY),
    "a long list": (lambda stream: stream.flat_map(long_list), MANY),
    "big texts without end": (lambda stream: stream.flat_map(endless_texts), BIG),
    "a big result": (lambda stream: stream.map(big), BIG),
    "many, vectorised": (lambda stream: stream.flat_map(many_at_once), MANY),
    "a big one, vectorised": (lambda stream: stream.map(big_at_once), BIG),
    "big ones, vectorised": (lambda stream: stream.flat_map(big_together), BIG),
}
GRAPHS = pytest.mark.parametrize("attack", ATTACKS)
NATIVE = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)


def graph_of(attack: str) -> Graph:
    graph = Graph("limits", max_results=MOST, max_result_bytes=MOST_BYTES)
    ATTACKS[attack][0](graph.source("docs")).sink("out")
    return graph


def delivered(worker: OneWorker, sink: str) -> list[Any]:
    bundles = (
        bundle
        for action in worker.done
        if isinstance(action, actions.Deliver) and action.sink == sink
        for bundle in action.bundles
    )
    return [
        payload
        for _, payload in sorted(
            (item for bundle in bundles for item in codec.decode_items(bundle.items)), key=itemgetter(0)
        )
    ]


def by_reference(attack: str) -> tuple[list[Any], list[ErrorValue]]:
    graph = graph_of(attack)
    results = interpret(
        graph, [(time, list(some)) for time, _, some in Stamps(FrontId(0), 64).cut(0, RECORDS)]
    )
    return [payload for _, payload in results["out"]], [payload for _, payload in results[ERRORS]]


def what(error: ErrorValue) -> tuple[Any, ...]:
    """All but the place of its record, which who made the run knows."""
    return error.function, error.error, error.message, error.operation, error.payload, error.traceback


@GRAPHS
def test_the_reference_makes_an_error_item_that_names_function_operation_and_input(attack: str) -> None:
    results, (error,) = by_reference(attack)
    assert len(results) == 2
    assert (error.error, error.operation, error.payload) == ("ResultLimit", 1, "-1")
    assert error.message.startswith(ATTACKS[attack][1])
    assert error.function.startswith(__name__)


@GRAPHS
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("parts", [pytest.param("reference"), pytest.param("native", marks=NATIVE)])
def test_a_worker_makes_the_same_error_item_and_goes_on(attack: str, debug: bool, parts: str) -> None:
    worker = OneWorker(graph_of(attack), REFERENCE if parts == "reference" else native(kernel), debug)  # type: ignore[arg-type]
    worker.records(0, RECORDS)
    results, (error,) = by_reference(attack)
    assert delivered(worker, "out") == results
    assert [what(found) for found in delivered(worker, "dead")] == [what(error)]


@GRAPHS
@pytest.mark.parametrize("there", [False, pytest.param(True, marks=NATIVE)])
def test_a_batch_makes_the_same_error_item(monkeypatch: pytest.MonkeyPatch, attack: str, there: bool) -> None:
    monkeypatch.setattr(frames_native, "THERE", there)
    graph = graph_of(attack).validated()

    class Itself:
        def get(self) -> Graph:
            return graph

    given = Given([(time, list(some)) for time, _, some in Stamps(FrontId(0), 64).cut(0, RECORDS)])
    rows = [
        row for batch in walked(Meaning(Itself(), 16, fail=False), [(0, given)]) for row in batch.to_pylist()
    ]
    results, (error,) = by_reference(attack)
    made = sorted((row["meta"], codec.decode(row["payload"])) for row in rows if row["to"] == 2)
    assert [payload for _, payload in made] == results
    assert [what(codec.decode(row["payload"])) for row in rows if row["to"] == len(graph.vertices)] == [
        what(error)
    ]


@pytest.mark.parametrize("parts", [pytest.param("reference"), pytest.param("native", marks=NATIVE)])
def test_a_generator_is_asked_for_one_result_beyond_the_limit_and_closed(parts: str) -> None:
    taken, closed = list[int](), list[int]()

    def counted(number: int) -> Iterator[int]:
        try:
            for each in itertools.count():
                taken.append(each)
                yield each
        finally:
            closed.append(number)

    graph = Graph("limits", max_results=MOST)
    graph.source("docs").flat_map(counted).sink("out")
    worker = OneWorker(graph, REFERENCE if parts == "reference" else native(kernel), debug=False)  # type: ignore[arg-type]
    worker.records(0, [7])
    assert (len(taken), closed) == (MOST + 1, [7])


def test_as_many_and_as_much_as_allowed_is_no_error() -> None:
    graph = Graph("limits", max_results=3, max_result_bytes=30)
    graph.source("docs").flat_map(lambda n: ["x" * 10] * 3).map(lambda text: text * 3).sink("out")
    assert len(interpret(graph, [(Stamps(FrontId(0), 1).time(0), [1])])["out"]) == 3


@pytest.mark.parametrize("limits", [{"max_results": 0}, {"max_result_bytes": 0}])
def test_limits_that_allow_nothing_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="must be at least 1"):
        Graph("limits", **limits)
