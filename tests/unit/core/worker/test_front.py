"""Fronts: times that are the same at every replay, and promises that never lie."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import JournalledFront, Positions, RunRecords, TimedFront
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import (
    CLOCKS_BEGIN,
    END,
    ROOM,
    START,
    FrontId,
    Time,
    Timestamp,
    next_time,
    time_of,
    timestamp_of,
)

F = FrontId(3)
BEGIN = FrontPosition(F, START, {})
P = Partition("p")


def _timed(run_length: int = 1) -> TimedFront:
    return TimedFront(BEGIN, run_length)


def _stamped(
    front: TimedFront, first: int, records: Sequence[object]
) -> list[tuple[Entry, Sequence[object]]]:
    front.take(Offset(first), records)
    return _ready(front)


def _ready(front: TimedFront) -> list[tuple[Entry, Sequence[object]]]:
    runs = []
    while front.ready:
        runs.append(front.stamp())
    return runs


def _rest(front: TimedFront) -> list[tuple[Entry, Sequence[object]]]:
    front.end()
    return _ready(front)


@given(st.lists(st.integers(0, 7), max_size=12), st.integers(1, 5))
def test_a_timed_front_stamps_the_same_runs_however_its_input_is_cut(
    pieces: list[int], run_length: int
) -> None:
    records = list(range(sum(pieces)))
    whole, cut = _timed(run_length), _timed(run_length)
    expected = _stamped(whole, 0, records) + _rest(whole)
    runs, at = [], 0
    for piece in pieces:
        runs += _stamped(cut, at, records[at : at + piece])
        at += piece
    assert runs + _rest(cut) == expected


def test_a_timed_front_drops_what_it_had() -> None:
    front = _timed()
    _stamped(front, 0, ["a", "b"])
    assert [payloads for _, payloads in _stamped(front, 1, ["b", "c"])] == [["c"]]


def test_a_timed_front_goes_on_from_its_position_at_the_cut() -> None:
    front = _timed(2)
    runs = _stamped(front, 0, list(range(8)))
    position = front.positions.at(runs[2][0].time)
    again = TimedFront(position, 2)
    assert _stamped(again, 4, list(range(4, 8))) == runs[2:]


def test_a_timed_front_that_has_ended_promises_the_end() -> None:
    front = _timed()
    assert front.promise() < END
    front.end()
    assert front.promise() == END


def _journalled() -> JournalledFront:
    front = JournalledFront(BEGIN)
    front.start([], START)
    return front


def test_a_promise_waits_for_the_journal() -> None:
    front = _journalled()
    first = front.stamp(Timestamp(10), P, Offset(0), 1)
    second = front.stamp(Timestamp(20), P, Offset(1), 1)
    assert front.promise() == first.time
    front.durable(first.time)
    assert front.promise() == second.time
    front.durable(second.time)
    assert front.promise() == next_time(second.time, F)


def test_an_asked_front_moves_past_the_question_at_once_if_idle() -> None:
    front = _journalled()
    front.asked(Time(99 << 12))
    assert front.promise() > Time(99 << 12)
    assert front.stamp(Timestamp(1), P, Offset(0), 1).time >= front.promise()


def test_a_front_of_consumers_that_forget_promises_what_its_journal_has() -> None:
    front = JournalledFront(BEGIN, pledges=True)
    front.start([], START)
    front.asked(Time(99 << 12))
    pledge = front.pledge(Timestamp(1))
    assert pledge is not None and pledge.is_pledge and pledge.time > Time(99 << 12)
    assert front.promise() == next_time(START, F), "nothing is written yet"
    assert front.pledge(Timestamp(1)) is None, "one is under way"
    front.asked(Time(200 << 12))
    front.durable(pledge.time)
    assert pledge.time < front.promise() < Time(200 << 12)
    assert front.pledge(Timestamp(1)) is not None
    assert front.stamp(Timestamp(1), P, Offset(0), 1).time > Time(200 << 12)


def test_it_promises_nothing_up_to_a_run_that_may_never_be_written() -> None:
    front = JournalledFront(BEGIN, pledges=True)
    front.start([], START)
    first = front.stamp(Timestamp(10), P, Offset(0), 1)
    front.stamp(Timestamp(20), P, Offset(1), 1)
    assert front.promise() == next_time(START, F)
    front.durable(first.time)
    assert front.promise() == next_time(first.time, F)


def test_a_front_that_promised_by_a_run_pledges_nothing() -> None:
    front = JournalledFront(BEGIN, pledges=True)
    front.start([], START)
    front.asked(Time(9 << 12))
    run = front.stamp(Timestamp(10), P, Offset(0), 1)
    front.durable(run.time)
    assert front.pledge(Timestamp(1)) is None and front.promise() == next_time(run.time, F)


def test_answers_beside_a_timed_front_stay_below_its_next_run() -> None:
    """However far their own clock is ahead, and though each comes alone."""
    timed, front = (
        TimedFront(BEGIN, 1, step=ROOM),
        JournalledFront(FrontPosition(FrontId(1), START, {}), beside_timed=True),
    )
    front.start([], START)
    timed.take(Offset(0), ["a", "b"])
    first = timed.stamp()[0].time
    front.asked(first)
    answers = [front.stamp(Timestamp(CLOCKS_BEGIN * 2), P, Offset(number), 1).time for number in range(1000)]
    assert first < answers[0] and answers[-1] < timed.promise() == timed.stamp()[0].time


def test_answers_have_the_clock_once_what_entered_has_it() -> None:
    front = JournalledFront(BEGIN, beside_timed=True)
    front.start([], START)
    front.asked(time_of(Timestamp(CLOCKS_BEGIN + 5), F))
    now = Timestamp(CLOCKS_BEGIN + 1_000)
    assert timestamp_of(front.stamp(now, P, Offset(0), 1).time) == now


def test_a_question_leaves_a_run_that_is_not_durable_in_its_place() -> None:
    front = _journalled()
    run = front.stamp(Timestamp(10), P, Offset(0), 1)
    front.asked(Time(99 << 12))
    assert front.promise() == run.time


def test_a_stamp_is_above_clock_bound_and_the_last_stamp() -> None:
    front = JournalledFront(BEGIN)
    front.start([], Time(50 << 12))
    first = front.stamp(Timestamp(7), P, Offset(0), 1)
    assert first.time > Time(50 << 12)
    second = front.stamp(Timestamp(100), P, Offset(1), 1)
    assert timestamp_of(second.time) == 100
    assert front.stamp(Timestamp(90), P, Offset(2), 1).time > second.time


def test_a_replayed_run_keeps_its_time_whatever_was_asked() -> None:
    entries = [Entry(Time(10 << 12 | F), P, Offset(0), 2), Entry(Time(20 << 12 | F), P, Offset(2), 1)]
    front = JournalledFront(BEGIN)
    front.start(entries, Time(90 << 12))
    front.asked(Time(80 << 12))
    assert front.promise() == entries[0].time
    assert front.replayed() == entries[0]
    assert front.promise() == entries[1].time
    assert front.replayed() == entries[1]
    assert front.promise() > Time(90 << 12)
    assert front.offsets == {P: 3}


def test_positions_at_a_cut_are_those_of_the_runs_below_it() -> None:
    front = _journalled()
    runs = [front.stamp(Timestamp(10 * i), Partition("pq"[i % 2]), Offset(i // 2), 1) for i in range(4)]
    position = front.positions.at(runs[2].time)
    assert position.last == runs[1].time
    assert position.offsets == {Partition("p"): 1, Partition("q"): 1}
    front.positions.forget(runs[2].time)
    assert front.positions.at(runs[2].time) == position


@pytest.mark.parametrize(
    ("first", "count", "end", "offsets"),
    [(5, 3, 8, [5, 6, 7]), (5, 1, 9, [8]), (5, 3, 9, [-1, -1, 8])],
    ids=["without gaps", "one record behind a gap", "gaps between"],
)
def test_a_record_s_offset_is_told_only_where_it_is_certain(
    first: int, count: int, end: int, offsets: list[int]
) -> None:
    run = Entry(Time(4096), Partition("p"), Offset(first), count, end=Offset(end))
    assert [RunRecords([None] * count, run).record(index) for index in range(count)] == [
        ("p", offset) for offset in offsets
    ]
    positions = Positions(BEGIN)
    positions.add(run)
    assert [positions.record(Time(4096), index) for index in range(count)] == [
        ("p", offset) for offset in offsets
    ]
    assert positions.record(Time(8192), 0) is None
