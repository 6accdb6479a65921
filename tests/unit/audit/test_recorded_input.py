"""A gap in the offsets of a source is a hole if the source has records there, and else none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flamestream.audit.answers import asked_below
from flamestream.audit.committed import LastCommit
from flamestream.audit.recorded import RecordedInput
from flamestream.connectors.recorded import RecordedSource
from flamestream.connectors.sources import SourceTraits
from flamestream.connectors.synthetic.memory import channel_named
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.calls.call import Answer
from flamestream.model.ids import Offset, Partition, SourceName
from flamestream.model.meta import meta_of
from flamestream.model.time import END, START, FrontId, Time

TABLE = Partition("")


class Table:
    """A journalled source with keys that skip, as `RecordedSource` reads it."""

    front = FrontSettings(FrontId(0), SourceName("rows"), timed=False)

    def __init__(self, *keys: int) -> None:
        self._keys = keys

    def entries(self) -> list[Entry]:
        return [
            Entry(Time(10), TABLE, Offset(1), 3, end=Offset(4)),
            Entry(Time(20), TABLE, Offset(8), 2, end=Offset(10)),
        ]

    def below(self, end: Time, entries: Sequence[Entry]) -> Iterator[tuple[Time, list[Any]]]:
        return (
            (entry.time, [key for key in self._keys if entry.first <= key < entry.next]) for entry in entries
        )

    def skipped(self, run: Entry) -> str:
        there = [key for key in self._keys if run.first <= key < run.next]
        return f"the table has {there}" if there else ""

    def beyond(self, ends: Mapping[Partition, Offset]) -> int:
        return sum(key >= ends[TABLE] for key in self._keys)


def looked_at(table: Table, outcome: str = "") -> list[str]:
    traits = SourceTraits(timed=False, run_length=0, replayable=True, bounded=True, skips=True, start=1)
    [front] = RecordedInput([table], {"rows": traits}, LastCommit(None, outcome=outcome)).read(END)  # type: ignore[list-item]
    assert front.records == 5
    return [finding.text for finding in front.findings]


def test_keys_that_were_never_given_are_no_hole() -> None:
    assert looked_at(Table(1, 2, 3, 8, 9)) == []


def test_rows_that_are_there_and_in_no_run_are_a_hole() -> None:
    assert looked_at(Table(1, 2, 3, 5, 8, 9)) == ["records 4 to 7 not recorded: the table has [5]"]


def test_rows_behind_the_last_that_entered_are_told_of_a_job_that_has_completed() -> None:
    table = Table(1, 2, 3, 8, 9, 10, 12)
    assert looked_at(table) == [], "they may still enter"
    assert looked_at(table, "completed") == [
        "the source has 2 records behind the last that entered, and the job has completed"
    ]


def test_answers_are_read_before_what_they_answer() -> None:
    """Of a job that runs: else the newest answers would be to what nobody has asked yet."""
    read: list[str] = []

    class Read(Table):
        def __init__(self, number: int, name: str) -> None:
            super().__init__()
            self.front = FrontSettings(FrontId(number), SourceName(name), timed=False)

        def entries(self) -> list[Entry]:
            read.append(self.front.source)
            return []

    # a call's front comes behind those of the sources that its graph had before, and of calls that it asks about
    RecordedInput([Read(0, "rows"), Read(1, "priced()"), Read(2, "again()")], {}, LastCommit(None))  # type: ignore[list-item]
    assert read == ["again()", "priced()", "rows"]


def test_what_was_asked_about_has_entered() -> None:
    request = meta_of(Time(70), 0)
    assert asked_below([(Time(90), ["no answer", Answer(request, b"")])]) == Time(71)
    assert asked_below([]) == START


def test_a_source_is_asked_for_what_it_has_from_an_offset_on() -> None:
    channel = channel_named("beyond")
    channel.append("p", "a", "b", "c")
    channel.append("q", "d")
    channel.end()
    source = RecordedSource(
        "job", FrontSettings(FrontId(0), SourceName("s"), timed=False), {"memory": {"name": "beyond"}}
    )
    assert source.beyond({Partition("p"): Offset(1)}) == 3
    assert source.beyond({Partition("p"): Offset(3), Partition("q"): Offset(1)}) == 0
