"""Dataflow: where an item goes, under which meta and which cause."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from flamestream.core.dataflow.dataflow import Dataflow
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.errors import PayloadError
from flamestream.model.failure import located
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.model.meta import Meta, child, components, meta_of
from flamestream.model.payload import ErrorValue
from flamestream.model.slot import INT32_MAX, INT32_MIN, slot_of
from flamestream.model.stream import Stream
from flamestream.model.time import START, Time
from flamestream.model.vertex import name_of

ME, OTHER = WorkerId("me"), WorkerId("other")
SLOTS = 8
AT = meta_of(Time(7), 0)
LATER = meta_of(Time(9), 0)


@dataclass
class Seen:
    """What left the dataflow."""

    sent: list[tuple[WorkerId, int, int, Meta, Any, bool]] = field(default_factory=list)
    results: list[tuple[int, Slot, Meta, Any, bool]] = field(default_factory=list)
    errors: list[tuple[Meta, ErrorValue, bool]] = field(default_factory=list)

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: Any, tombstone: bool
    ) -> None:
        self.sent.append((owner, cause, vertex, meta, payload, tombstone))

    def send_gathered(self, owner: WorkerId, cause: Time, items: object) -> None:
        raise AssertionError("the reference sends item by item")

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        return located(error, "in", None, vertex)

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        self.errors.append((meta, error, tombstone))

    def late(self, meta: Meta, number: int, tombstone: bool) -> None:
        raise AssertionError("no graph here has a program in event time")


@dataclass
class Sink:
    """A barrier that only writes down."""

    vertex: int
    seen: Seen

    def hold(self, meta: Meta, slot: Slot, payload: Any) -> None:
        self.seen.results.append((self.vertex, slot, meta, payload, False))

    def drop(self, meta: Meta, payload: Any) -> None:
        self.seen.results.append((self.vertex, Slot(-1), meta, payload, True))


def noted(order: list[Any], payload: Any) -> Any:
    order.append(payload)
    return payload


def _reset(flow: Dataflow, seen: Seen, owners: list[WorkerId]) -> None:
    sinks: Any = {vertex: Sink(vertex, seen) for vertex in range(flow.errors + 1)}
    flow.reset(owners, sinks)


def _flow(
    build: Callable[[Stream[Any]], Stream[Any]],
    mine: Callable[[int], bool] = lambda slot: True,
    **changes: Any,
) -> tuple[Dataflow, Seen]:
    graph = Graph("g")
    build(graph.source("s")).sink("out", key=lambda p: p[0] if isinstance(p, tuple) else p)
    seen = Seen()
    flow = Dataflow(graph.validated(), WorkerSettings("j", SLOTS, (), **changes), ME, LiveCuts(START), seen)
    _reset(flow, seen, [ME if mine(slot) else OTHER for slot in range(SLOTS)])
    return flow, seen


def _run(flow: Dataflow, *items: tuple[Meta, int, Any, bool], vertex: int = 0) -> None:
    flow.run([(meta, Time(cause), vertex, payload, tombstone) for meta, cause, payload, tombstone in items])


def _item(payload: Any, meta: Meta = AT, cause: int = 7, gone: bool = False) -> tuple[Meta, int, Any, bool]:
    return meta, cause, payload, gone


def test_a_result_goes_to_the_slot_of_its_canonical_key() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p))
    for payload in (1, True, 1.0, "1"):
        _run(flow, _item(payload))
    assert [slot for _, slot, _, _, _ in seen.results] == [
        slot_of(codec.encode(payload), SLOTS) for payload in (1, True, 1.0, "1")
    ]


def test_what_another_worker_owns_is_sent_under_the_current_cause() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p + "!"), mine=lambda slot: False)
    _run(flow, _item("x", cause=3), _item("x", LATER, cause=4, gone=True))
    sink = 2
    assert seen.sent == [(OTHER, 3, sink, AT, "x!", False), (OTHER, 4, sink, LATER, "x!", True)]
    assert not seen.results


def test_a_layout_is_followed_from_the_next_item_on() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p))
    _reset(flow, seen, [OTHER] * SLOTS)
    _run(flow, _item("x"))
    assert seen.sent and not seen.results


def test_an_item_that_was_routed_here_is_taken_here() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p), mine=lambda slot: False)
    _run(flow, _item("x"), vertex=2)
    assert [payload for _, _, _, payload, _ in seen.results] == ["x"] and not seen.sent


def test_a_pass_is_done_in_the_order_of_metas_an_item_before_its_tombstone() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p))
    _run(flow, _item("b", LATER, 9), _item("a", AT, 7, gone=True), _item("a", AT, 9))
    assert [(payload, gone) for _, _, _, payload, gone in seen.results] == [
        ("a", False),
        ("a", True),
        ("b", False),
    ]


def test_children_follow_their_index_and_several_edges_their_place() -> None:
    def build(stream: Stream[Any]) -> Stream[Any]:
        words = stream.flat_map(lambda p: p.split())
        return words.map(str.upper).merge(words)

    flow, seen = _flow(build)
    _run(flow, _item("x y"))
    metas = {meta: payload for _, _, meta, payload, _ in seen.results}
    assert [metas[meta] for meta in sorted(metas)] == ["X", "x", "Y", "y"]
    assert set(metas) == {child(child(AT, index), edge) for index in (0, 1) for edge in (0, 1)}


def test_a_flat_map_of_many_results_keeps_their_order() -> None:
    flow, seen = _flow(lambda s: s.flat_map(range))
    _run(flow, _item(5000))
    assert [payload for _, _, _, payload, _ in sorted(seen.results, key=lambda result: result[2])] == list(
        range(5000)
    )


def test_a_tombstone_goes_the_way_of_its_item_and_a_late_item_s_inherits_its_cause() -> None:
    flow, seen = _flow(lambda s: s.group(2, key=lambda p: p[0]).map(lambda w: w[-1] + w[0]))
    _run(flow, _item(("k", 9), LATER, 9))
    flow.owners = [OTHER] * SLOTS
    flow.run([(AT, Time(7), 1, ("k", 7), False)])
    assert [(cause, meta, payload, gone) for _, cause, _, meta, payload, gone in seen.sent] == [
        (7, LATER, ("k", 9, "k", 9), True), (7, AT, ("k", 7, "k", 7), False),
        (7, LATER, ("k", 9, "k", 7), False)
    ]  # fmt: skip


def test_a_loop_comes_after_everything_before_it_in_the_total_order() -> None:
    order: list[Any] = []

    def build(stream: Stream[Any]) -> Stream[Any]:
        head = stream.graph.loop("again", max_iterations=2)
        turned = stream.merge(head).map(lambda p: (noted(order, p)[0], p[1] + 1))
        head.close(turned.filter(lambda p: p[1] < 2))
        return turned.filter(lambda p: p[1] >= 2)

    flow, seen = _flow(build)
    _run(flow, _item(("a", 0)), _item(("b", 0), LATER, 9))
    assert order == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [payload for _, _, _, payload, _ in seen.results] == [("a", 2), ("b", 2)]


def test_a_loop_without_end_is_an_error_item_that_names_it() -> None:
    def build(stream: Stream[Any]) -> Stream[Any]:
        head = stream.graph.loop("forever", max_iterations=3)
        turned = stream.merge(head).filter(lambda p: True)
        head.close(turned)
        return turned.filter(lambda p: False)

    flow, seen = _flow(build)
    _run(flow, _item("x"))
    ((_, error, gone),) = seen.errors
    assert (error.error, gone) == (
        "LoopLimit",
        False,
    ) and "'forever' goes round more than 3 times" in error.message


def test_what_went_round_is_forgotten_with_the_attempt() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p))
    flow._round.append((AT, 1, Time(7), 1, "old", False))
    _reset(flow, seen, [ME] * SLOTS)
    _run(flow, _item("new"))
    assert [payload for _, _, _, payload, _ in seen.results] == ["new"]


def test_after_new_runs_that_failed_the_next_attempt_puts_nothing_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PayloadError("a set cannot be a payload")

    with monkeypatch.context() as patched:
        patched.setattr(Seen, "send", refuse)
        flow, seen = _flow(lambda s: s.map(lambda p: p), mine=lambda slot: False)
    with pytest.raises(PayloadError):
        flow.share([(AT, Time(7), 0, "old", False)])
    _reset(flow, seen, [ME] * SLOTS)
    _run(flow, _item("new"))
    assert [payload for _, _, _, payload, _ in seen.results] == ["new"]


# --- balance ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "slot"), [(INT32_MIN, 0), (-1, SLOTS // 2 - 1), (0, SLOTS // 2), (INT32_MAX, SLOTS - 1)]
)
def test_a_balancing_function_places_the_key_in_the_int32_range(value: int, slot: int) -> None:
    asked: list[Any] = []

    def place(key: Any) -> int:
        asked.append(key)
        return value

    flow, seen = _flow(lambda s: s.balance(place).group(1, key=lambda p: p[0]), mine=lambda s: s != slot)
    _run(flow, _item(("k", 1)))
    assert [owner for owner, *_ in seen.sent] == [OTHER]
    assert asked == ["k"]


@pytest.mark.parametrize("value", [INT32_MAX + 1, INT32_MIN - 1, True, 1.0, None])
def test_a_balancing_function_that_gives_no_int32_is_an_error_that_names_it(value: Any) -> None:
    def place(payload: Any) -> Any:
        return value

    flow, seen = _flow(lambda s: s.balance(place).map(lambda p: p), debug=True)
    _run(flow, _item("x"))
    ((_, error, _),) = seen.errors
    assert (error.function, error.error) == (name_of(place), "UserError")
    assert f"{name_of(place)} returned {value!r}: it must return an int32" in error.message


def test_a_key_that_fails_is_the_key_s_fault_even_if_there_is_a_balancing_function() -> None:
    def key(payload: Any) -> Any:
        raise KeyError("none")

    flow, seen = _flow(lambda s: s.balance(lambda k: 0).group(2, key=key))
    _run(flow, _item("x"))
    ((meta, error, _),) = seen.errors
    assert (error.function, error.error, error.message, error.operation) == (
        name_of(key),
        "KeyError",
        "'none'",
        1,
    ) and meta == child(AT, 1)
    assert error.payload == "'x'" and error.traceback[-1].endswith("in " + key.__qualname__)


def test_an_error_s_tombstone_is_an_error_too() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: 1 // p))
    _run(flow, _item(0), _item(0, gone=True))
    assert [(error.error, gone) for _, error, gone in seen.errors] == [
        ("ZeroDivisionError", False),
        ("ZeroDivisionError", True),
    ]


def test_dead_letters_are_placed_by_their_content() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: 1 // p), dead_letter=SinkName("dead"))
    _run(flow, _item(0))
    ((sink, slot, _, error, _),) = seen.results
    assert (sink, slot) == (flow.errors, slot_of(codec.encode(error), SLOTS)) and not seen.errors
    _reset(flow, seen, [OTHER] * SLOTS)
    _run(flow, _item(0))
    ((owner, _, vertex, meta, payload, _),) = seen.sent
    assert (owner, vertex) == (OTHER, flow.errors)
    _run(flow, _item(payload, meta), vertex=flow.errors)
    assert seen.results[-1][1:4] == (slot, meta, error)


def test_keys_that_were_seen_before_are_placed_alike_however_many() -> None:
    flow, seen = _flow(lambda s: s.map(lambda p: p))
    words = [str(number) for number in range(200)] * 2
    _run(flow, *(_item(word) for word in words))
    assert [slot for _, slot, *_ in seen.results] == [slot_of(codec.encode(word), SLOTS) for word in words]


@pytest.mark.parametrize("indices", [[], [0], [127, 128, 16383, 16384], [(1 << 21), (1 << 28), 5]])
def test_components_counts_the_steps_of_a_trace(indices: list[int]) -> None:
    meta = meta_of(Time(5), 0)
    for index in indices:
        meta = child(meta, index)
    assert components(meta) == 1 + len(indices)


def test_a_loop_with_two_ways_in_does_not_tie() -> None:
    def build(stream: Stream[Any]) -> Stream[Any]:
        head = stream.graph.loop("again", max_iterations=1)
        head.close(
            stream.merge(head.filter(lambda p: False))
            .filter(lambda p: True)
            .merge(head.filter(lambda p: False))
        )
        return head.map(lambda p: p + "1").merge(head.map(lambda p: p + "2"))

    flow, seen = _flow(build)
    _run(flow, _item("x"))
    assert len({meta for _, _, meta, _, _ in seen.results}) == len(seen.results) == 2


def _looping() -> tuple[Dataflow, list[Any]]:
    """A graph in which everything goes round once, and the payloads in the order in which they did."""
    order: list[Any] = []

    def build(stream: Stream[Any]) -> Stream[Any]:
        head = stream.graph.loop("again", max_iterations=1)
        head.close(stream.merge(head.filter(lambda p: False)).filter(lambda p: True))
        return head.map(lambda p: noted(order, p))

    return _flow(build)[0], order


def test_versions_of_one_item_go_round_in_the_order_they_came() -> None:
    """Their payloads need not compare."""
    flow, order = _looping()
    handlers = flow._handlers[0]
    for payload in ("new", 2.5, 1):
        handlers(AT, payload, False)
    flow.run([])
    assert order == ["new", 2.5, 1]


def test_an_item_and_its_tombstone_that_both_wait_to_go_round_annihilate() -> None:
    flow, order = _looping()
    handlers = flow._handlers[0]
    for payload, gone in (("old", True), ("new", False), ("old", False), ("new", True), ("newest", False)):
        handlers(AT, payload, gone)
    flow.run([])
    assert order == ["newest"]
