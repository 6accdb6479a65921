"""Event times and progress of a run: what is read of all its records at once is what each tells alone."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.model.duration import Micros
from flamestream.model.entrances import Entrance, Entrances
from flamestream.model.event_decoder import Decoder, decoder
from flamestream.model.event_time import (
    ENDED,
    IDLE,
    EventTime,
    Stamped,
    TimeOf,
    Timing,
    Undecoded,
)
from flamestream.model.expressions.expression import Field
from flamestream.model.ids import NOTE, Offset, Partition, SourceName
from flamestream.model.kernel import kernel
from flamestream.model.records import KafkaRecord
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import interpret

BERLIN_IN_SUMMER = timezone(timedelta(hours=2))


@fs.event
class Moment:
    at: datetime | None


@fs.event
class Count:
    at: int


def entrance(time: TimeOf, decode: object, late: int, step: int, max_ahead: int | None) -> Entrance:
    ahead = None if max_ahead is None else Micros(max_ahead)
    timing = Timing(decode, time, Micros(late), Micros(step), ahead)  # type: ignore[arg-type]
    return Entrance(timing, SourceName("source"), FrontId(0), 1)


def one_by_one(door: Entrance, records: list[object]) -> list[object]:
    with (
        patch.object(Decoder, "of_all", return_value=None),
        patch.object(TimeOf, "of_all", return_value=None),
    ):
        return door.entering(Time(0), "", records)


def moments(first: datetime, last: datetime) -> st.SearchStrategy[datetime]:
    seconds = st.floats(first.timestamp(), last.timestamp())
    zones = st.sampled_from([UTC, UTC, BERLIN_IN_SUMMER])
    return st.builds(datetime.fromtimestamp, seconds, zones)


times = st.one_of(
    moments(datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)),
    moments(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)),
)
lines = st.one_of(
    times.map(lambda time: json.dumps({"at": time.isoformat()})),
    st.sampled_from(['{"at": null}', '{"at": "2026-01-01T00:00:00"}', '{"at": 5}', "no line", "{}"]),
)
good_lines = times.map(lambda time: json.dumps({"at": time.isoformat()}))


@given(
    st.one_of(st.lists(good_lines, max_size=12), st.lists(lines, max_size=12)),
    st.booleans(),
    st.sampled_from([None, 10, 10_000_000]),
    st.sampled_from([0, 3, 2_000_000]),
)
def test_a_run_of_lines_enters_as_its_records_do_one_by_one(
    texts: list[str], by_kafka: bool, max_ahead: int | None, late: int
) -> None:
    records = [KafkaRecord("topic", 0, 0, 0, None, text.encode(), ()) if by_kafka else text for text in texts]
    doors = [entrance(TimeOf(Field("at"), 0), decoder(Moment), late, 1_000_000, max_ahead) for _ in range(2)]
    assert doors[0].entering(Time(0), "", records) == one_by_one(doors[1], list(records))
    assert doors[0].newest == doors[1].newest


@given(
    st.lists(st.one_of(st.integers(-50, 50), st.integers(1 << 60, 1 << 70)), max_size=12),
    st.sampled_from([1, 1000]),
)
def test_a_run_of_events_with_integers_enters_as_they_do_one_by_one(counts: list[int], unit: int) -> None:
    doors = [entrance(TimeOf(Field("at"), unit), None, 0, 10, None) for _ in range(2)]
    records: list[object] = [Count(count) for count in counts]
    assert doors[0].entering(Time(0), "", records) == one_by_one(doors[1], records)


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
@given(st.lists(st.integers(-(1 << 40), 1 << 40)))
def test_the_kernel_reads_the_event_times_that_python_reads(counts: list[int]) -> None:
    time = TimeOf(Field("at"), 1000)
    events = [Count(count) for count in counts]
    assert time.of_all(events) == [time(event) for event in events]


@pytest.mark.parametrize(
    "at",
    [None, 1 << 61, True, "5", datetime(2026, 1, 1, tzinfo=UTC)],
)
def test_an_item_whose_time_is_wrong_is_asked_alone(at: object) -> None:
    assert TimeOf(Field("at"), 1).of_all([Count(1), Count(at)]) is None  # type: ignore[arg-type]


def test_progress_is_told_by_each_record_that_passes_a_step_whatever_comes_between() -> None:
    door = entrance(TimeOf(Field("at"), 1), None, 5, 10, None)
    entered = door.entering(Time(0), "", [Count(at) for at in (3, 12, 14, 15, 24, 7, 25)])
    told = {item.record.at: item.progress.times for item in entered if type(item) is Stamped}
    assert told == {3: (-10,), 12: (0,), 15: (10,), 25: (20,)}


def test_a_record_that_cannot_be_read_does_not_keep_others_from_telling_progress() -> None:
    door = entrance(TimeOf(Field("at"), 1), decoder(Count), 0, 10, None)
    first, second = door.entering(Time(0), "", ["no line", '{"at": 20}'])
    assert first == Undecoded("no line")
    assert second.record == Count(20)
    assert second.progress.times == (EventTime(20),)


@fs.event
class Checked:
    at: int

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ERRORS[-self.at]


ERRORS = [ValueError(), StopIteration(), KeyError(), ArithmeticError()]


def counted(text: str) -> Count:
    return Count(Checked(json.loads(text)["at"]).at)


@pytest.mark.parametrize("decode", [decoder(Checked), counted])
@pytest.mark.parametrize("number", range(1, len(ERRORS)))
def test_whatever_a_decoding_function_raises_is_of_its_record_alone(decode: Any, number: int) -> None:
    lines = ['{"at": 20}', f'{{"at": {-number}}}', '{"at": 40}']
    first, second, third = entrance(TimeOf(Field("at"), 1), decode, 0, 10, None).entering(Time(0), "", lines)
    assert (first.record.at, second, third.record.at) == (20, Undecoded(lines[1]), 40)


def test_a_decoder_of_many_records_makes_what_it_makes_of_each() -> None:
    decode = decoder(Count)
    records = ['{"at": 1}', b'{"at": 2}']
    assert decode.of_all(records) == [decode(record) for record in records]


@pytest.mark.parametrize("odd", [Count(3), "no line", '{"at": "3"}', None])
def test_a_decoder_of_many_records_leaves_a_run_with_an_odd_one_to_be_read_one_by_one(odd: object) -> None:
    assert decoder(Count).of_all(['{"at": 1}', odd]) is None


def test_partitions_are_idle_from_their_marker_to_their_next_record_or_the_end() -> None:
    graph = fs.Graph("silent")
    graph.source("numbers", int, at=lambda number: number, unit="s", idle="1m").sink("out")
    front = FrontId(0)
    entrances, idle = Entrances(graph, {front: "numbers"}), []
    for partition, run in (("a", [1]), ("b", [2]), ("a", [IDLE]), ("b", [IDLE]), ("a", [3]), ("", [ENDED])):
        entrances.entering(time_of(Timestamp(1), front), partition, run)
        idle.append(entrances.idle([front]).get(SourceName("numbers"), 0))
    assert idle == [0, 0, 1, 2, 1, 0]


def test_a_note_of_a_source_is_no_partition_that_marks_wait_for() -> None:
    """A front that has a note alone has told something all the same."""
    graph = fs.Graph("notes")
    numbers = graph.source("numbers", int, at=lambda number: number, unit="s")
    numbers.window(fs.tumbling("10s"), key=lambda number: 0).count().map(lambda each: each.value).sink("out")
    fronts = {FrontId(front): "numbers" for front in range(2)}

    def entered(at: int, front: int, partition: str, *records: int) -> tuple[Time, RunRecords]:
        time = time_of(Timestamp(at), FrontId(front))
        entry = Entry(time, Partition(partition), Offset(0), len(records))
        return time, RunRecords(list(records), entry)

    runs = [
        entered(1, 0, "p"),
        entered(2, 0, f"{NOTE}of p"),
        entered(3, 1, f"{NOTE}of none"),
        entered(4, 0, "p", 1, 2, 11),
    ]
    assert [value for _, value in interpret(graph, runs, fronts=fronts)["out"]] == [2]
