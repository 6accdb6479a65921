"""A source's recorded input, read again: every run with its time, as the front must have stamped it.

A timed source gives the same records in the same order, and its stamps follow from them: they are computed
here once more, without the front's code. A journalled source's runs are in its journal, if that keeps
everything (`journal.keep: true`).

Keeps: what cannot be known is refused, never guessed. Does not: interpret the input.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any, ClassVar, Final

from flamestream.connectors import sources
from flamestream.connectors.files.windows import Position
from flamestream.connectors.kit.connector import SourceContext
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, Event, RecordsArrived, RunRead, SourceEnded, SourceFailed
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import Positions, RunRecords, TimedFront
from flamestream.journal import places as journals
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Bug, Corrupt, UserError
from flamestream.model.event_time import ENDED
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.payload import decode_many
from flamestream.model.time import END, START, Time, step_after
from flamestream.ports import Producer

_FENCE: Final = Fence(Attempt(1), LayoutVersion(1))
_WITHOUT_LIMIT: Final = 1 << 40
_TIME: Final = attrgetter("time")
READ_AHEAD: Final = 64
"""Journalled runs that are asked for at once."""


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """A front's source, and its journal if that keeps everything. Picklable."""

    job: str
    front: FrontSettings
    spec: dict[str, Any]
    journal: journals.JournalConfig | None = None
    share: int = 0
    """Which of its source's fronts it is."""
    behind: Time = START
    """The last stamp before its own first one: of a job that began with a history."""
    tells_time: bool = False
    """It has event time, so that its end is a run of its own."""

    def below(self, end: Time, entries: Sequence[Entry] | None = None) -> Iterator[tuple[Time, list[Any]]]:
        """Runs of the front below `end`. `entries`: of its journal, if somebody has read it already."""
        return _Recorded(self).runs(end, entries)

    def entries(self) -> list[Entry]:
        """Entries of the front's journal; none for a timed source. Raises UserError if the journal does not
        keep everything."""
        return [] if self.front.timed else _journal_of(self)

    def entries_from(self, cut: Time) -> list[Entry]:
        """Entries of the front's journal at or above `cut`, where a job that runs has not trimmed it; none for
        a timed source."""
        if self.front.timed or self.journal is None:
            return []
        entries = journals.everything(self.journal, self.job, self.front.front, cut)
        return [entry for entry in entries if entry.time >= cut and not entry.is_pledge]

    def onward(self, position: FrontPosition) -> Iterator[tuple[Time, list[Any]]]:
        """Runs of a timed front from a place on, whether the job has read them yet or not."""
        return _Recorded(self).onward(position)

    def skipped(self, run: Entry) -> str:
        """The reason why a gap between two runs, which `run` names, is a hole: the source has records there;
        "" if it has none, or cannot be asked, as a clock."""
        if not self.front.replayable:
            return ""
        try:
            list(self.below(END, [run]))
        except Corrupt as error:
            return str(error)
        return ""

    def beyond(self, ends: Mapping[Partition, Offset]) -> int:
        """The number of records that a source that ends has from `ends` on."""
        return _Recorded(self).beyond(ends)

    def runs(self) -> Iterator[tuple[Time, int, list[Any]]]:
        """All of it, as one piece (pieces.py)."""
        return ((time, 0, records) for time, records in self.below(END))


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """Some runs of a journalled source. Picklable."""

    source: RecordedSource
    entries: Sequence[Entry]

    def runs(self) -> Iterator[tuple[Time, int, list[Any]]]:
        """As a piece (pieces.py)."""
        return ((time, 0, records) for time, records in self.source.below(END, self.entries))


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A journalled source as it was recorded, cut by global time (windows.py). A position is a number of
    entries."""

    source: RecordedSource
    entries: Sequence[Entry]
    """All of its journal, pledges left out."""

    begin: ClassVar[Position] = (0,)

    @property
    def last(self) -> Time:
        """The time of the newest run; START if there is none."""
        return self.entries[-1].time if self.entries else START

    def behind(self, position: Position, runs: int) -> Time | None:
        """The time of the run behind the next `runs`; None if that is none."""
        number = position[0] + runs
        return self.entries[number].time if number < len(self.entries) else None

    def piece(self, position: Position, cut: Time) -> tuple[RecordedRuns, Position]:
        """The runs from `position` to below `cut`, and the position there."""
        end = bisect_left(self.entries, cut, lo=position[0], key=_TIME)
        return RecordedRuns(self.source, self.entries[position[0] : end]), (end,)

    def place_at(self, cut: Time, before: FrontPosition | None) -> FrontPosition:
        """The front's place at a cut; `before`: at an earlier one."""
        front = self.source.front.front
        positions = Positions(begin := before or FrontPosition(front, START, {}))
        first = bisect_right(self.entries, begin.last, key=_TIME)
        for entry in self.entries[first : bisect_left(self.entries, cut, key=_TIME)]:
            positions.add(entry)
            if not entry.moves and decode_many(entry.payloads)[0] == ENDED:
                positions.end(entry.time)
        return positions.at(END)


class _Recorded:
    """The input of one front, read through its producer in a loop of its own."""

    def __init__(self, source: RecordedSource) -> None:
        self._source = source
        self._front = source.front
        self._events: list[Event] = []
        self._reactor = EpollReactor()

    def runs(self, end: Time, entries: Sequence[Entry] | None) -> Iterator[tuple[Time, list[Any]]]:
        try:
            yield from self._timed(end) if self._front.timed else self._journalled(end, entries)
        finally:
            self._reactor.close()

    def onward(self, position: FrontPosition) -> Iterator[tuple[Time, list[Any]]]:
        front = TimedFront(
            position, self._front.run_length, step=self._front.step, tells_time=self._source.tells_time
        )
        try:
            for event in self._followed(position.offsets):
                if isinstance(event, RecordsArrived):
                    front.take(event.first, event.payloads)
                else:
                    front.end(told=position.ended)
                while front.ready:
                    entry, records = front.stamp()
                    yield entry.time, RunRecords(records, entry)
        finally:
            self._reactor.close()

    def beyond(self, ends: Mapping[Partition, Offset]) -> int:
        try:
            return sum(
                len(event.payloads) for event in self._followed(ends) if isinstance(event, RecordsArrived)
            )
        finally:
            self._reactor.close()

    def _timed(self, end: Time) -> Iterator[tuple[Time, list[Any]]]:
        last, waiting, first = self._source.behind, list[Any](), 0
        front, length = self._front.front, self._front.run_length
        for event in self._followed({}):
            waiting += event.payloads if isinstance(event, RecordsArrived) else ()
            at_end = isinstance(event, SourceEnded)
            while len(waiting) >= length or (at_end and waiting):
                last = step_after(last, front, self._front.step)
                if last >= end:
                    return
                yield (
                    last,
                    RunRecords(
                        waiting[:length], Entry(last, Partition(""), Offset(first), len(waiting[:length]))
                    ),
                )
                first += len(waiting[:length])
                del waiting[:length]
        if self._source.tells_time and (last := step_after(last, front, self._front.step)) < end:
            yield last, RunRecords([ENDED], Entry(last, Partition(""), Offset(first), 0))

    def _followed(self, offsets: Mapping[Partition, Offset]) -> Iterator[Event]:
        """The producer's events from `offsets` on; the last one is SourceEnded unless nobody asks on."""
        producer = self._producer()
        producer.follow(Follow(_FENCE, self._front.front, dict(offsets)))
        producer.pull(Pull(_FENCE, self._front.front, _WITHOUT_LIMIT, _WITHOUT_LIMIT))
        try:
            while True:
                self._reactor.turn()
                for event in self._taken():
                    yield event
                    if isinstance(event, SourceEnded):
                        return
        finally:
            producer.close()

    def _journalled(self, end: Time, known: Sequence[Entry] | None) -> Iterator[tuple[Time, list[Any]]]:
        entries = [
            entry for entry in (_journal_of(self._source) if known is None else known) if entry.time < end
        ]
        # Payloads of sources that cannot be read again, and markers, are in the journal itself. They come
        # first, out of the order of times: whoever interprets runs sorts them.
        here = [bool(entry.payloads) or not self._front.replayable for entry in entries]
        yield from (
            (entry.time, RunRecords(decode_many(entry.payloads), entry)) for entry in compress(entries, here)
        )
        if not (entries := [entry for entry, known in zip(entries, here, strict=True) if not known]):
            return
        producer = self._producer()
        try:
            for start in range(0, len(entries), READ_AHEAD):
                yield from self._read(producer, entries[start : start + READ_AHEAD])
        finally:
            producer.close()

    def _read(self, producer: Producer, entries: Sequence[Entry]) -> Iterator[tuple[Time, list[Any]]]:
        for entry in entries:
            producer.read(ReadRun(_FENCE, self._front.front, entry))
        missing = len(entries)
        while missing:
            self._reactor.turn()
            for event in self._taken():
                assert isinstance(event, RunRead), f"a producer that was asked for runs said {event}"
                yield event.entry.time, RunRecords(event.payloads, event.entry)
                missing -= 1

    def _taken(self) -> list[Event]:
        events = self._events.copy()
        self._events.clear()
        for event in events:
            if isinstance(event, SourceFailed):
                raise Corrupt(f"source {self._front.source!r} cannot be read again: {event.message}")
            if not isinstance(event, RecordsArrived | RunRead | SourceEnded):
                raise Bug(f"source {self._front.source!r} said {event} to an audit")
        return events

    def _producer(self) -> Producer:
        name = str(self._front.source)
        context = SourceContext(
            name, self._source.job, self._front.front, self._source.share, self._events.append, self._reactor
        )
        return sources.settings_of(self._source.spec, context.where).unpaced().producer(context)


def _journal_of(source: RecordedSource) -> list[Entry]:
    if source.journal is None:
        raise UserError(
            f"source {source.front.source!r} cannot be read again: in which order its records entered is "
            "only in the journal, which is trimmed at every epoch. Set spec.journal.keep: true before the run"
        )
    return [
        entry
        for entry in journals.everything(source.journal, source.job, source.front.front)
        if not entry.is_pledge
    ]
