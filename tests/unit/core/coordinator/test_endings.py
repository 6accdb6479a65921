"""How a job ends: complete, drained, stopped, failed."""

import pytest

from flamestream.core.coordinator.coordination import RecordUnknown, Requested, WriteRecord
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import Attempt, Fence, LayoutVersion
from flamestream.model.time import END, Time
from support.core.coordinating import SECOND, Bench, running, successor


def fail(bench: Bench, category: str, worker: str = "a") -> Bench:
    return bench.hear(worker, msg.Failed(bench.fence, category, "f raised ValueError at docs:7"))


def test_a_job_is_complete_when_its_last_epoch_is_committed() -> None:
    bench = running().beat(END, ended=True)
    assert bench.last(msg.Announce) is not None  # at once, not after the interval
    bench.cut(END).accept("a", END)
    assert bench.finish is None
    bench.accept("b", END)
    assert bench.end.outcome == "completed"
    assert bench.record.outcome == "completed"
    assert bench.count(msg.Stop) == 2


@pytest.mark.parametrize("changes", [{"ended": False}, {"ended": True, "settled": 5}])
def test_a_job_is_not_complete_before_all_is_read_and_acknowledged(changes: dict[str, object]) -> None:
    bench = running(interval_us=None).beat(END, **changes)
    assert bench.finish is None
    bench.beat(END, ended=True)
    assert bench.end.outcome == "completed"


def test_a_job_is_not_complete_before_all_workers_say_so() -> None:
    bench = running(interval_us=None).progress("a", END, ended=True)
    assert bench.finish is None


def test_a_crash_between_the_last_commit_and_the_outcome_is_made_good_by_the_next_coordinator() -> None:
    old = running().beat(END, ended=True).cut(END).accept("a", END)
    old.held.add(WriteRecord)
    old.accept("b", END)
    old.carry_out(old.pending.pop(), force=True)
    assert (old.record.cut, old.record.outcome) == (END, "")
    bench = successor(old)
    assert bench.record.outcome == "completed"
    assert bench.end.outcome == "completed"


def test_a_drain_stops_at_an_epoch() -> None:
    bench = running().beat(5).say(Requested("drain"))
    assert bench.count(msg.Drain) == 2
    assert bench.status.phase == "ending"
    bench.beat(6, items_in=4).beat(7, items_in=4)
    assert bench.record.announced == 1
    bench.cut(7).accept("a", 7).accept("b", 7)
    assert bench.end.outcome == "drained"
    assert bench.record.outcome == ""
    assert bench.record.cut == 7
    assert bench.count(msg.Stop) == 2


def test_a_drain_finds_nothing_wrong_with_workers_that_have_drained() -> None:
    bench = (
        running().beat(5).say(Requested("drain")).beat(6, drained=True).sleep(SECOND).beat(6, drained=True)
    )
    assert bench.record.attempt == 1
    bench.cut(6).accept("a", 6).accept("b", 6)
    assert bench.end.outcome == "drained"


def test_a_drain_waits_for_what_is_still_read_in_flight_or_unacknowledged() -> None:
    bench = running(interval_us=None).say(Requested("drain"))
    bench.beat(5, items_in=4).beat(6, items_in=5)
    bench.beat(6, items_in=5, oldest=Time(6))
    bench.beat(6, items_in=5, settled=5)
    assert bench.finish is None
    bench.beat(6, items_in=5)
    assert bench.end.outcome == "drained"


def test_a_drain_waits_until_the_output_of_every_worker_is_acknowledged() -> None:
    bench = running(interval_us=None).say(Requested("drain"))
    bench.beat(6).progress("b", 6).progress("a", 6, settled=5)
    assert bench.record.layout.acker == "b" and bench.finish is None
    assert bench.progress("a", 6).end.outcome == "drained"


def test_a_drain_goes_on_after_a_recovery() -> None:
    bench = running().connect("c").say(Requested("drain")).lose("b").recover()
    assert bench.last(msg.Drain, "c").fence == bench.fence
    bench.beat(6).beat(6).cut(6).accept("a", 6).accept("c", 6)
    assert bench.end.outcome == "drained"


def test_a_drain_that_does_not_end_becomes_a_stop() -> None:
    bench = running(drain_us=10 * SECOND).say(Requested("drain"))
    bench.run_for(4 * SECOND, 5, settled=4)
    assert bench.finish is None
    bench.run_for(7 * SECOND, 5, settled=4)
    assert (bench.end.outcome, bench.end.category) == ("stopped", "retryable")


def test_a_stop_is_at_once_and_can_be_resumed() -> None:
    bench = running().connect("c").say(Requested("stop"))
    assert bench.end.outcome == "stopped"
    assert {worker for worker, message in bench.told if isinstance(message, msg.Stop)} == {"a", "b", "c"}
    assert bench.record.outcome == ""
    assert successor(bench).finish is None


def test_a_drain_before_anything_runs_is_a_stop() -> None:
    assert Bench().say(Requested("drain")).end.outcome == "stopped"


def test_a_user_error_saves_what_is_below_it_first() -> None:
    bench = fail(running().beat(5), "user")
    assert bench.finish is None
    assert bench.count(msg.Announce) == 2
    bench.cut(5).accept("a", 5).accept("b", 5)
    assert bench.record.cut == 5
    assert (bench.end.outcome, bench.end.category) == ("failed", "user")
    assert "docs:7" in bench.end.message
    assert bench.record.outcome == ""


def test_a_user_error_does_not_wait_for_ever_for_its_last_epoch() -> None:
    bench = fail(running(last_epoch_us=3 * SECOND).beat(5), "user").run_for(4 * SECOND, 5)
    assert bench.end.category == "user"


def test_a_user_error_with_a_lost_worker_ends_at_once() -> None:
    bench = fail(running().beat(5), "user").lose("b")
    assert bench.end.category == "user"
    assert bench.record.attempt == 1


@pytest.mark.parametrize("category", ["corrupt", "bug"])
def test_corruption_and_bugs_end_the_job_at_once(category: str) -> None:
    bench = fail(running().beat(5), category)
    assert bench.end.category == category
    assert bench.count(msg.Stop) == 2
    assert bench.record.outcome == ""


@pytest.mark.parametrize("category", ["corrupt", "bug", "user"])
def test_who_has_been_overtaken_fails_no_job(category: str) -> None:
    """Its worker finds that what it loads is deleted, or that nobody answers: another attempt has gone on."""
    bench = Bench().say().connect("a", "b")
    other = successor(bench).sleep(3 * SECOND).connect("c", "d").recover()
    bench.hear("a", msg.Failed(Fence(Attempt(1), LayoutVersion(1)), category, "segment s1 is missing"))
    assert (bench.end.outcome, other.finish) == ("fenced", None)


def test_a_failure_waits_for_the_record_to_confirm_who_is_in_charge() -> None:
    bench = running().beat(5)
    bench.held.add(WriteRecord)
    fail(bench, "corrupt")
    fail(bench, "bug", "b")
    assert (bench.finish, bench.status.phase, bench.count(msg.Stop)) == (None, "ending", 0)
    assert "docs:7" in bench.status.problems[0]
    bench.pending.clear()
    bench.held.clear()
    bench.say(RecordUnknown("no answer")).sleep(SECOND)
    assert (bench.end.outcome, bench.end.category, bench.count(msg.Stop)) == ("failed", "corrupt", 2)


def test_a_failure_that_the_record_does_not_answer_can_be_stopped() -> None:
    bench = running().beat(5)
    bench.held.add(WriteRecord)
    assert fail(bench, "corrupt").say(Requested("stop")).end.outcome == "stopped"


def test_a_failure_waits_for_a_commit_under_way() -> None:
    bench = running().run_for(SECOND, 5).cut(5).accept("a", 5)
    bench.held.add(WriteRecord)
    fail(bench.accept("b", 5), "corrupt")
    assert len(bench.pending) == 1
    bench.held.clear()
    bench.release(bench.pending.pop())
    assert (bench.end.category, bench.record.committed) == ("corrupt", 1)


def test_a_failure_is_not_said_over_a_late_write_of_the_predecessor() -> None:
    """The record has moved on, and nobody has recovered the job: what has failed is seen again, if it is
    still so."""
    old = running().epoch(5)
    bench = successor(old).connect("a", ready=old.fence)
    old.epoch(9)
    bench.hear("a", msg.Failed(bench.fence, "corrupt", "segment s1 is missing"))
    assert (bench.finish, bench.status.epoch) == (None, 2)
    bench.hear("a", msg.Failed(bench.fence, "corrupt", "segment s1 is missing"))
    assert bench.end.category == "corrupt"


def test_a_fenced_worker_ends_nothing() -> None:
    assert fail(running(), "fenced").finish is None


def test_a_failure_of_an_older_attempt_ends_nothing() -> None:
    bench = running()
    old = bench.fence
    bench.connect("c").lose("b").hear("a", msg.Failed(old, "bug", "zombie"))
    assert bench.finish is None


def test_finish_is_the_last_action_and_nothing_follows() -> None:
    bench = running().say(Requested("stop"))
    assert bench.actions[-1] is bench.finish
    assert bench.coordinator.step(bench.outside.now, [Requested("stop")]) == []


def test_a_worker_in_trouble_is_shown() -> None:
    bench = running().progress("a", 5, problem="journal full")
    assert bench.status.problems == ("a: journal full",)
