"""Capacity: standbys wait and are kept warm, newcomers get slots when they have the state at hand."""

from flamestream.core.coordinator.epochs import MOST_REFUSALS
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import (
    Slot,
)
from support.core.coordinating import MS, SECOND, running

STATE = SegmentRef("state", 10, "00", 1, (Slot(0),))


def test_more_workers_than_wanted_are_standbys_and_are_told_nothing() -> None:
    bench = running("a", "b")
    bench.connect("c").run_for(5 * SECOND)
    assert bench.workers == ("a", "b")
    assert bench.last(msg.Recover, "c") is None
    assert bench.status.standbys == ("c",)


def test_a_standby_is_told_what_is_committed_when_it_is_and_when_the_standby_comes() -> None:
    segment = SegmentRef("s", 1, "c", 1, (Slot(0),))
    bench = running("a", "b")
    bench.connect("c").epoch(10, segments=[segment])
    assert bench.last(msg.Warm, "c").index.segments == (segment,)
    bench.clear().connect("d")
    assert bench.last(msg.Warm, "d") is not None
    assert bench.last(msg.Warm, "a") is None, "who has slots has their state"


def test_a_worker_that_joins_a_short_handed_job_gets_slots() -> None:
    bench = running("a", "b", rebalance_pause_us=5 * SECOND).lose("b").sleep(SECOND).recover()
    assert bench.workers == ("a",)
    bench.connect("c").run_for(4 * SECOND, 3)
    assert bench.workers == ("a",)
    bench.clear().run_for(7 * SECOND, 3)
    for epoch in range(bench.record.committed, bench.record.announced):
        bench.cut(3, epoch + 1).accept("a", 3, epoch=epoch + 1)
    bench.run_for(SECOND, 3)
    bench.saved(3)
    assert list(bench.workers) == ["a", "c"]


def test_slots_of_living_workers_wait_until_the_newcomer_has_the_state_at_hand() -> None:
    bench = (
        running("a", "b", rebalance_pause_us=0, interval_us=SECOND)
        .epoch(3, segments=[STATE])
        .lose("b")
        .sleep(SECOND)
        .recover()
    )
    bench.connect("c")
    for _ in range(50):
        bench.sleep(100 * MS).progress("a", 3).progress("c")
    assert bench.workers == ("a",)
    bench.progress("c", warm=True).sleep(100 * MS).saved(3)
    assert list(bench.workers) == ["a", "c"]


def test_they_wait_for_an_epoch_so_that_a_recovery_has_least_to_replay() -> None:
    bench = running("a", "b", rebalance_pause_us=0).epoch(3).lose("b").sleep(SECOND).recover().clear()
    bench.progress("a", 9).connect("c").sleep(100 * MS).progress("a", 9).progress("c")
    assert bench.last(msg.Announce) is not None and list(bench.workers) == ["a"]
    assert bench.saved(9).last(msg.Announce).pause and list(bench.workers) == ["a"]
    assert bench.saved(11).last(msg.Recover).cut == 11


def test_a_newcomer_whose_store_is_away_gets_slots_after_a_while() -> None:
    bench = (
        running("a", "b", rebalance_pause_us=0, warm_us=10 * SECOND)
        .epoch(3, segments=[STATE])
        .lose("b")
        .sleep(SECOND)
        .recover()
    )
    bench.connect("c")
    for _ in range(101):
        bench.sleep(100 * MS).progress("a", 3).progress("c")
    for _ in range(MOST_REFUSALS):
        assert list(bench.workers) == ["a"]
        bench.hear("a", msg.Refused(bench.fence, bench.record.announced, "the store is away"))
        bench.sleep(300 * MS).progress("a", 3).progress("c").sleep(MS)
    assert list(bench.workers) == ["a", "c"]


def test_where_no_state_is_committed_nobody_is_waited_for() -> None:
    bench = running("a", "b", rebalance_pause_us=0).epoch(3).lose("b").sleep(SECOND).recover().connect("c")
    bench.sleep(100 * MS).progress("a", 3).progress("c").saved(3)
    assert list(bench.workers) == ["a", "c"]


def test_a_standby_that_has_the_state_at_hand_takes_over_first_but_not_a_silent_one() -> None:
    bench = running("a", "b").epoch(3).connect("c", "d")
    bench.progress("d", warm=True).progress("c", after_us=50 * MS)
    assert bench.lose("b").workers == ("a", "d")
    bench = running("a", "b").epoch(3).connect("c", "d")
    bench.progress("d", warm=True).progress("c", after_us=900 * MS)
    assert bench.lose("b").workers == ("a", "c")


def test_rebalancing_can_be_switched_off() -> None:
    bench = (
        running("a", "b", rebalance=False).lose("b").sleep(SECOND).recover().connect("c").run_for(20 * SECOND)
    )
    assert bench.workers == ("a",)


def test_what_a_standby_cannot_do_is_a_problem_of_the_job() -> None:
    bench = running("a", "b").connect("c").progress("c", problem="it cannot read").sleep(MS)
    assert bench.status.problems == ("c: it cannot read",)
    assert bench.progress("c").sleep(MS).status.problems == ()
