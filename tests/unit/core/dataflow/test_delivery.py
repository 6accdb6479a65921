"""Barrier and delivery: final results leave once, in order, as bundles that never change."""

from collections.abc import Callable
from typing import Any

import pytest

from flamestream.core.dataflow.barrier import Barrier, Result
from flamestream.core.dataflow.delivery import Delivery
from flamestream.core.dataflow.native import NativeDelivery
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, SinkName, Slot
from flamestream.model.kernel import kernel
from flamestream.model.meta import Meta, child, meta_of
from flamestream.model.time import END, START, Time

SINK = SinkName("out")


def _result(time: int, slot: int = 0, value: object = None, position: int = 0) -> Result:
    return meta_of(Time(time), position), Slot(slot), f"v{time}.{position}" if value is None else value


def _open(
    last: dict[Slot, LastBundle] | None = None, cut: Time = START, compare: bool = True, most: int = 100
) -> Delivery:
    delivery = Delivery(SINK, cut, most)
    delivery.opened(last or {}, compare)
    return delivery


def _last(sequence: int, *results: Result) -> LastBundle:
    items = [(meta, payload) for meta, _, payload in results]
    return LastBundle(SequenceNumber(sequence), items[-1][0], codec.encode_items(items))


def _native(most: int) -> Any:
    if kernel is None:
        pytest.skip("this installation has no native kernel: there was no Rust compiler")
    return NativeDelivery(kernel, SINK, START, most)


def put(delivery: Any, results: list[Result]) -> None:
    """Release these into it."""
    if isinstance(delivery, Delivery):
        delivery.put(results)
        return
    assert kernel is not None
    barrier = kernel.Barrier()
    for meta, slot, payload in results:
        barrier.hold(meta, slot, payload)
    delivery.put(barrier.release(END))


def test_a_barrier_releases_what_is_below_minimal_time_in_order() -> None:
    barrier = Barrier()
    for result in [_result(3), _result(1, position=1), _result(1), _result(2)]:
        barrier.hold(*result)
    assert barrier.release(Time(3)) == [_result(1), _result(1, position=1), _result(2)]
    assert barrier.release(Time(3)) == []
    assert len(barrier) == 1


def test_a_tombstone_takes_the_version_that_it_names() -> None:
    barrier = Barrier()
    barrier.hold(*_result(1, value="old"))
    barrier.hold(*_result(1, value="new"))
    barrier.drop(meta_of(Time(1), 0), "old")
    assert barrier.release(Time(2)) == [_result(1, value="new")]


def test_a_tombstone_without_its_item_is_a_bug() -> None:
    barrier = Barrier()
    barrier.hold(*_result(1, value="new"))
    with pytest.raises(UserError, match="two results for one input"):
        barrier.drop(meta_of(Time(1), 0), "old")


def test_one_call_is_in_flight_and_the_next_takes_all_that_waits() -> None:
    delivery = _open()
    delivery.put([_result(1)])
    first = delivery.next_call()
    assert first is not None and [bundle.sequence for bundle in first] == [1]
    delivery.put([_result(2), _result(3, slot=1)])
    assert delivery.next_call() is None
    delivery.acknowledged(1)
    second = delivery.next_call()
    assert second is not None
    assert [(bundle.slot, bundle.sequence, bundle.t_last) for bundle in second] == [
        (0, 2, _result(2)[0]),
        (1, 1, _result(3)[0]),
    ]


def _of_record(time: int, record: int, number: int) -> Result:
    """The `number`-th result of a record, in a slot of its own."""
    return child(meta_of(Time(time), record), number), Slot(number), f"v{time}.{record}.{number}"


@pytest.mark.parametrize("make", [_open, _native])
def test_what_a_record_leads_to_is_in_one_call_unless_it_is_more_than_a_call_may_have(
    make: Callable[..., Any],
) -> None:
    records = [(1, 0), (1, 200), (2, 0)]
    delivery, calls = make(most=5), list[int]()
    put(delivery, [_of_record(*record, number) for record in records for number in range(3)])
    put(delivery, [_of_record(3, 0, number) for number in range(7)])
    while (call := delivery.next_call()) is not None:
        calls.append(sum(len(codec.decode_items(bundle.items)) for bundle in call))
        delivery.acknowledged(delivery.number)
    assert calls == [3, 3, 3, 5, 2]


def test_settled_is_the_oldest_time_that_a_consumer_may_lack() -> None:
    delivery = _open(most=1)
    assert delivery.settled == END
    delivery.put([_result(4), _result(6)])
    delivery.next_call()
    assert delivery.settled == 4
    delivery.acknowledged(1)
    assert delivery.settled == 6
    delivery.next_call()
    delivery.acknowledged(2)
    assert delivery.settled == END


def test_an_acknowledgement_of_an_older_call_settles_nothing() -> None:
    delivery = _open(most=1)
    delivery.put([_result(4), _result(6)])
    delivery.next_call()
    delivery.acknowledged(1)
    delivery.next_call()
    delivery.acknowledged(1)
    assert delivery.settled == 6


def test_a_replay_drops_what_the_consumer_has_and_goes_on_in_sequence() -> None:
    delivery = _open({Slot(0): _last(5, _result(2), _result(3))})
    delivery.put([_result(1), _result(2), _result(3), _result(4)])
    call = delivery.next_call()
    assert call is not None
    assert [(bundle.sequence, codec.decode_items(bundle.items)) for bundle in call] == [
        (6, [(_result(4)[0], "v4.0")])
    ]


@pytest.mark.parametrize(
    ("replay", "what"),
    [
        ([_result(2, value="other")], "was delivered as"),
        ([_result(3)], "not computed again"),
        ([_result(4)], "not computed again"),
        ([_result(2), _result(2, position=1)], "was not delivered before"),
    ],
)
def test_a_replay_that_differs_from_the_last_bundle_is_an_error(replay: list[Result], what: str) -> None:
    delivery = _open({Slot(0): _last(5, _result(2), _result(3))})
    with pytest.raises(UserError, match=what):
        delivery.put(replay)


def test_what_does_not_come_again_is_an_error_though_nothing_comes_behind_it() -> None:
    delivery = _open({Slot(0): _last(5, _result(2), _result(3)), Slot(1): _last(2, _result(2, slot=1))})
    delivery.put([_result(2), _result(2, slot=1)])
    delivery.passed(Time(3))
    with pytest.raises(UserError, match=r"slot 0.*time 3 .*not computed again"):
        delivery.passed(Time(4))


def test_items_of_the_last_bundle_below_the_cut_are_not_expected_again() -> None:
    delivery = _open({Slot(0): _last(5, _result(2), _result(3))}, cut=Time(3))
    delivery.put([_result(3), _result(4)])
    assert delivery.waiting == 1


def test_at_least_once_repeats_instead_of_filtering() -> None:
    delivery = _open({Slot(0): _last(5, _result(2))}, compare=False)
    delivery.put([_result(1), _result(2)])
    call = delivery.next_call()
    assert call is not None and call[0].sequence == 6 and len(codec.decode_items(call[0].items)) == 2


def test_what_a_slot_released_is_known_for_the_manifest() -> None:
    delivery = _open()
    delivery.put([_result(1), _result(2, slot=7)])
    assert [(output.slot, Meta(output.t_last)) for output in delivery.outputs()] == [
        (0, _result(1)[0]),
        (7, _result(2)[0]),
    ]
