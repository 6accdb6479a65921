"""Rivals: of two coordinators one steps back, and a write whose outcome is unknown is settled by reading."""

import pytest

from flamestream.core.coordinator.coordination import (
    RecordUnknown,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from support.core.coordinating import SECOND, Bench, Outside, running


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
