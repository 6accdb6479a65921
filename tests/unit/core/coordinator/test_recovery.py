"""Failures of a running stream, and recoveries that are interrupted."""

import msgspec
import pytest

from flamestream.core.coordinator.coordination import (
    Disconnect,
    ReadManifest,
    RecordUnknown,
    WorkerConnected,
    WorkerGone,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SlotOutput
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Time
from support.core.coordinating import MS, SECOND, Bench, running

STATE = SegmentRef("state", 10, "00", 1, (Slot(0),))


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


# --- during a recovery ---


@pytest.mark.parametrize("opened", [[], ["a"], ["a", "c"]])
@pytest.mark.parametrize("sealed", [[], ["a"]])
def test_a_loss_during_a_recovery_begins_another(opened: list[str], sealed: list[str]) -> None:
    bench = running("a", "b").connect("c", "d").lose("b")
    for worker in opened:
        bench.opened(worker)
    for worker in sealed if len(opened) == 2 else []:
        bench.sealed(worker)
    bench.lose("c").sleep(SECOND)
    assert bench.record.attempt == 3
    assert bench.workers == ("a", "d")
    assert bench.recover().status.phase == "running"
    assert bench.last(msg.Replay).fence == bench.fence


def test_a_loss_while_the_attempt_is_being_written_begins_another() -> None:
    bench = running("a", "b").connect("c", "d")
    bench.held.add(WriteRecord)
    bench.lose("b").lose("c")
    write = bench.pending.pop()
    bench.held.clear()
    bench.release(write).sleep(SECOND)
    assert bench.record.attempt == 3
    assert [
        message.assignment.fence.attempt for _, message in bench.told if isinstance(message, msg.Recover)
    ] == [3, 3]


def test_a_worker_that_reconnects_during_a_recovery_begins_another() -> None:
    bench = running("a", "b").connect("c").lose("b").opened("a")
    bench.lose("a").connect("a").sleep(SECOND)
    assert bench.record.attempt == 3
    assert bench.last(msg.Recover, "a").assignment.fence.attempt == 3


def test_answers_of_an_older_attempt_count_for_nothing() -> None:
    bench = running("a", "b")
    old = bench.fence
    bench.connect("c").lose("b")
    bench.opened("a", fence=old).opened("c", fence=old)
    assert bench.last(msg.Seal) is None
    bench.opened("a").opened("c").sealed("a", fence=old).sealed("c")
    assert bench.last(msg.Replay) is None


def test_journals_are_sealed_by_who_knows_which_runs_at_or_above_the_cut_were_delivered() -> None:
    bench = running("a", "b").epoch(5).connect("c").lose("b")
    ends = [(slot, bytes(meta_of(Time(time), 0))) for slot, time in enumerate((3, 9, 5, 9))]
    outputs = [SlotOutput(SinkName("s"), Slot(slot), SequenceNumber(1), end) for slot, end in ends]
    bench.opened("a", outputs=outputs[:2]).opened("c", outputs=outputs[2:])
    assert bench.last(msg.Seal).released == [5, 9]


def test_answers_of_a_standby_count_for_nothing() -> None:
    bench = running("a", "b").connect("c", "d").lose("b")
    bench.opened("d").opened("c")
    assert list(bench.workers) == ["a", "c"]
    assert bench.last(msg.Seal) is None


def test_recoveries_that_come_to_nothing_are_paced() -> None:
    bench = running("a", "b")
    for _ in range(20):
        bench.hear("a", msg.Failed(bench.fence, "retryable", "store away"))
    assert bench.record.attempt <= 4
    bench.run_for(20 * SECOND)
    assert bench.finish is None
    assert bench.recover().status.phase == "running"


# --- doubts and rivals ---


@pytest.mark.parametrize("took_effect", [True, False])
def test_an_attempt_with_unknown_outcome_is_settled_by_reading(took_effect: bool) -> None:
    bench = running("a", "b").connect("c")
    bench.held.add(WriteRecord)
    bench.lose("b")
    write = bench.pending.pop()
    assert isinstance(write, WriteRecord)
    bench.held.clear()
    if took_effect:
        bench.outside.write(write.record, write.version)
    bench.say(RecordUnknown("timeout"))
    assert bench.count(msg.Recover) == 0
    bench.sleep(SECOND)
    assert bench.record == write.record
    assert bench.last(msg.Recover).assignment.fence.attempt == 2


def test_a_coordinator_whose_attempt_was_taken_steps_back() -> None:
    bench, rival = running("a", "b"), None
    rival = Bench(bench.outside, "n2", discovery_us=0).say().connect("x", "y")
    assert rival.record.attempt == 2
    bench.clear().connect("c").lose("b")
    assert bench.end.outcome == "fenced"
    assert bench.told == []
    assert rival.recover().status.phase == "running"


def test_even_the_same_layout_by_a_rival_is_not_mistaken_for_ones_own() -> None:
    bench = running("a", "b").connect("c")
    bench.held.add(WriteRecord)
    bench.lose("b")
    (write,) = bench.pending
    assert isinstance(write, WriteRecord)
    rival = Bench(bench.outside, "n2").say().connect("a", "c").sleep(3 * SECOND)
    assert rival.record.layout == write.record.layout
    assert rival.record.attempt == write.record.attempt
    bench.held.clear()
    bench.say(RecordUnknown("timeout")).sleep(SECOND)
    assert bench.end.outcome == "fenced"


def test_a_worker_that_knows_a_newer_attempt_makes_it_look() -> None:
    bench = running("a", "b")
    Bench(bench.outside, "n2", discovery_us=0).say().connect("x", "y")
    bench.say(bench.hello("x", bench.fence))
    assert bench.end.outcome == "fenced"


def test_a_store_that_is_slow_to_give_the_manifest_costs_no_worker() -> None:
    bench = running("a", "b").epoch(5)
    bench = Bench(bench.outside, "n2", discovery_us=0).say()
    bench.held.add(ReadManifest)
    bench.connect("x", "y").sleep(60 * SECOND)  # they have no fence yet, and so nothing to report
    bench.held.clear()
    bench.release(bench.pending.pop())
    assert bench.record.attempt == 2
    assert bench.count(msg.Recover) == 2


def test_a_late_write_of_the_predecessor_is_not_a_rival() -> None:
    old = running("a", "b").run_for(SECOND, 5)
    old.held.add(WriteRecord)
    old.cut(5).accept("a", 5).accept("b", 5)
    bench = Bench(old.outside, "n2").say()
    bench.held.add(WriteRecord)
    bench.connect("a", "c").sleep(3 * SECOND)
    old.carry_out(old.pending.pop(), force=True)
    write = bench.pending.pop()
    bench.held.clear()
    bench.release(write).sleep(3 * SECOND)
    assert bench.finish is None
    assert bench.record.attempt == 2
    assert bench.last(msg.Recover).epoch == 1


# --- capacity ---


def test_a_worker_that_joins_a_short_handed_job_gets_slots() -> None:
    bench = running("a", "b", rebalance_pause_us=5 * SECOND).lose("b").sleep(SECOND).recover()
    assert bench.workers == ("a",)
    bench.connect("c").run_for(4 * SECOND, 3)
    assert bench.workers == ("a",)
    bench.clear().run_for(7 * SECOND, 3)
    for epoch in range(bench.record.committed, bench.record.announced):
        bench.cut(3, epoch + 1).accept("a", 3, epoch=epoch + 1)
    bench.run_for(SECOND, 3)
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
    bench.progress("c", warm=True).sleep(100 * MS)
    assert list(bench.workers) == ["a", "c"]


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
    assert list(bench.workers) == ["a", "c"]


def test_where_no_state_is_committed_nobody_is_waited_for() -> None:
    bench = running("a", "b", rebalance_pause_us=0).epoch(3).lose("b").sleep(SECOND).recover().connect("c")
    bench.sleep(100 * MS).progress("a", 3).progress("c")
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


def test_the_status_tells_the_last_recovery() -> None:
    bench = running("a", "b").connect("c").lose("b")
    assert bench.status.phase == "recovering"
    bench.opened("a").opened("c").sealed("a")
    bench.hear("c", msg.Sealed(bench.fence, Time(0)), after_us=40 * MS)
    assert (bench.status.recoveries, bench.status.cause, bench.status.duration_us) == (2, "lost b", 40 * MS)


# --- no endless crash loop ---


def crash(bench: Bench, number: int, minimal: int) -> None:
    bench.beat(minimal, oldest=Time(9))
    victim = bench.workers[-1]
    bench.lose(victim).connect(f"w{number}").sleep(50 * MS)
    if bench.finish is None:
        bench.recover()


def test_a_run_that_kills_its_worker_again_and_again_ends_the_job() -> None:
    bench = running("a", "b", failures=5)
    for number in range(4):
        crash(bench, number, 5)
        assert bench.finish is None
    crash(bench, 9, 5)
    assert bench.end.category == "user"
    assert "5th failure" in bench.end.message
    assert bench.record.outcome == ""
    assert bench.count(msg.Stop) == 2


def test_a_worker_that_knows_why_it_was_ended_names_the_function_in_the_job_s_failure() -> None:
    bench = running("a", "b", failures=3)
    for number in range(3):
        bench.beat(5, oldest=Time(9)).lose(bench.workers[-1])
        hello = bench.hello(f"w{number}").hello
        bench.say(
            WorkerConnected(
                msgspec.structs.replace(hello, died_of="a function did not return: job.py:7 in forever")
            )
        ).sleep(50 * MS)
        if bench.finish is None:
            bench.recover()
    assert bench.end.category == "user"
    assert bench.end.message.endswith("a function did not return: job.py:7 in forever")


def test_failures_with_progress_between_are_no_loop() -> None:
    bench = running("a", "b", failures=5)
    for number in range(20):
        crash(bench, number, 5 + number)
    assert bench.finish is None


@pytest.mark.parametrize("acker", [True, False])
def test_failures_of_an_idle_job_far_apart_are_no_loop(acker: bool) -> None:
    bench = running("a", "b", failures=5, calm_us=10 * SECOND)
    for number in range(20):
        bench.run_for(11 * SECOND, 5)
        lost = next(worker for worker in bench.workers if (worker == bench.record.layout.acker) == acker)
        bench.lose(lost).connect(f"w{number}").recover()
    assert bench.finish is None


def test_a_stream_that_gets_stuck_again_and_again_is_a_bug() -> None:
    bench = running("a", "b", failures=3)
    for _ in range(3):
        bench.run_for(6 * SECOND, 5, oldest=Time(9))
        if bench.finish is None:
            bench.recover()
    assert bench.end.category == "bug"


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
    bench.recover().clear().connect("c").run_for(SECOND)
    assert bench.status.kind == "joined"
    assert bench.last(msg.Recover).reached == []
