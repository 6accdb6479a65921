"""Output of two phases: in the snapshot first, with the consumer behind the commit, the same bytes after a
crash."""

from typing import Any

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.held_outputs import HeldOutputs
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol.actions import Deliver
from flamestream.core.protocol.chain import Chain, chains_of
from flamestream.core.protocol.events import BundlesAcknowledged, LastBundle, SinkOpened
from flamestream.model.ids import Attempt, Epoch, Fence, LayoutVersion, SinkName, Slot
from flamestream.model.meta import meta_of
from flamestream.model.time import START, Time

FENCE = Fence(Attempt(1), LayoutVersion(1))
SINK = SinkName("out")


def made(cut: int = 0, most_items: int = 10) -> HeldOutputs:
    return HeldOutputs(FENCE, {3: SINK}, Time(cut), most_items, REFERENCE)


def barrier_of(outputs: HeldOutputs) -> Barrier:
    barrier = outputs.barriers[3]
    assert isinstance(barrier, Barrier)
    return barrier


def filled(*times: int, most_items: int = 10) -> HeldOutputs:
    outputs = made(most_items=most_items)
    outputs.resume([])
    for time in times:
        barrier_of(outputs).hold(meta_of(Time(time), 0), Slot(time % 2), f"r{time}")
    outputs.release(Time(max(times) + 1))
    return outputs


def acknowledge(outputs: HeldOutputs, call: Deliver) -> int:
    return outputs.acknowledged(BundlesAcknowledged(FENCE, SINK, call.number))[1]


def held(outputs: HeldOutputs, epoch: int = 1) -> list[Chain]:
    return chains_of(outputs.prepare(Epoch(epoch)))


def test_nothing_leaves_before_the_commit() -> None:
    outputs = filled(5, 6)
    assert len(outputs.prepare(Epoch(1))) == 2 and outputs.calls() == []
    outputs.commit(Time(7))
    (call,) = outputs.calls()
    assert {bundle.slot for bundle in call.bundles} == {0, 1}
    assert outputs.settled(Time(9)) == START
    assert acknowledge(outputs, call) == 2
    assert outputs.settled(Time(9)) == 7


def test_an_aborted_epoch_leaves_its_output_to_the_next() -> None:
    outputs = filled(5)
    first = outputs.prepare(Epoch(1))
    barrier_of(outputs).hold(meta_of(Time(8), 0), Slot(0), "r8")
    outputs.release(Time(9))
    second = outputs.prepare(Epoch(2))
    assert [row.state for row in first] == [second[0].state] and len(second) == 2


def test_the_next_epoch_waits_for_what_the_committed_one_holds() -> None:
    outputs = filled(5)
    assert outputs.needed(Time(6)) == START
    outputs.prepare(Epoch(1))
    outputs.commit(Time(6))
    assert outputs.needed(Time(9)) == 6 > outputs.settled(Time(9))


def test_a_crash_behind_the_commit_delivers_the_same_bytes() -> None:
    before = filled(5, 6, 7, most_items=1)
    chains = held(before)
    before.commit(Time(8))
    delivered: list[Any] = []
    while calls := before.calls():
        delivered += calls[0].bundles
        acknowledge(before, calls[0])
    after = made(8)
    after.opened(SinkOpened(FENCE, SINK, {}), compare=True)
    after.resume(chains)
    again: list[Any] = []
    while calls := after.calls():
        again += calls[0].bundles
        acknowledge(after, calls[0])
    assert sorted(again) == sorted(delivered) and len(again) == 3


def test_what_the_consumer_has_is_not_delivered_again() -> None:
    before = filled(5, 7, most_items=1)
    chains = held(before)
    before.commit(Time(8))
    (first,) = before.calls()[0].bundles
    after = made(8)
    after.opened(
        SinkOpened(FENCE, SINK, {first.slot: LastBundle(first.sequence, first.t_last, first.items)}),
        compare=True,
    )
    after.resume(chains)
    (call,) = after.calls()
    assert [bundle.sequence for bundle in call.bundles] == [first.sequence + 1]


def test_a_call_has_a_slot_once() -> None:
    after = made(8)
    after.opened(SinkOpened(FENCE, SINK, {}), compare=True)
    after.resume(held(filled(4, 5, 6, 7, most_items=1)))
    while calls := after.calls():
        slots = [bundle.slot for bundle in calls[0].bundles]
        assert len(slots) == len(set(slots))
        acknowledge(after, calls[0])
    assert after.settled(Time(8)) == 8
