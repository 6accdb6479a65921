"""Slots of a running job move when those who get them have their state at hand, and only then."""

from collections.abc import Mapping
from typing import Any

import pytest

from flamestream.core.coordinator.coordination import Pace
from flamestream.core.coordinator.epochs import MOST_REFUSALS
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef
from flamestream.model.ids import Slot
from flamestream.model.time import FrontId, Time
from support.core.coordinating import MS, SECOND, Bench, running, successor

MINUTE = 60 * SECOND
FULL = {0: 40 * SECOND, 1: 10 * SECOND, 2: 2 * SECOND, 3: 2 * SECOND}
"""What each of four slots costs in a minute: of two workers the first is too full."""
EVEN = dict.fromkeys(range(4), 10 * SECOND)
HOT = {0: 50 * SECOND, 1: 0, 2: 2 * SECOND, 3: 2 * SECOND}
STATE = SegmentRef("state", 10, "00", 1, tuple(map(Slot, range(4))))


def tell(bench: Bench, costs: Mapping[int, int], rounds: int = 5) -> Bench:
    """Every worker tells what its slots have cost in a minute; so often."""
    for _ in range(rounds):
        for worker in bench.workers:
            mine = [(slot, costs[slot]) for slot in bench.record.layout.slots_of(worker)]
            keys = [(slot, f"'key of {slot}'") for slot, _ in mine]
            busy = sum(cost for _, cost in mine)
            bench.hear(worker, msg.Busy(bench.fence, MINUTE, busy, mine, 0, keys))
    return bench


def owners(bench: Bench) -> str:
    return "".join(bench.record.layout.owners)


def begun(**changes: int | bool | None) -> Bench:
    """Two workers with two slots each, long after the start, with state committed."""
    bench = running("a", "b", **{"rebalance_pause_us": 0, **changes}).epoch(3, segments=[STATE])
    return bench.clear()


def test_a_slot_moves_from_the_worker_that_is_too_full_for_long() -> None:
    bench = tell(begun(), FULL, rounds=4)
    assert (owners(bench), bench.last(msg.Recover)) == ("aabb", None)
    tell(bench, FULL, rounds=1)
    bench.progress("a", 3).progress("b", 3, warm=True).sleep(MS).saved(3)
    assert owners(bench) == "abbb"
    bench.recover()
    assert (bench.status.kind, bench.status.phase) == ("moved", "running")
    assert "1 slots move" in bench.status.cause


def test_nothing_enters_while_the_epoch_is_taken_that_is_the_next_attempt_s_by_one_write() -> None:
    bench = tell(begun(), FULL).progress("a", 9).progress("b", 9, warm=True).sleep(MS)
    assert not bench.last(msg.Announce).pause, "an ordinary one first: little is left to save"
    attempt = bench.saved(9).record.attempt
    assert (bench.last(msg.Announce).pause, bench.last(msg.Announce).hold) == (True, False)
    assert (owners(bench), bench.record.committed) == ("aabb", 2)
    bench.clear().saved(11)
    assert (owners(bench), bench.record.committed, bench.record.cut) == ("abbb", 3, 11)
    assert (bench.record.attempt, bench.last(msg.Committed)) == (attempt + 1, None)


def test_whoever_is_to_get_slots_and_is_lost_gives_up_the_epoch() -> None:
    bench = running("a", "b", rebalance_pause_us=0).lose("b").sleep(SECOND).recover().connect("c")
    bench.progress("a").progress("c").sleep(MS)
    assert bench.last(msg.Announce, "a").pause
    bench.lose("c").sleep(MS)
    assert bench.last(msg.Abort, "a").epoch == bench.record.announced
    assert bench.cut(3).accept("a", 3).record.committed == 0


def test_where_nothing_can_be_saved_slots_move_without_an_epoch() -> None:
    bench = tell(begun(), FULL).progress("a", 3).progress("b", 3, warm=True).sleep(MS)
    for _ in range(MOST_REFUSALS):
        assert (owners(bench), bench.last(msg.Announce).epoch) == ("aabb", bench.record.announced)
        bench.hear("a", msg.Refused(bench.fence, bench.record.announced, "the store is away"))
        bench.sleep(300 * MS).progress("a", 3).progress("b", 3, warm=True)
    assert (owners(bench), bench.record.committed) == ("abbb", 1)


def test_who_gets_a_slot_reads_its_state_while_the_stream_goes_on() -> None:
    bench = tell(begun(), FULL)
    told = bench.last(msg.Warm, "b")
    assert (told.index.segments, told.slots) == ((STATE,), [1])
    assert bench.last(msg.Warm, "a") is None
    for _ in range(9):
        bench.sleep(SECOND).beat(3)
    assert owners(bench) == "aabb", "it has not read it yet"


def test_with_each_commit_it_is_told_anew() -> None:
    bench = tell(begun(), FULL).epoch(5, segments=[other := SegmentRef("more", 1, "00", 1, (Slot(1),))])
    assert bench.last(msg.Warm, "b").index.segments == (STATE, other)


def test_it_is_not_waited_for_for_ever() -> None:
    bench = tell(begun(warm_us=5 * SECOND), FULL)
    for _ in range(60):
        bench.sleep(100 * MS).beat(3)
    if bench.record.announced > bench.record.committed:
        bench.cut(3).accept("a", 3).accept("b", 3).sleep(MS)
    assert owners(bench) == "abbb"


def test_an_epoch_that_is_pending_is_finished_first() -> None:
    bench = tell(begun(), FULL).sleep(SECOND).beat(9).sleep(MS)
    assert bench.record.announced > bench.record.committed
    bench.progress("a", 12).progress("b", 12, warm=True).sleep(2 * SECOND)
    assert owners(bench) == "aabb"
    # the next epoch is due, but has to wait: else there would be no moment between two
    bench.saved(9).saved(12).saved(12)
    assert (owners(bench), bench.record.cut) == ("abbb", 12)


def test_a_recovery_in_between_calls_it_off_and_what_was_read_is_forgotten() -> None:
    bench = tell(begun(), FULL)
    bench.hear("a", msg.Failed(bench.fence, "retryable", "no memory")).sleep(SECOND).recover().clear()
    assert owners(bench) == "aabb"
    bench.progress("a", 3).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"
    assert bench.last(msg.Warm, "b") == msg.Warm(bench.fence)


def test_even_workers_keep_their_slots() -> None:
    bench = tell(begun(), EVEN, rounds=20).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"


@pytest.mark.parametrize("changes", [{"balance_us": None}, {"interval_us": None}])
def test_a_job_that_is_not_asked_to_or_keeps_no_state_moves_nothing(changes: dict[str, None]) -> None:
    bench = running("a", "b", rebalance_pause_us=0, **changes)
    tell(bench, FULL, rounds=20).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"


def test_moved_slots_stay_moved_through_the_next_recovery() -> None:
    bench = tell(begun(), FULL).progress("a", 3).progress("b", 3, warm=True).sleep(MS).saved(3).recover()
    bench.connect("c").lose("a").sleep(SECOND).recover()
    assert owners(bench) == "cbbb"


def test_a_slot_hotter_than_a_worker_is_a_problem_that_names_its_key() -> None:
    bench = tell(begun(), HOT).sleep(MS)
    (problem,) = bench.status.problems
    assert "slot 0 alone has 1.9 times" in problem and "'key of 0'" in problem
    tell(bench, EVEN).sleep(MS)
    assert bench.status.problems == ()


def test_reports_of_an_older_attempt_move_nothing() -> None:
    bench = begun()
    old = bench.fence
    bench.hear("a", msg.Failed(bench.fence, "retryable", "no memory")).sleep(SECOND).recover()
    for _ in range(9):
        for worker, busy in (("a", 50 * SECOND), ("b", SECOND)):
            bench.hear(worker, msg.Busy(old, MINUTE, busy, [(Slot(0), busy // 2), (Slot(1), busy // 2)]))
    assert bench.progress("b", 3, warm=True).sleep(MS) and owners(bench) == "aabb"


ELASTIC: dict[str, Any] = {
    "most_workers": 3, "standbys": 0, "pace": Pace(up_us=MINUTE, down_us=MINUTE), "balance_us": None,
    "rebalance_pause_us": 0,
}  # fmt: skip


def busy(bench: Bench, share: float, rounds: int = 1) -> Bench:
    """Every worker has been busy for such a share of a minute, for slots that cost the same."""
    return tell(bench, dict.fromkeys(range(4), round(MINUTE * share * len(bench.workers) / 4)), rounds)


def test_more_workers_are_wanted_and_the_one_that_comes_is_given_slots() -> None:
    bench = running("a", **ELASTIC)
    assert bench.status.wanted == 1
    assert busy(bench, 0.9).sleep(MS).status.wanted == 2
    bench.connect("b").sleep(MS).progress("a").progress("b").sleep(MS).saved(0)
    assert bench.workers == ("a", "b")


def test_a_worker_that_is_too_many_hands_its_slots_over_and_is_told_to_stop() -> None:
    bench = running("a", "b", **ELASTIC).epoch(3, segments=[STATE]).clear()
    assert busy(bench, 0.1).sleep(MS).status.wanted == 1
    assert bench.last(msg.Warm, "a").slots == [2, 3]
    assert bench.last(msg.Stop) is None
    bench.progress("a", 3, warm=True).progress("b", 3).sleep(MS).saved(3)
    assert (bench.workers, bench.last(msg.Stop)) == (("a",), None)
    bench.recover().sleep(MS)
    assert "b hands over" in bench.status.cause
    assert bench.last(msg.Stop, "b") is not None and bench.last(msg.Stop, "a") is None
    assert bench.clear().sleep(MS).last(msg.Stop) is None, "once"


def test_a_standby_that_the_job_asks_for_stays() -> None:
    bench = running("a", "b", **{**ELASTIC, "standbys": 1}).connect("c").sleep(MS)
    assert bench.last(msg.Stop) is None
    busy(bench, 0.1).sleep(MS).beat().sleep(MS).saved(0).recover().sleep(MS)
    stopped = [worker for worker, message in bench.told if isinstance(message, msg.Stop)]
    assert (bench.workers, len(stopped)) == (("a",), 1)


def test_where_somebody_else_stops_workers_nobody_is_told_to() -> None:
    bench = running("a", "b", **{**ELASTIC, "standbys": None})
    assert busy(bench, 0.1).sleep(MS).status.wanted == 1
    busy(bench, 0.1, 3).beat().sleep(MS)
    assert bench.workers == ("a", "b") and bench.last(msg.Stop) is None


def test_a_worker_that_is_lost_meanwhile_is_not_replaced_if_it_is_one_too_many() -> None:
    bench = running("a", "b", **ELASTIC).epoch(3, segments=[STATE])
    busy(bench, 0.1).sleep(MS)
    bench.lose("b").sleep(SECOND).recover()
    assert bench.workers == ("a",)


def test_the_next_coordinator_goes_on_with_as_many() -> None:
    bench = running("a", "b", **ELASTIC)
    later = successor(bench, **ELASTIC)
    later.connect("a", "b", ready=bench.fence).sleep(MS)
    assert (later.workers, later.status.wanted) == (("a", "b"), 2)


def test_a_newcomer_that_has_not_read_the_state_yet_is_not_sent_away() -> None:
    bench = running("a", **ELASTIC).epoch(3, segments=[STATE])
    busy(bench, 0.9).sleep(MS).connect("b").progress("a", 3).progress("b").sleep(MS)
    assert bench.workers == ("a",) and bench.last(msg.Stop) is None


def test_no_more_workers_are_wanted_than_there_are_slots() -> None:
    bench = running("a", "b", "c", "d", **{**ELASTIC, "most_workers": 9}).connect("e").sleep(MS)
    assert busy(bench, 0.95, 9).sleep(MS).status.wanted == 4
    assert bench.last(msg.Stop, "e") is not None


def test_under_at_most_once_a_move_skips_nothing() -> None:
    bench = begun(two_phase=True)
    bench.progress("a", 9, reached=[FrontPosition(FrontId(0), Time(9), {})])
    tell(bench, FULL).progress("a", 9).progress("b", 9, warm=True).sleep(MS).saved(9).saved(9)
    assert owners(bench) == "abbb" and bench.last(msg.Recover).reached == []
