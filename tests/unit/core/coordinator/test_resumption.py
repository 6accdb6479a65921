"""Resumption: a start goes on from what is committed; a record, index, consumer or code that does not fit
is named, and never taken for an empty state."""

from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.core.coordinator.coordination import (
    IndexBroken,
    ReadIndex,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import Inventory, SlotOutput
from flamestream.model.ids import (
    SequenceNumber,
    SinkName,
    Slot,
)
from flamestream.model.state_names import Operation, number_of
from flamestream.model.time import END, Time
from support.core.coordinating import SECOND, Bench, running, successor


def test_a_second_start_resumes_from_the_index() -> None:
    old = running().epoch(5)
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    recover = bench.last(msg.Recover)
    assert (recover.cut, recover.epoch, recover.index.epoch) == (5, 1, 1)
    bench.recover()
    assert bench.last(msg.Replay).bound == 5


def test_a_record_with_an_outcome_ends_at_once() -> None:
    bench = running()
    bench.run_for(SECOND, END, ended=True).cut(END).accept("a", END).accept("b", END)
    assert bench.record.outcome == "completed"
    assert successor(bench).end.outcome == "completed"


@pytest.mark.parametrize(
    ("change", "word"),
    [({"graph": "h"}, "graph"), ({"python": "3.12"}, "Python"), ({"job": "k"}, "job")],
)
def test_a_index_of_another_job_is_an_error_that_names_it(change: dict[str, str], word: str) -> None:
    old = running().epoch(5)
    bench = successor(old, **change).sleep(3 * SECOND)
    for worker in "cd":
        bench.say(bench.hello(worker, graph=bench.settings.graph, python=bench.settings.python))
    assert bench.end.category == "user"
    assert word in bench.end.message
    assert old.record.index in bench.end.message
    assert bench.count(msg.Recover) == 0


def test_a_missing_index_is_corrupt_and_never_an_empty_state() -> None:
    old = running().epoch(5)
    old.outside.objects.clear()
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    assert bench.end.category == "corrupt"
    assert old.record.index in bench.end.message
    assert bench.count(msg.Recover) == 0


def test_a_index_that_a_successor_has_deleted_is_no_verdict() -> None:
    """Whoever has been overtaken reads what the record no longer names."""
    old = running().epoch(5)
    zombie = successor(old).sleep(3 * SECOND)
    zombie.held.add(ReadIndex)
    zombie.connect("c", "d")
    other = successor(old, "n3").sleep(3 * SECOND).connect("e", "f").recover().epoch(9)
    (overtaken,) = zombie.pending
    assert isinstance(overtaken, ReadIndex)
    assert old.record.index != overtaken.name and overtaken.name in other.outside.deleted
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


def test_a_index_that_does_not_fit_the_record_is_corrupt() -> None:
    old = running().epoch(5)
    old.outside.record = type(old.record)(
        **{**{f: getattr(old.record, f) for f in old.record.__struct_fields__}, "cut": Time(4)}
    )
    bench = successor(old).sleep(3 * SECOND).connect("c", "d")
    assert bench.end.category == "corrupt"


def test_a_store_that_is_away_is_asked_again() -> None:
    old = running().epoch(5)
    bench = successor(old).sleep(3 * SECOND)
    bench.held.add(ReadIndex)
    bench.connect("c", "d").say(IndexBroken(old.record.index, "retryable", "timeout"))
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


def test_a_store_that_is_slow_to_give_the_index_costs_no_worker() -> None:
    bench = running("a", "b").epoch(5)
    bench = Bench(bench.outside, "n2", discovery_us=0).say()
    bench.held.add(ReadIndex)
    bench.connect("x", "y").sleep(60 * SECOND)  # they have no fence yet, and so nothing to report
    bench.held.clear()
    bench.release(bench.pending.pop())
    assert bench.record.attempt == 2
    assert bench.count(msg.Recover) == 2


SUMS = Operation(number_of("sums"), "sums", "a fold", place=1)
COUNTS = Operation(number_of("counts"), "counts", "a fold", place=2)


def of(*operations: Operation, sinks: tuple[str, ...] = ("out",)) -> Inventory:
    return Inventory(("lines",), tuple(map(SinkName, sinks)), operations)


def begun_again(old: Bench, graph: str, inventory: Inventory, **changes: Any) -> Bench:
    bench = successor(old, graph=graph, inventory=inventory, **changes).sleep(3 * SECOND)
    return bench.say(bench.hello("c", graph=graph)).say(bench.hello("d", graph=graph))


def test_another_graph_resumes_if_it_has_all_operations_by_name() -> None:
    old = running(inventory=of(SUMS)).epoch(5)
    bench = begun_again(old, "g with more", of(COUNTS, SUMS)).recover()
    assert bench.last(msg.Recover).index.inventory.operations == (replace(SUMS, place=None),)
    bench.epoch(6)
    index = bench.outside.objects[bench.record.index]
    assert [(each.name, each.since) for each in index.inventory.operations] == [("counts", 2), ("sums", 0)]  # type: ignore[union-attr]


def test_state_without_an_operation_ends_the_job_unless_the_spec_drops_it() -> None:
    old = running(inventory=of(SUMS, COUNTS)).epoch(5)
    bench = begun_again(old, "less", of(SUMS))
    assert bench.end.category == "user" and bench.count(msg.Recover) == 0
    assert f"cannot go on from index {old.record.index} (epoch 1)" in bench.end.message
    assert "state of operation 'counts'" in bench.end.message
    bench = begun_again(old, "less", of(SUMS), drop=("counts",)).recover().epoch(6)
    index = bench.outside.objects[bench.record.index]
    assert [each.name for each in index.inventory.operations] == ["sums"]  # type: ignore[union-attr]


def test_nothing_is_lost_with_a_sink_that_the_graph_has_no_more() -> None:
    had = [SlotOutput(SinkName(sink), Slot(0), SequenceNumber(3), b"t") for sink in ("gone", "out")]
    old = running(inventory=of(sinks=("gone", "out"))).epoch(5, outputs=had)
    bench = begun_again(old, "less", of()).recover(had[1:])
    assert bench.finish is None and bench.count(msg.Replay) == 2
