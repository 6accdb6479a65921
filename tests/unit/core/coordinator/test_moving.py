"""Slots of a running job move when those who get them have their state at hand, and only then."""

from collections.abc import Mapping

import pytest

from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import Slot
from support.core.coordinating import MS, SECOND, Bench, running

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
    bench.progress("a", 3).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "abbb"
    bench.recover()
    assert (bench.status.kind, bench.status.phase) == ("moved", "running")
    assert "1 slots move" in bench.status.cause


def test_who_gets_a_slot_reads_its_state_while_the_stream_goes_on() -> None:
    bench = tell(begun(), FULL)
    told = bench.last(msg.Warm, "b")
    assert (told.segments, told.slots) == ([STATE], [1])
    assert bench.last(msg.Warm, "a") is None
    for _ in range(9):
        bench.sleep(SECOND).beat(3)
    assert owners(bench) == "aabb", "it has not read it yet"


def test_with_each_commit_it_is_told_anew() -> None:
    bench = tell(begun(), FULL).epoch(5, segments=[other := SegmentRef("more", 1, "00", 1, (Slot(1),))])
    assert bench.last(msg.Warm, "b").segments == [STATE, other]


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
    bench.progress("a", 9).progress("b", 9, warm=True).sleep(MS)
    assert owners(bench) == "aabb"
    bench.cut(9).accept("a", 9).accept("b", 9).sleep(MS)
    assert (owners(bench), bench.record.cut) == ("abbb", 9)


def test_a_recovery_in_between_calls_it_off_and_what_was_read_is_forgotten() -> None:
    bench = tell(begun(), FULL)
    bench.hear("a", msg.Failed(bench.fence, "retryable", "no memory")).sleep(SECOND).recover().clear()
    assert owners(bench) == "aabb"
    bench.progress("a", 3).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"
    assert bench.last(msg.Warm, "b") == msg.Warm([])


def test_even_workers_keep_their_slots() -> None:
    bench = tell(begun(), EVEN, rounds=20).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"


@pytest.mark.parametrize("changes", [{"balance_us": None}, {"interval_us": None}])
def test_a_job_that_is_not_asked_to_or_keeps_no_state_moves_nothing(changes: dict[str, None]) -> None:
    bench = running("a", "b", rebalance_pause_us=0, **changes)
    tell(bench, FULL, rounds=20).progress("b", 3, warm=True).sleep(MS)
    assert owners(bench) == "aabb"


def test_moved_slots_stay_moved_through_the_next_recovery() -> None:
    bench = tell(begun(), FULL).progress("a", 3).progress("b", 3, warm=True).sleep(MS).recover()
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
