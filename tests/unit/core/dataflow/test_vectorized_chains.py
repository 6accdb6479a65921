"""Vectorised functions behind each other are asked about batches: one call for all items that are at hand,
with the reference's results."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import flamestream as fs
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol import actions
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.kernel import kernel
from flamestream.model.stream import Stream
from flamestream.simulation.jobs.chains import Count
from support.core.one_worker import OneWorker

pytestmark = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)


class Counted:
    """Vectorised functions over ints that say how many items each of their calls got."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = {}

    def __call__(self, name: str, function: Callable[[Any], Any], makes: Any = int) -> Any:
        self.calls[name] = []

        def called(numbers: Any) -> Any:
            self.calls[name].append(len(numbers))
            return function(numbers)

        return fs.vectorized(takes=int, makes=makes)(called)


def results(
    graph: Graph, records: Iterable[Any], *, parts: Any = None, debug: bool = False
) -> tuple[list[Any], list[Any]]:
    """(what is delivered, what failed), all records at hand at once."""
    assert kernel is not None
    worker = OneWorker(graph, parts or native(kernel), debug)
    worker.records(0, list(records))
    delivered: dict[str, list[Any]] = {"out": [], "dead": []}
    for action in worker.done:
        if isinstance(action, actions.Deliver):
            for bundle in action.bundles:
                delivered[action.sink] += codec.decode_items(bundle.items)
    return sorted(delivered["out"], key=itemgetter(0)), sorted(delivered["dead"], key=itemgetter(0))


def graph_of(*stages: Callable[[Stream[Any]], Stream[Any]]) -> Graph:
    graph = Graph("chain")
    stream: Stream[Any] = graph.source("docs")
    for stage in stages:
        stream = stage(stream)
    stream.sink("out")
    return graph


def plus_one(numbers: Any) -> Any:
    return pc.add(numbers, 1)


def below(numbers: Any) -> Any:
    return pa.array([range(number % 3) for number in numbers.to_pylist()], pa.list_(pa.int64()))


def odd(numbers: Any) -> Any:
    return pc.equal(pc.bit_wise_and(numbers, 1), 1)


def no_seven(numbers: Any) -> Any:
    if 7 in numbers.to_pylist():
        raise ValueError("seven")
    return numbers


def test_a_map_behind_a_map_is_called_once_a_batch() -> None:
    made = Counted()
    one, other = made("one", plus_one), made("other", plus_one)
    delivered, _ = results(graph_of(lambda s: s.map(one).map(other)), range(100))
    assert [payload for _, payload in delivered] == [number + 2 for number in range(100)]
    assert made.calls == {"one": [100], "other": [100]}


def test_so_are_a_map_and_a_filter_behind_a_flat_map() -> None:
    made = Counted()
    first, then, stays, last = (
        made("below", below),
        made("then", plus_one),
        made("odd", odd, bool),
        made("last", plus_one),
    )
    delivered, _ = results(graph_of(lambda s: s.flat_map(first).map(then).filter(stays).map(last)), range(9))
    assert [payload for _, payload in delivered] == [2] * 6
    assert made.calls == {"below": [9], "then": [9], "odd": [9], "last": [6]}


def test_a_filter_at_a_source_is_called_once_a_batch() -> None:
    made = Counted()
    stays, then = made("odd", odd, bool), made("then", plus_one)
    results(graph_of(lambda s: s.filter(stays).map(then)), range(10))
    assert made.calls == {"odd": [10], "then": [5]}


def test_an_ordinary_function_in_between_does_not_take_batches_apart() -> None:
    made = Counted()
    one, other = made("one", plus_one), made("other", plus_one)
    results(
        graph_of(
            lambda s: s.map(lambda n: n).map(one).map(lambda n: n - 1).flat_map(lambda n: [n]).map(other)
        ),
        range(50),
    )
    assert made.calls == {"one": [50], "other": [50]}


def test_ways_that_part_and_meet_are_asked_about_a_batch_each() -> None:
    made = Counted()
    one, other, both = made("one", plus_one), made("other", plus_one), made("both", plus_one)
    results(graph_of(lambda s: s.map(one).merge(s.map(other)).map(both)), range(20))
    assert made.calls == {"one": [20], "other": [20], "both": [20, 20]}


def test_a_function_behind_a_fold_is_asked_about_all_results_of_a_pass() -> None:
    made = Counted()
    one, other = made("one", plus_one), made("other", plus_one)
    stages = [
        lambda s: s.reduce(key=lambda n: n % 4, initial=int, combine=lambda total, n: total + n),
        lambda s: s.map(one),
        lambda s: s.group(1, key=lambda n: n).map(lambda window: window[0]),
        lambda s: s.map(other),
    ]
    delivered = results(graph_of(*stages), range(40))
    assert made.calls == {"one": [40], "other": [40]}
    assert delivered == results(graph_of(*stages), range(40), parts=REFERENCE)


def test_what_stays_on_this_worker_is_one_batch_behind_a_door() -> None:
    made = Counted()
    one, other = made("one", plus_one), made("other", plus_one)
    stages = [lambda s: s.map(one).balance(lambda n: n).map(other)]
    delivered = results(graph_of(*stages), range(30))
    assert made.calls == {"one": [30], "other": [30]}
    assert delivered == results(graph_of(*stages), range(30), parts=REFERENCE)


def test_columns_go_from_function_to_function_without_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are made for nobody."""
    monkeypatch.setattr("flamestream.columns.batch.payloads", None)
    made = Counted()
    struct = fs.vectorized(takes=int, makes=Count)(
        lambda n: pa.StructArray.from_arrays([pc.cast(n, pa.string()), n], ["key", "amount"])
    )
    kept = fs.vectorized(takes=Count, makes=bool)(lambda counts: odd(counts.field("amount")))
    amount = fs.vectorized(takes=Count, makes=int)(lambda counts: counts.field("amount"))
    delivered, failed = results(
        graph_of(lambda s: s.flat_map(made("below", below)).map(struct).filter(kept).map(amount)), range(9)
    )
    assert [payload for _, payload in delivered] == [1] * 3 and not failed


@pytest.mark.parametrize("debug", [False, True])
def test_what_one_item_raises_is_its_own_error(debug: bool) -> None:
    """Half a batch after the other is asked again, down to the item at fault."""
    made = Counted()
    one, refusing, last = made("one", plus_one), made("refusing", no_seven), made("last", plus_one)
    stages = [lambda s: s.map(one).map(refusing).map(last)]
    found = results(graph_of(*stages), range(64), debug=debug)
    if not debug:
        assert (
            made.calls["one"] == [64]
            and made.calls["last"] == [63]
            and len(made.calls["refusing"]) == 2 * 6 + 1
        )
    assert found == results(graph_of(*stages), range(64), parts=REFERENCE, debug=debug)
    assert [error.message for _, error in found[1]] == ["seven"]


def test_debug_mode_names_a_function_deep_in_a_chain_whose_results_depend_on_the_batch() -> None:
    made = Counted()
    stages = [
        lambda s: (
            s.map(made("one", plus_one))
            .map(made("among", lambda n: pc.subtract(n, pc.min(n))))
            .map(made("last", plus_one))
        )
    ]
    delivered, failed = results(graph_of(*stages), range(5), debug=True)
    assert not delivered
    assert {error.error for _, error in failed} == {"DependsOnBatch"} and len(failed) == 5
