"""Losses: what counts as a failure of a running stream, and who takes over.

A worker is lost by its connection, its silence, its peers' word or Kubernetes'; a stream by a time that does
not move.
"""

from flamestream.core.coordinator.coordination import (
    Disconnect,
    WorkerGone,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    WorkerId,
)
from flamestream.model.time import FrontId, Time
from support.core.coordinating import MS, SECOND, Bench, running, successor


def lost_link(bench: Bench, worker: str, peer: str) -> Bench:
    return bench.hear(worker, msg.PeerLost(bench.fence, WorkerId(peer), "reset"))


def test_a_standby_takes_over_at_once() -> None:
    bench = running("a", "b").connect("c").lose("b")
    assert list(bench.workers) == ["a", "c"]
    assert bench.record.attempt == 2
    assert bench.count(msg.Recover) == 2


def test_the_record_is_written_before_anybody_hears_of_the_attempt() -> None:
    bench = running("a", "b").connect("c")
    bench.held.add(WriteRecord)
    bench.lose("b").sleep(SECOND)
    assert bench.told == []
    bench.release(bench.pending.pop())
    assert bench.last(msg.Recover).assignment.fence == bench.fence == Fence(Attempt(2), LayoutVersion(2))


def test_a_relaunched_worker_takes_over_as_soon_as_it_is_there() -> None:
    bench = running("a", "b", grace_us=700 * MS).lose("b").sleep(400 * MS)
    assert bench.status.phase == "waiting"
    assert bench.record.attempt == 1
    bench.connect("b2")
    assert bench.workers == ("a", "b2")


def test_after_the_grace_the_survivors_take_over() -> None:
    bench = running("a", "b", grace_us=700 * MS).lose("b").sleep(650 * MS)
    assert bench.record.attempt == 1
    bench.sleep(100 * MS)
    assert bench.workers == ("a",)
    assert bench.recover().status.phase == "running"


def test_without_any_worker_it_waits() -> None:
    bench = running("a", "b").lose("a", "b").sleep(60 * SECOND)
    assert bench.record.attempt == 1
    assert bench.finish is None
    bench.connect("c")
    assert bench.workers == ("c",)


def test_a_connection_that_comes_back_disturbs_nothing() -> None:
    bench = (
        running("a", "b")
        .lose("b")
        .sleep(300 * MS)
        .connect("b", ready=Fence(Attempt(1), LayoutVersion(1)))
        .run_for(3 * SECOND)
    )
    assert bench.record.attempt == 1
    assert bench.status.phase == "running"
    assert bench.count(msg.Recover) == 0


def test_a_worker_that_comes_back_is_told_what_it_missed() -> None:
    bench = running("a", "b").epoch(5)
    bench.run_for(SECOND, 9).clear()
    bench.lose("b").connect("b", ready=bench.fence)
    assert bench.last(msg.Committed, "b") == msg.Committed(bench.fence, Epoch(1), Time(5))
    assert bench.last(msg.Abort, "a") == bench.last(msg.Abort, "b") == msg.Abort(bench.fence, Epoch(2))


def test_a_worker_that_somebody_missed_does_not_just_come_back() -> None:
    bench = running("a", "b").lose("b")
    lost_link(bench, "a", "b")
    bench.connect("b", ready=Fence(Attempt(1), LayoutVersion(1))).sleep(30 * MS)
    assert bench.record.attempt == 2
    assert bench.workers == ("a", "b")


def test_a_worker_that_comes_back_unready_is_recovered() -> None:
    bench = running("a", "b").lose("b").connect("b")
    assert bench.record.attempt == 2


def test_a_broken_link_between_living_workers_is_healed_with_the_same_ones() -> None:
    bench = lost_link(running("a", "b"), "a", "b")
    assert bench.record.attempt == 1  # perhaps b has died: wait for word of that
    bench.sleep(30 * MS)
    assert bench.record.attempt == 2
    assert bench.fence.layout == LayoutVersion(1)
    assert bench.workers == ("a", "b")


def test_a_broken_link_to_a_dead_worker_is_one_recovery_not_two() -> None:
    bench = lost_link(running("a", "b").connect("c"), "a", "b").lose("b").sleep(50 * MS)
    assert bench.record.attempt == 2
    assert list(bench.workers) == ["a", "c"]


def test_a_silent_worker_is_lost() -> None:
    bench = running("a", "b", heartbeat_us=3 * SECOND)
    for _ in range(39):
        bench.sleep(100 * MS).progress("a", 1)
    assert any(isinstance(action, Disconnect) and action.worker == "b" for action in bench.actions)
    assert bench.workers == ("a",)


def test_two_workers_that_fall_silent_with_their_node_are_lost_together() -> None:
    bench = running("a", "b", heartbeat_us=2 * SECOND).connect("c").connect("d")
    bench.progress("a", 1, after_us=50 * MS).progress("b", 1, after_us=50 * MS).clear()
    bench.sleep(2 * SECOND)
    assert bench.workers == ("c", "d")
    assert bench.record.attempt == 2


def test_a_silent_standby_is_not_chosen_for_a_worker_that_left() -> None:
    bench = running("a", "b", heartbeat_us=2 * SECOND).connect("c").connect("d")
    bench.progress("c").progress("d")
    for _ in range(25):
        bench.sleep(100 * MS).progress("a", 1).progress("b", 1).progress("c")
    bench.lose("b").sleep(SECOND)
    assert list(bench.workers) == ["a", "c"]
    assert [action.worker for action in bench.actions if isinstance(action, Disconnect)] == ["d"]


def test_a_worker_that_missed_a_few_beats_is_not_lost_with_a_silent_one() -> None:
    bench = running("a", "b", heartbeat_us=2 * SECOND).connect("c")
    for _ in range(12):
        bench.progress("a", 1, after_us=100 * MS)
    bench.sleep(900 * MS)
    assert list(bench.workers) == ["a", "c"]


def test_a_coordinator_that_was_paused_does_not_blame_the_workers() -> None:
    bench = running("a", "b").run_for(SECOND, 1)
    bench.progress("a", 2, after_us=60 * SECOND).progress("b", 2).run_for(SECOND, 3)
    assert bench.record.attempt == 1
    assert not any(isinstance(action, Disconnect) for action in bench.actions)


def test_the_word_that_a_worker_is_gone_counts_as_a_loss() -> None:
    bench = running("a", "b").connect("c").say(WorkerGone(WorkerId("b")))
    assert list(bench.workers) == ["a", "c"]


def test_a_time_that_stays_in_flight_leads_to_a_recovery() -> None:
    bench = running("a", "b", stuck_us=5 * SECOND).run_for(4900 * MS, 1, oldest=Time(9))
    assert bench.record.attempt == 1
    bench.run_for(300 * MS, 1, oldest=Time(9))
    assert bench.record.attempt == 2
    assert "in flight" in bench.status.cause


def test_a_worker_that_does_not_hear_minimal_time_leads_to_a_recovery() -> None:
    bench = running("a", "b", stuck_us=5 * SECOND)
    assert bench.record.layout.acker == "b"
    for _ in range(49):
        bench.sleep(100 * MS).progress("b", 9).progress("a", 5)
    assert bench.record.attempt == 1
    for _ in range(3):
        bench.sleep(100 * MS).progress("b", 9).progress("a", 5)
    assert bench.record.attempt == 2
    assert "a has not heard" in bench.status.cause


def test_a_worker_that_is_always_a_little_behind_is_not_stuck() -> None:
    bench = running("a", "b", stuck_us=5 * SECOND)
    for time in range(100):
        bench.sleep(100 * MS).progress("b", time + 1).progress("a", time)
    for _ in range(100):
        bench.sleep(100 * MS).progress("a", 100).progress("b", 100)
    assert bench.record.attempt == 1


def test_a_time_that_moves_is_not_stuck() -> None:
    bench = running("a", "b", stuck_us=5 * SECOND)
    for time in range(10):
        bench.run_for(SECOND, time, oldest=Time(time + 1))
    assert bench.record.attempt == 1


def test_a_retryable_failure_is_healed_with_the_same_workers() -> None:
    bench = running("a", "b")
    bench.hear("a", msg.Failed(bench.fence, "retryable", "store away"))
    assert bench.record.attempt == 2
    assert "store away" in bench.status.cause


def test_the_status_tells_the_last_recovery() -> None:
    bench = running("a", "b").connect("c").lose("b")
    assert bench.status.phase == "recovering"
    bench.opened("a").opened("c").sealed("a")
    bench.hear("c", msg.Sealed(bench.fence, Time(0)), after_us=40 * MS)
    assert (bench.status.recoveries, bench.status.cause, bench.status.duration_us) == (2, "lost b", 40 * MS)


def test_a_replay_is_a_step_once_the_acker_says_that_it_is_through() -> None:
    bench = running("a", "b").connect("c").lose("b").recover()
    acker = bench.record.layout.acker
    other = next(worker for worker in bench.workers if worker != acker)
    before = dict(bench.status.steps)
    assert list(before) == ["decide", "record", "open", "seal"]
    bench.progress(other, 5, replay_us=3 * MS).progress(acker, 5)
    assert dict(bench.status.steps) == before, "minimal time is the acker's word"
    bench.progress(acker, 6, replay_us=2 * MS).progress(acker, 7, replay_us=2 * MS)
    assert dict(bench.status.steps) == before | {"replay": 2 * MS}
    bench.connect("d").lose(other)
    assert "replay" not in dict(bench.status.steps), "another recovery begins"


def test_of_an_attempt_that_was_adopted_no_step_is_told() -> None:
    old = running().epoch(5)
    bench = successor(old).connect("a", "b", ready=old.fence)
    bench.progress(bench.record.layout.acker, 6, replay_us=2 * MS)
    assert bench.status.steps == ()


def test_the_next_attempt_hears_how_far_fronts_had_come_unless_nothing_has_failed() -> None:
    """Under `at-most-once`: what had entered is skipped behind a failure, and not when a worker joins."""
    bench = running("a", "b", rebalance_pause_us=0)
    old, new = (
        FrontPosition(FrontId(0), Time(time), {Partition("p"): Offset(time)}, records=time) for time in (3, 5)
    )
    other = FrontPosition(FrontId(1), Time(4), {Partition("q"): Offset(4)}, records=4)
    bench.progress("a", reached=[old]).progress("b", reached=[other]).progress("a", reached=[new])
    bench.lose("b").sleep(SECOND)
    assert bench.last(msg.Recover).reached == [new, other]
    bench.recover().clear().connect("c").run_for(SECOND).saved(0)
    assert bench.status.kind == "joined"
    assert bench.last(msg.Recover).reached == []
