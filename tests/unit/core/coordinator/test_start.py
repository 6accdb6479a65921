"""Starts: a new job, a second start, a takeover by a new coordinator."""

import pytest
from msgspec.structs import replace

from flamestream.core.coordinator.coordination import (
    Disconnect,
    ManifestBroken,
    ReadManifest,
    RecordUnknown,
    WorkerGone,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import SegmentRef, SlotOutput
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.meta import meta_of
from flamestream.model.time import END, START, FrontId, Time, Timestamp, time_of
from support.core.coordinating import MS, SECOND, Bench, Outside, running, successor


def test_nothing_happens_before_the_record_is_known() -> None:
    bench = Bench()
    bench.held.add(type(bench.coordinator.step(bench.outside.now, [])[0]))
    bench.connect("a", "b")
    assert bench.told == []
    assert bench.status.phase == "starting"


def test_a_new_job_begins_when_as_many_workers_are_there_as_it_wants() -> None:
    bench = Bench().say().connect("a")
    assert bench.outside.record is None
    bench.connect("b")
    assert bench.record.attempt == 1
    assert bench.workers == ("a", "b")
    recover = bench.last(msg.Recover, "b")
    assert recover.assignment.fence == Fence(Attempt(1), LayoutVersion(1))
    assert recover.addresses == {"a": "a:1", "b": "b:1"}
    assert (recover.cut, recover.epoch, recover.manifest) == (START, 0, None)


def test_a_new_job_does_not_wait_for_ever_for_all_workers() -> None:
    bench = Bench(gather_us=10 * SECOND).say().connect("a").sleep(9 * SECOND)
    assert bench.outside.record is None
    bench.sleep(2 * SECOND)
    assert bench.workers == ("a",)


def test_sealing_waits_for_all_to_have_opened_and_replay_for_all_to_have_sealed() -> None:
    bench = Bench().say().connect("a", "b")
    bench.opened("a")
    assert bench.last(msg.Seal) is None
    bench.opened("b")
    assert bench.count(msg.Seal) == 2
    bench.sealed("b")
    assert bench.last(msg.Replay) is None
    bench.sealed("a")
    assert bench.count(msg.Replay) == 2
    assert bench.status.phase == "running"


@pytest.mark.parametrize("committed", [False, True])
def test_other_slots_are_refused_before_the_first_commit_too(committed: bool) -> None:
    """Consumers know what they were given by the slots that the job began with."""
    before = running("a", "b", slots=4)
    if committed:
        before.epoch(5)
    bench = Bench(before.outside, "n2", slots=8, discovery_us=0).say().connect("a", "b")
    assert (bench.end.outcome, bench.end.category) == ("failed", "user")
    assert "4 slots" in bench.end.message
    assert len(bench.record.layout.owners) == 4


def test_other_slots_are_refused_while_the_stream_runs_and_it_runs_on() -> None:
    before = running("a", "b", slots=4)
    bench = Bench(before.outside, "n2", slots=8).say().connect("a", "b", ready=before.fence)
    assert "4 slots" in bench.end.message
    assert bench.count(msg.Stop) == 0
    again = Bench(before.outside, "n3", slots=4).say().connect("a", "b", ready=before.fence)
    assert again.status.phase == "running"


def test_a_job_without_a_guarantee_may_get_other_slots() -> None:
    before = running("a", "b", slots=4, interval_us=None)
    bench = Bench(before.outside, "n2", slots=8, discovery_us=0, interval_us=None).say().connect("a", "b")
    assert len(bench.record.layout.owners) == 8


def test_the_bound_is_above_all_that_was_released_or_journalled() -> None:
    released, journalled = time_of(Timestamp(50), FrontId(0)), time_of(Timestamp(70), FrontId(0))
    bench = Bench().say().connect("a", "b")
    bench.opened("a", meta_of(released, 3)).opened("b").sealed("a").sealed("b", journalled)
    assert bench.last(msg.Replay).bound == journalled
    bench = Bench().say().connect("a", "b")
    bench.opened("a").opened("b", meta_of(journalled, 3)).sealed("a", released).sealed("b")
    assert bench.last(msg.Replay).bound == journalled


def test_more_workers_than_wanted_are_standbys_and_are_told_nothing() -> None:
    bench = running("a", "b")
    bench.connect("c").run_for(5 * SECOND)
    assert bench.workers == ("a", "b")
    assert bench.last(msg.Recover, "c") is None
    assert bench.status.standbys == ("c",)


@pytest.mark.parametrize(("graph", "python"), [("other", "3.11"), ("g", "3.12")])
def test_a_worker_of_another_graph_or_python_is_refused(graph: str, python: str) -> None:
    bench = Bench(workers=1).say(Bench().hello("a", graph=graph, python=python))
    assert bench.outside.record is None
    assert any(isinstance(action, Disconnect) for action in bench.actions)
    assert "worker a was refused" in bench.status.problems[0]


def test_a_record_with_an_outcome_ends_at_once() -> None:
    bench = running()
    bench.run_for(SECOND, END, ended=True).cut(END).accept("a", END).accept("b", END)
    assert bench.record.outcome == "completed"
    assert successor(bench).end.outcome == "completed"


def test_each_attempt_has_its_own_key() -> None:
    bench = Bench().say().connect("a", "b")
    first = bench.last(msg.Recover).key
    bench.recover().lose("b").connect("c")
    assert bench.last(msg.Recover).key != first


# --- a new coordinator ---


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


def test_a_second_start_resumes_from_the_manifest() -> None:
    old = running().epoch(5)
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    recover = bench.last(msg.Recover)
    assert (recover.cut, recover.epoch, recover.manifest.epoch) == (5, 1, 1)
    bench.recover()
    assert bench.last(msg.Replay).bound == 5


# --- manifests ---


@pytest.mark.parametrize(
    ("change", "word"),
    [({"graph": "h"}, "graph"), ({"python": "3.12"}, "Python"), ({"job": "k"}, "job")],
)
def test_a_manifest_of_another_job_is_an_error_that_names_it(change: dict[str, str], word: str) -> None:
    old = running().epoch(5)
    bench = successor(old, **change).sleep(3 * SECOND)
    for worker in "cd":
        bench.say(bench.hello(worker, graph=bench.settings.graph, python=bench.settings.python))
    assert bench.end.category == "user"
    assert word in bench.end.message
    assert old.record.manifest in bench.end.message
    assert bench.count(msg.Recover) == 0


def test_a_missing_manifest_is_corrupt_and_never_an_empty_state() -> None:
    old = running().epoch(5)
    old.outside.objects.clear()
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    assert bench.end.category == "corrupt"
    assert old.record.manifest in bench.end.message
    assert bench.count(msg.Recover) == 0


def test_a_manifest_that_a_successor_has_deleted_is_no_verdict() -> None:
    """Whoever has been overtaken reads what the record no longer names."""
    old = running().epoch(5)
    zombie = successor(old).sleep(3 * SECOND)
    zombie.held.add(ReadManifest)
    zombie.connect("c", "d")
    other = successor(old, "n3").sleep(3 * SECOND).connect("e", "f").recover().epoch(9)
    (overtaken,) = zombie.pending
    assert isinstance(overtaken, ReadManifest)
    assert old.record.manifest != overtaken.name and overtaken.name in other.outside.deleted
    zombie.outside.objects.pop(overtaken.name)
    zombie.release(zombie.pending.pop())
    assert (zombie.end.outcome, other.finish) == ("fenced", None)


@pytest.mark.parametrize("late", [True, False])
def test_a_completed_job_is_never_recovered(late: bool) -> None:
    """Also if its record has no cut that says so, and if it was read just before the job was complete."""
    old = running(interval_us=None)
    bench = successor(old) if late else None
    old.beat(END, ended=True)
    assert old.record.outcome == "completed"
    bench = bench or successor(old)
    bench.sleep(3 * SECOND).connect("c", "d")
    assert (bench.end.outcome, bench.count(msg.Recover), old.record.attempt) == ("completed", 0, 1)


def test_a_job_whose_record_says_why_it_must_not_go_on_fails_with_that() -> None:
    old = running()
    old.outside.record = replace(old.record, outcome="its owner has condemned it")
    bench = successor(old).connect("c", "d")
    assert (bench.end.outcome, bench.count(msg.Recover)) == ("failed", 0)
    assert "its owner has condemned it" in bench.end.message


def test_a_manifest_that_does_not_fit_the_record_is_corrupt() -> None:
    old = running().epoch(5)
    old.outside.record = type(old.record)(
        **{**{f: getattr(old.record, f) for f in old.record.__struct_fields__}, "cut": Time(4)}
    )
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    assert bench.end.category == "corrupt"


def test_a_store_that_is_away_is_asked_again() -> None:
    old = running().epoch(5)
    bench = successor(old).sleep(3 * SECOND)
    bench.held.add(ReadManifest)
    bench.connect("c", "d").say(ManifestBroken(old.record.manifest, "retryable", "timeout"))
    assert "timeout" in bench.status.problems[0]
    bench.held.clear()
    bench.sleep(SECOND)
    assert bench.last(msg.Recover).epoch == 1


def test_a_consumer_that_has_forgotten_output_is_corrupt() -> None:
    old = running().epoch(5, outputs=[SlotOutput(SinkName("s"), Slot(3), SequenceNumber(7), b"t")])
    for returned in (
        [],
        [SlotOutput(SinkName("s"), Slot(3), SequenceNumber(6), b"t")],
        [SlotOutput(SinkName("s"), Slot(3), SequenceNumber(7), b"s")],
    ):
        bench = successor(old).sleep(3 * SECOND).connect("c", "d").recover(returned)
        assert bench.end.category == "corrupt"
        assert "'s'" in bench.end.message
        assert "slot 3" in bench.end.message
        assert bench.count(msg.Seal) == 0
    bench = (
        successor(old)
        .sleep(3 * SECOND)
        .connect("c", "d")
        .recover([SlotOutput(SinkName("s"), Slot(3), SequenceNumber(8), b"u")])
    )
    assert bench.finish is None


# --- two at once, and doubts ---


def test_of_two_coordinators_that_create_the_record_one_steps_back() -> None:
    outside = Outside()
    first, second = Bench(outside, "n1").say(), Bench(outside, "n2").say()
    first.held.add(WriteRecord)
    first.connect("a", "b")
    second.connect("c", "d")
    first.release(first.pending.pop())
    assert first.end.outcome == "fenced"
    assert first.count(msg.Recover) == first.count(msg.Stop) == 0
    assert second.recover().status.phase == "running"


def test_a_create_with_unknown_outcome_is_settled_by_reading() -> None:
    for took_effect in (True, False):
        bench = Bench().say()
        bench.held.add(WriteRecord)
        bench.connect("a", "b")
        write = bench.pending.pop()
        assert isinstance(write, WriteRecord)
        if took_effect:
            bench.outside.write(write.record, write.version)
        bench.held.clear()
        bench.say(RecordUnknown("timeout"))
        assert bench.count(msg.Recover) == 0
        bench.sleep(SECOND)
        assert bench.record == write.record
        assert bench.count(msg.Recover) == 2


def test_a_read_without_answer_is_tried_again() -> None:
    bench = Bench()
    assert bench.coordinator.step(bench.outside.now, [])
    bench.say(RecordUnknown("no quorum"))
    assert "no quorum" in bench.status.problems[0]
    bench.sleep(SECOND).connect("a", "b")
    assert bench.record.attempt == 1


def test_a_standby_is_told_what_is_committed_when_it_is_and_when_the_standby_comes() -> None:
    segment = SegmentRef("s", 1, "c", 1, (Slot(0),))
    bench = running("a", "b")
    bench.connect("c").epoch(10, segments=[segment])
    assert bench.last(msg.Warm, "c").segments == bench.last(msg.Warm).segments != []
    bench.clear().connect("d")
    assert bench.last(msg.Warm, "d") is not None
    assert bench.last(msg.Warm, "a") is None, "who has slots has their state"


def test_a_worker_that_has_loaded_edited_code_is_refused() -> None:
    bench = Bench(workers=1, code="old").say(Bench().hello("a", code="new"))
    assert bench.outside.record is None
    assert "put them back" in bench.status.problems[0]


@pytest.mark.parametrize(
    ("now", "meant", "refused"),
    [("old", False, False), ("new", False, True), ("new", True, False), ("", False, False)],
)
def test_a_start_with_other_code_than_the_last_has_to_be_meant(now: str, meant: bool, refused: bool) -> None:
    earlier = Bench(workers=1, code="old")
    earlier.say().say(earlier.hello("a", code="old"))
    assert earlier.record.code == "old"
    bench = Bench(earlier.outside, "n2", workers=1, code=now, code_changed=meant).say()
    assert (bench.finish is not None) == refused
    if refused:
        assert bench.end.category == "user" and "--changed" in bench.end.message
