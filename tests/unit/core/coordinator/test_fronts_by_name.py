"""Fronts are found by name: who comes has a number that nobody ever had and begins behind all that was, and who
goes leaves nothing behind that was read and is nowhere."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.core.coordinator.coordination import WriteRecord
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.snapshot import Inventory, SlotOutput
from flamestream.model.ids import SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Time
from support.core.coordinating import SECOND, Bench, running, successor

OUT = SinkName("out")
LEFT, RIGHT = KnownFront("left"), KnownFront("right")


def of(*sources: str, runs: int | None = None) -> Inventory:
    """Contents of a graph with these sources, a front each, which enters so many records at one time."""
    return Inventory(
        sources, (OUT,), (), sources, runs=None if runs is None else dict.fromkeys(sources, runs)
    )


def began(*sources: str, committed: bool = True) -> Bench:
    bench = running(inventory=of(*sources))
    return bench.epoch(5) if committed else bench


def goes_on(old: Bench, *sources: str, nonce: str = "n2", runs: int | None = None, **changes: Any) -> Bench:
    """A start of a graph with these sources, up to its Recover."""
    bench = successor(old, nonce, inventory=of(*sources, runs=runs), **changes).sleep(3 * SECOND)
    for worker in "cd":
        bench.say(bench.hello(f"{worker}{nonce}", graph=bench.settings.graph))
    return bench


def all_opened(bench: Bench, newest: int = 0) -> Bench:
    """A consumer has results of the run at `newest`; 0: of none."""
    last = meta_of(Time(newest), 0) if newest else b""
    for worker in bench.workers:
        outputs = [SlotOutput(OUT, Slot(0), SequenceNumber(1), last)] if worker == bench.workers[0] else []
        bench.opened(worker, last, outputs)
    return bench


def all_sealed(bench: Bench, last: int = 0, left: Iterable[int] = ()) -> Bench:
    """Journals go up to `last`; the fronts `left` have three records above the cut each."""
    for number, worker in enumerate(bench.workers):
        records = dict.fromkeys(map(FrontId, left), 3) if number == 0 else {}
        bench.hear(worker, msg.Sealed(bench.fence, Time(last), records))
    return bench


def test_a_job_begins_with_numbers_in_the_order_of_its_graph() -> None:
    bench = began("left", "right")
    assert bench.record.fronts == (LEFT, RIGHT)
    index = bench.outside.objects[bench.record.index]
    assert index.inventory is not None and index.inventory.fronts == ("left", "right")


@pytest.mark.parametrize(
    "sources", [("new", "left", "right"), ("right", "new", "left"), ("left", "right", "new")]
)
def test_a_source_that_comes_has_a_number_that_nobody_had_and_begins_above_the_bound(
    sources: tuple[str, ...],
) -> None:
    bench = goes_on(began("left", "right"), *sources)
    assert bench.last(msg.Recover).sources == ["left", "right", "new"]
    assert len(bench.record.layout.fronts) == 3
    all_sealed(all_opened(bench), last=40)
    assert bench.record.fronts == (LEFT, RIGHT, KnownFront("new", Time(40)))
    assert bench.last(msg.Replay).begins == {FrontId(2): Time(40)}
    index = bench.epoch(50).outside.objects[bench.record.index]
    assert index.inventory is not None and index.inventory.fronts == ("left", "right", "new")


def test_where_it_begins_is_in_the_record_before_anybody_is_told() -> None:
    bench = goes_on(began("left"), "left", "new")
    all_opened(bench)
    bench.held.add(WriteRecord)
    all_sealed(bench, last=40)
    assert bench.last(msg.Replay) is None
    bench.release(bench.pending.pop())
    assert bench.last(msg.Replay).begins == {FrontId(1): Time(40)}


def test_the_next_attempt_lets_it_begin_where_it_began() -> None:
    first = all_sealed(all_opened(goes_on(began("left"), "left", "new")), last=40)
    second = goes_on(first, "left", "new", nonce="n3")
    all_sealed(all_opened(second, 70), last=80)
    assert second.last(msg.Replay).begins == {FrontId(1): Time(40)}
    assert second.last(msg.Replay).bound == 80


def test_a_number_that_was_given_is_not_given_again_though_nothing_was_committed_with_it() -> None:
    first = all_sealed(all_opened(goes_on(began("left"), "left", "typo")), last=40)
    second = goes_on(first, "left", "right", nonce="n3")
    assert second.last(msg.Recover).sources == ["left", "typo", "right"]


def test_a_source_may_go_once_nothing_of_it_is_above_the_cut() -> None:
    bench = goes_on(began("left", "right"), "right")
    all_sealed(all_opened(bench))
    assert bench.record.fronts == (replace(LEFT, away=True), RIGHT)
    assert bench.last(msg.Replay).begins == {}
    owner, acker = bench.record.layout.fronts[0], bench.record.layout.acker
    assert owner == acker, "who has the fewest fronts seals what nobody reads"
    index = bench.epoch(9).outside.objects[bench.record.index]
    assert index.inventory is not None
    assert (index.inventory.sources, index.inventory.fronts) == (("right",), ("left", "right"))


def test_a_source_does_not_go_with_records_that_are_in_its_journal_alone() -> None:
    bench = all_sealed(all_opened(goes_on(began("left", "right"), "right")), 40, left=[0])
    assert bench.end.category == "user" and bench.last(msg.Replay) is None
    assert (
        "no source 'left' any more, and its journal has 3 records above the committed cut"
        in bench.end.message
    )
    assert "stop the job with a drain" in bench.end.message
    back = all_sealed(all_opened(goes_on(bench, "left", "right", nonce="n3")), 40)
    assert back.last(msg.Replay).begins == {} and back.record.fronts == (LEFT, RIGHT), (
        "as if nothing had been"
    )


def test_a_source_does_not_go_while_consumers_have_results_above_the_cut() -> None:
    bench = all_sealed(all_opened(goes_on(began("left", "right"), "right"), 40), 40)
    assert bench.end.category == "user"
    assert "consumers have results of 1 runs above the committed cut" in bench.end.message


def test_what_it_had_read_is_given_up_where_the_spec_says_so() -> None:
    bench = all_sealed(all_opened(goes_on(began("left", "right"), "right", drop=("left",)), 40), 40, left=[0])
    assert bench.last(msg.Replay) is not None


def test_a_source_that_comes_back_goes_on_above_all_that_was_meanwhile() -> None:
    gone = all_sealed(all_opened(goes_on(began("left", "right"), "right"))).epoch(9)
    bench = all_sealed(all_opened(goes_on(gone, "left", "right", nonce="n3")), last=40)
    assert bench.record.fronts[0] == KnownFront("left", Time(40), again=True)
    assert bench.last(msg.Replay).begins == {FrontId(0): Time(40)}


def test_a_record_without_names_gets_them_with_the_first_commit() -> None:
    old = began("left", "right")
    old.outside.record = replace(old.record, fronts=())
    index = old.outside.objects[old.record.index]
    assert index.inventory is not None
    old.outside.objects[old.record.index] = replace(index, inventory=replace(index.inventory, fronts=()))
    old.outside.record = replace(old.record, index_hash=old.outside.hash(old.record.index))
    refused = goes_on(old, "left", "right", "new", graph="h")
    assert refused.end.category == "user"
    assert "start the graph that wrote it once more, until it has committed an epoch" in refused.end.message

    bench = all_sealed(all_opened(goes_on(old, "left", "right", nonce="n3"))).epoch(9)
    assert bench.record.fronts == (LEFT, RIGHT)
    assert goes_on(bench, "new", "right", nonce="n4").last(msg.Recover).sources == ["left", "right", "new"]


def test_a_record_without_names_is_read_by_the_order_whatever_its_index_says() -> None:
    old = began("left", "right")
    old.outside.record = replace(old.record, fronts=())
    assert "in this order" not in (end := goes_on(old, "right", "left", graph="h").end.message)
    assert "was written before sources were found by name" in end


@pytest.mark.parametrize("committed", [False, True])
def test_fronts_of_one_source_are_as_many_as_they_were(committed: bool) -> None:
    bench = goes_on(began("left", "left", committed=committed), "left", "left", "left")
    assert "source 'left' had 2 fronts, and has 3 now" in bench.end.message


@pytest.mark.parametrize("committed", [False, True])
def test_a_source_gets_its_times_for_good_as_it_got_them_at_its_first_start(committed: bool) -> None:
    old = running(inventory=of("left", runs=1))
    old = old.epoch(5) if committed else old
    assert old.record.fronts == (replace(LEFT, runs=1),)
    refused = goes_on(old, "left", runs=64)
    assert refused.end.category == "user"
    assert "source 'left' got its times by the number of a record, 1 at once" in refused.end.message
    assert refused.record.fronts == (replace(LEFT, runs=1),), "who sets it back goes on"


def test_who_was_refused_with_a_front_more_goes_on_without_it() -> None:
    old = goes_on(began("left", "left", committed=False), "left", "left", "left")
    assert all_sealed(all_opened(goes_on(old, "left", "left", nonce="n3"))).last(msg.Replay) is not None


@pytest.mark.parametrize("changes", [{"two_phase": True}, {"interval_us": None}])
def test_where_nothing_has_left_that_would_come_again_a_source_may_get_other_times(
    changes: dict[str, Any],
) -> None:
    bench = goes_on(running(inventory=of("left", runs=1), **changes), "left", runs=64, **changes)
    assert bench.last(msg.Recover) is not None
    assert bench.record.fronts == (replace(LEFT, runs=64),), "what leaves from here on has these"


def test_numbers_do_not_grow_without_end() -> None:
    old = began("left")
    old.outside.record = replace(old.record, fronts=(LEFT, *[KnownFront("old", away=True)] * 4095))
    assert "there are 4096 in the life of a job" in goes_on(old, "left", "new").end.message


def test_the_fronts_that_are_read_are_shared_evenly_whoever_is_gone() -> None:
    old = began("a", "b", "c", "d")
    bench = goes_on(old, "b", "d")
    owners = bench.record.layout.fronts
    assert {owners[1], owners[3]} == {WorkerId("cn2"), WorkerId("dn2")}
