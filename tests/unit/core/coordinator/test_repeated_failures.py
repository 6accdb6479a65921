"""Failures upon failures: one during a recovery begins another; without progress between them the job ends.

Answers of an older attempt, or of a worker that has no slots, bring no recovery forward.
"""

import msgspec
import pytest

from flamestream.core.coordinator.coordination import (
    WorkerConnected,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model.ids import (
    SequenceNumber,
    SinkName,
    Slot,
)
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from support.core.coordinating import MS, SECOND, Bench, running


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


def test_the_wait_for_a_lost_workers_next_life_is_no_calm() -> None:
    """The only worker hangs in a run that nobody has heard of yet: nothing is in flight."""
    bench = running("a", failures=5, calm_us=10 * SECOND)
    for number in range(5):
        assert bench.finish is None
        bench.run_for(2 * SECOND, 5)
        bench.lose(*bench.workers).sleep(12 * SECOND).connect(f"w{number}")
        if bench.finish is None:
            bench.recover()
    assert bench.end.category == "user" and "5th failure" in bench.end.message


def test_a_stream_that_gets_stuck_again_and_again_is_a_bug() -> None:
    bench = running("a", "b", failures=3)
    for _ in range(3):
        bench.run_for(6 * SECOND, 5, oldest=Time(9))
        if bench.finish is None:
            bench.recover()
    assert bench.end.category == "bug"
