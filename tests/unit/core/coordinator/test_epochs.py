"""Epochs: when they begin, what commits them, what aborts them, what is deleted."""

import pytest

from flamestream.core.coordinator.coordination import (
    IndexFailed,
    ReadRecord,
    RecordUnknown,
    WriteIndex,
    WriteRecord,
)
from flamestream.core.coordinator.epochs import Epochs, spans_of
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import CodeSpan, FrontPosition, SegmentRef, SlotOutput
from flamestream.model.ids import Attempt, Offset, Partition, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.time import START, FrontId, Time
from support.core.coordinating import MS, SECOND, Bench, running


def segment(name: str, size: int = 10) -> SegmentRef:
    return SegmentRef(name, size, "00", 1, (Slot(0),))


def announced(cut: int = 5, **changes: object) -> Bench:
    bench = running("a", "b", **changes).run_for(SECOND, cut)
    assert bench.last(msg.Announce) is not None
    return bench


def test_an_epoch_is_announced_every_interval_if_something_happened() -> None:
    bench = running("a", "b").run_for(900 * MS, 5)
    assert bench.count(msg.Announce) == 0
    bench.run_for(200 * MS, 5)
    assert bench.count(msg.Announce) == 2
    bench.cut(5).accept("a", 5).accept("b", 5).run_for(5 * SECOND, 5)
    assert bench.record.announced == 1
    bench.run_for(SECOND, 6)
    assert bench.record.announced == 2


def test_the_number_is_in_the_record_before_anybody_hears_of_it() -> None:
    bench = running("a", "b")
    bench.held.add(WriteRecord)
    bench.run_for(SECOND, 5)
    assert bench.count(msg.Announce) == 0
    bench.release(bench.pending.pop())
    assert bench.record.announced == 1
    assert bench.last(msg.Announce).epoch == 1


def test_it_commits_when_all_have_accepted_and_not_before() -> None:
    bench = announced().cut(5).accept("a", 5)
    assert bench.outside.objects == {}
    bench.accept("b", 5)
    assert (bench.record.committed, bench.record.cut) == (1, 5)
    assert bench.count(msg.Committed) == 2
    assert bench.record.index_hash == bench.outside.hash(bench.record.index)
    assert bench.status.epoch == 1


def test_acceptances_that_overtake_the_cut_count() -> None:
    bench = announced().accept("a", 5).accept("b", 5)
    assert bench.record.committed == 0
    bench.cut(5)
    assert bench.record.committed == 1


def test_only_the_acker_says_where_the_cut_is() -> None:
    bench = announced().accept("a", 5).accept("b", 5)
    other = next(worker for worker in bench.workers if worker != bench.record.layout.acker)
    bench.hear(other, msg.CutTaken(bench.fence, bench.record.announced, Time(5)))
    assert bench.record.committed == 0


def test_an_acceptance_at_another_cut_is_a_bug() -> None:
    bench = announced().cut(5).accept("a", 5).accept("b", 4)
    assert bench.end.category == "bug"
    assert bench.record.committed == 0


def test_a_cut_below_the_committed_one_is_a_bug() -> None:
    bench = announced().cut(5).accept("a", 5).accept("b", 5).run_for(SECOND, 9).cut(4)
    assert bench.end.category == "bug"


def test_the_index_is_durable_before_the_commit() -> None:
    bench = announced()
    bench.held.add(WriteIndex)
    bench.cut(5).accept("a", 5).accept("b", 5)
    assert bench.record.committed == 0
    (write,) = bench.pending
    assert isinstance(write, WriteIndex)
    assert write.name == "indexes/000000000001-1-n1"
    bench.release(write)
    assert bench.record.index == write.name


def test_the_index_says_what_a_restore_needs() -> None:
    front = FrontPosition(FrontId(0), Time(4), {Partition("p"): Offset(3)})
    first, second = (SlotOutput(SinkName("s"), Slot(slot), SequenceNumber(1), b"t") for slot in (0, 1))
    bench = announced().cut(5)
    bench.accept("a", 5, segments=[segment("x")], fronts=[front], outputs=[first]).accept(
        "b", 5, outputs=[second]
    )
    index = bench.outside.objects[bench.record.index]
    assert index.segments == (segment("x"),)
    assert index.fronts == (front,)
    assert index.outputs == (first, second)
    assert (index.job, index.graph, index.python, index.slots) == ("j", "g", "3.11", 4)
    assert (index.epoch, index.cut, index.fence) == (1, 5, bench.fence)


def test_the_next_index_keeps_what_was_not_replaced() -> None:
    out = [SlotOutput(SinkName("s"), Slot(0), SequenceNumber(number), b"t") for number in (1, 2)]
    bench = running("a", "b").epoch(5, segments=[segment("x"), segment("y")], outputs=[out[0]])
    before = bench.record.index
    bench.epoch(9, segments=[segment("z")], replaced=["x"], outputs=[out[1]])
    index = bench.outside.objects[bench.record.index]
    assert [each.name for each in index.segments] == ["y", "z"]
    assert index.outputs == (out[1],)
    assert bench.outside.deleted == ["x", before]


def test_nothing_is_deleted_before_the_commit_is_known() -> None:
    bench = running("a", "b").epoch(5, segments=[segment("x")]).run_for(SECOND, 9).cut(9)
    bench.accept("a", 9, replaced=["x"])
    bench.held.add(WriteRecord)
    bench.accept("b", 9)
    assert bench.outside.deleted == []
    bench.release(bench.pending.pop())
    assert bench.outside.deleted[0] == "x"


@pytest.mark.parametrize("how", ["refused", "recovery", "index", "timeout"])
def test_an_aborted_number_is_never_used_again(how: str) -> None:
    bench = announced(epoch_timeout_us=30 * SECOND)
    if how == "refused":
        bench.hear("b", msg.Refused(bench.fence, bench.record.announced, "disk full"))
    elif how == "recovery":
        bench.connect("c").lose("b")
    elif how == "index":
        bench.held.add(WriteIndex)
        bench.cut(5).accept("a", 5).accept("b", 5)
        (write,) = bench.pending
        assert isinstance(write, WriteIndex)
        bench.say(IndexFailed(write.name, "read-only"))
        bench.held.clear()
    else:
        bench.run_for(31 * SECOND, 5)
    assert bench.last(msg.Abort).epoch == 1
    assert "epoch 1 aborted" in " ".join(bench.status.problems) or bench.record.announced > 1
    if how == "recovery":
        bench.recover()
    bench.run_for(2 * SECOND, 9)
    assert bench.record.announced == 2
    assert bench.record.committed == 0
    bench.cut(9).accept(bench.workers[0], 9).accept(bench.workers[1], 9)
    assert bench.record.committed == 2
    assert bench.status.problems == ()


def test_an_epoch_that_was_given_up_while_its_number_was_written_is_not_announced() -> None:
    bench = running("a", "b", epoch_timeout_us=30 * SECOND)
    bench.held.add(WriteRecord)
    bench.run_for(SECOND, 5)
    (write,) = bench.pending
    bench.run_for(31 * SECOND, 5)
    bench.pending.clear()
    bench.release(write)
    assert bench.record.announced == 1
    assert bench.count(msg.Announce) == 0


def test_the_stream_goes_on_without_the_store() -> None:
    bench = running("a", "b")
    bench.held.add(WriteIndex)
    for time in range(5, 25):
        bench.run_for(SECOND, time)
        if bench.record.announced and bench.last(msg.Announce) and not bench.pending:
            bench.cut(time).accept("a", time).accept("b", time)
        for write in bench.pending:
            assert isinstance(write, WriteIndex)
            bench.say(IndexFailed(write.name, "no space left"))
        bench.pending.clear()
    assert bench.finish is None
    assert bench.record.attempt == 1
    assert "no space left" in bench.status.problems[0]


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_commit_in_doubt_is_neither_told_nor_aborted_until_the_record_says(took_effect: bool) -> None:
    bench = announced().connect("c").cut(5).accept("a", 5)
    bench.held.add(WriteRecord)
    bench.accept("b", 5)
    (write,) = bench.pending
    assert isinstance(write, WriteRecord)
    bench.say(RecordUnknown("timeout")).lose("b").run_for(SECOND)
    assert bench.count(msg.Abort) == bench.count(msg.Committed) == bench.count(msg.Recover) == 0
    if took_effect:
        bench.outside.write(write.record, write.version)
    bench.held.clear()
    bench.say(RecordUnknown("timeout again")).sleep(SECOND)
    assert bench.record.committed == 1
    assert bench.count(msg.Abort) == 0
    assert bench.last(msg.Committed, "a").epoch == 1
    assert bench.last(msg.Recover).epoch == 1


def test_a_commit_after_a_rival_has_taken_over_does_not_happen() -> None:
    bench = announced().cut(5).accept("a", 5)
    bench.held.add(WriteRecord)
    bench.accept("b", 5)
    rival = Bench(bench.outside, "n2", discovery_us=0).say().connect("x", "y")
    bench.release(bench.pending.pop())
    assert bench.end.outcome == "fenced"
    assert rival.record.committed == 0
    assert bench.count(msg.Committed) == 0
    assert bench.outside.deleted == []


def test_an_epoch_is_not_committed_while_the_record_is_in_doubt() -> None:
    """A worker says that it knows a newer attempt, and before the record is read again the index is
    written."""
    bench = announced().cut(5).accept("a", 5)
    bench.held.update({WriteIndex, ReadRecord})
    bench.accept("b", 5)
    (write,) = bench.pending
    bench.hear("a", msg.Failed(bench.fence, "fenced", "a sink refused it"))
    assert [type(action) for action in bench.pending] == [WriteIndex, ReadRecord]
    bench.release(write)
    assert bench.record.committed == 0
    assert bench.last(msg.Abort).epoch == 1
    assert "in doubt" in bench.status.problems[0]
    bench.held.clear()
    bench.release(bench.pending.pop()).run_for(SECOND, 6)
    assert bench.record.announced == 2


def test_answers_of_another_epoch_or_fence_count_for_nothing() -> None:
    bench = announced().cut(5).accept("a", 5).accept("b", 5, epoch=0).accept("b", 5, epoch=2)
    assert bench.record.committed == 0
    bench.connect("c").lose("b").recover().run_for(SECOND, 9).cut(9).accept("a", 9)
    old = msg.Accepted(
        bench.fence._replace(attempt=Attempt(1)), bench.record.announced, Time(9), [], [], [], []
    )
    bench.hear("c", old)
    assert bench.record.committed == 0


def test_without_a_guarantee_there_are_no_epochs_and_recoveries_start_empty() -> None:
    bench = running("a", "b", interval_us=None).run_for(10 * SECOND, 5)
    assert bench.count(msg.Announce) == 0
    bench.connect("c").lose("b")
    assert bench.last(msg.Recover).index is None
    assert bench.last(msg.Recover).cut == 0


def test_too_many_segments_of_a_size_are_given_to_one_worker_to_merge() -> None:
    many = [segment(f"s{number}") for number in range(9)]
    bench = running("a", "b").epoch(5, segments=[*many, segment("big", 1 << 26)]).clear().run_for(SECOND, 9)
    compact = [message.compact for _, message in bench.told if isinstance(message, msg.Announce)]
    assert sorted(compact, key=len) == [[], many]


def test_a_new_coordinator_reads_the_index_before_it_adds_to_it() -> None:
    old = running("a", "b").epoch(5, segments=[segment("x")])
    bench = (
        Bench(old.outside, "n2").say().connect("a", "b", ready=old.fence).epoch(9, segments=[segment("y")])
    )
    assert [each.name for each in bench.outside.objects[bench.record.index].segments] == ["x", "y"]
    assert bench.outside.deleted == [next(iter(bench.outside.objects))]


def test_a_index_that_cannot_be_read_stops_epochs_not_the_stream() -> None:
    old = running("a", "b").epoch(5)
    lost = dict(old.outside.objects)
    old.outside.objects.clear()
    bench = Bench(old.outside, "n2").say().connect("a", "b", ready=old.fence).run_for(5 * SECOND, 9)
    assert bench.finish is None
    assert bench.record.announced == 1
    assert "damaged or missing" in bench.status.problems[0]
    bench.outside.objects.update(lost)
    bench.run_for(2 * SECOND, 9)
    assert bench.record.announced == 2


def test_a_index_that_is_back_serves_a_recovery_though_it_was_missing_before() -> None:
    old = running("a", "b").epoch(5)
    lost = dict(old.outside.objects)
    old.outside.objects.clear()
    bench = Bench(old.outside, "n2").say().connect("a", "b", ready=old.fence).run_for(SECOND, 9)
    assert "damaged or missing" in bench.status.problems[0]
    bench.outside.objects.update(lost)
    bench.connect("c").lose("b")
    assert bench.finish is None
    bench.sleep(SECOND)
    assert bench.last(msg.Recover).epoch == 1


def test_parts_can_be_replaced_to_make_broken_variants() -> None:
    from flamestream.core.coordinator.coordinator import Coordinator
    from flamestream.core.coordinator.epochs import PendingEpoch

    class Hasty(PendingEpoch):
        def _all_accepted(self) -> bool:
            return bool(self.accepted)

    class HastyEpochs(Epochs):
        pending_type = Hasty

    class HastyCoordinator(Coordinator):
        epochs_type = HastyEpochs

    bench = (
        Bench(kind=HastyCoordinator)
        .say()
        .connect("a", "b")
        .recover()
        .run_for(SECOND, 5)
        .cut(5)
        .accept("a", 5)
    )
    assert bench.record.committed == 1


def test_a_worker_named_in_no_layout_cannot_accept() -> None:
    bench = announced().connect("c").cut(5).accept("a", 5).accept("c", 5)
    assert WorkerId("c") not in bench.workers
    assert bench.record.committed == 0


def test_each_index_says_which_code_made_what() -> None:
    old = running("a", "b", code="old").epoch(5)
    assert old.outside.objects[old.record.index].code == (CodeSpan(START, "old"),)
    old.epoch(7)
    assert old.outside.objects[old.record.index].code == (CodeSpan(START, "old"),)
    before = old.outside.objects[old.record.index]
    assert spans_of(before, "new") == (CodeSpan(START, "old"), CodeSpan(Time(7), "new"))
    assert spans_of(before, "") == before.code
