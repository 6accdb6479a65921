"""Adoption: a new coordinator takes over a stream that runs, and recovers one that does not."""

from flamestream.core.coordinator.coordination import (
    WorkerGone,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import (
    Epoch,
    WorkerId,
)
from flamestream.model.time import Time
from support.core.coordinating import MS, SECOND, running, successor


def test_a_new_coordinator_adopts_a_running_stream_without_an_attempt() -> None:
    old = running().epoch(5)
    bench = successor(old).connect("a", "b", ready=old.fence)
    assert bench.record.attempt == 1
    assert bench.count(msg.Recover) == 0
    assert bench.last(msg.Committed) == msg.Committed(bench.fence, Epoch(1), Time(5))
    assert bench.status.phase == "running"
    bench.epoch(9)
    assert (bench.record.committed, bench.record.cut) == (2, 9)


def test_a_worker_that_was_told_to_drain_after_its_greeting_is_recovered() -> None:
    """The word of a coordinator that is gone stood in its inbox when it said that it runs."""
    old = running().epoch(5)
    bench = successor(old).connect("a", "b", ready=old.fence)
    bench.progress("a", 5, drained=True)
    assert (bench.record.attempt, bench.status.kind) == (2, "drained")
    assert bench.recover().beat(5).status.phase == "running"


def test_a_worker_that_greets_again_during_an_adoption_and_runs_no_more_is_recovered() -> None:
    old = running().epoch(5)
    bench = successor(old)
    bench.held.add(WriteRecord)
    bench.connect("a", "b", ready=old.fence)
    (adoption,) = bench.pending
    bench.pending.clear()
    bench.held.clear()
    bench.lose("a").say(bench.hello("a", old.fence, ready=False))
    bench.release(adoption)
    assert bench.record.attempt == 2


def test_an_adoption_aborts_what_the_predecessor_announced_after_fencing_its_commit() -> None:
    old = running().run_for(SECOND, 5).cut(5).accept("a", 5)
    old.held.add(WriteRecord)
    old.accept("b", 5)
    (commit,) = old.pending  # under way when it dies
    bench = successor(old)
    bench.held.add(WriteRecord)
    bench.connect("a", "b", ready=old.fence)
    assert bench.count(msg.Abort) == 0
    bench.release(bench.pending.pop())
    assert bench.last(msg.Abort) == msg.Abort(bench.fence, Epoch(1))
    assert isinstance(commit, WriteRecord)
    assert not bench.outside.write(commit.record, commit.version)


def test_a_commit_that_comes_late_but_before_the_adoption_counts() -> None:
    old = running().run_for(SECOND, 5).cut(5).accept("a", 5)
    old.held.add(WriteRecord)
    old.accept("b", 5)
    bench = successor(old)
    old.carry_out(old.pending.pop(), force=True)
    bench.connect("a", "b", ready=old.fence)
    assert bench.finish is None
    assert bench.last(msg.Committed) == msg.Committed(bench.fence, Epoch(1), Time(5))
    assert bench.count(msg.Abort) == 0


def test_a_new_coordinator_waits_for_the_layout_it_finds() -> None:
    old = running()
    bench = successor(old, discovery_us=2 * SECOND).sleep(900 * MS).connect("c", "d").sleep(900 * MS)
    assert bench.record.attempt == 1
    bench.connect("a", "b", ready=old.fence)
    assert bench.record.attempt == 1
    assert bench.status.phase == "running"


def test_who_does_not_come_soon_after_the_first_that_came_is_lost() -> None:
    old = running()
    bench = successor(old, discovery_us=5 * SECOND).connect("c", "d").sleep(1100 * MS)
    assert bench.workers == ("c", "d")
    assert bench.record.attempt == 2


def test_it_does_not_wait_for_workers_that_are_gone() -> None:
    old = running()
    bench = successor(old).connect("c", "d").say(WorkerGone(WorkerId("a")), WorkerGone(WorkerId("b")))
    assert bench.workers == ("c", "d")
    assert bench.record.attempt == 2


def test_after_the_discovery_time_it_recovers_with_those_that_are_there() -> None:
    old = running()
    bench = successor(old).connect("a", ready=old.fence).sleep(3 * SECOND)
    assert bench.workers == ("a",)
    assert bench.record.attempt == 2


def test_workers_that_are_there_but_do_not_run_are_recovered_at_once() -> None:
    old = running()
    bench = successor(old).connect("a", ready=old.fence).connect("b")
    assert bench.record.attempt == 2
    assert bench.workers == ("a", "b")
