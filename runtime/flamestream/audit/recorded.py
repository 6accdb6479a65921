"""The input that a job has recorded, read again for an audit, and looked at: is it all that has entered?

Keeps: what is missing, or not what had entered, is told with its source and offsets. Does not: read a source
(connectors/recorded.py), say what must follow what (testing/input_audit.py), or interpret the input
(reference.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from flamestream.audit.answers import asked_below
from flamestream.audit.committed import LastCommit
from flamestream.connectors.recorded import RecordedSource
from flamestream.connectors.sources import SourceTraits
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.worker.front import RunRecords
from flamestream.model.event_time import record_count
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import END, START, FrontId, Time, step_after
from flamestream.reference import Run
from flamestream.testing.input_audit import Finding, Skip, committed_position, contiguity, records, recounted


@dataclass(frozen=True, slots=True)
class Recording:
    """The runs of a front that have entered, as they can be read again here or in another process."""

    source: RecordedSource
    below: Time = END
    """The time that they end at."""
    entries: tuple[Entry, ...] | None = None
    """The front's journal; None: the source is timed, or a history."""
    entered: int | None = None
    """The number of records that have entered; None: all that are there."""

    def runs(self) -> list[Run]:
        """In the order of reading."""
        runs: list[Run] = list(self.source.below(self.below, self.entries))
        return runs if self.entered is None else _first(self.source.front, self.entered, runs)


@dataclass(frozen=True, slots=True)
class FrontInput:
    """The recorded input of one front, and what is wrong with it."""

    source: str
    records: int
    known_from: Literal["source", "journal"]
    """The witness of which records they were: the source, read again, or the journal alone."""
    findings: list[Finding]
    runs: Sequence[Run] = ()
    """The runs of an input that was read here."""
    recording: Recording | None = None
    """The place that they were read from."""


class RecordedInput:
    """The recorded input of all fronts. The journals are read when it is made."""

    def __init__(
        self, recorded: Sequence[RecordedSource], traits: Mapping[str, SourceTraits], last: LastCommit
    ) -> None:
        self._sources, self._traits, self._last = recorded, traits, last
        # (!) Now, behind the sinks that whoever makes this has read: what their results follow from is there
        # by then. And answers before what they answer, whose fronts come before theirs: the job may run.
        self._entries = {source.front.front: source.entries() for source in reversed(recorded)}
        oldest = min((entries[0].time for entries in self._entries.values() if entries), default=END)
        self.savepoint = (
            last.savepoint if last.savepoint is not None and last.savepoint.cut <= oldest else None
        )
        """The savepoint that the job has begun with; None if it had runs of its own before that, and so a
        state."""

    def read(self, timed_below: Time) -> list[FrontInput]:
        """All that is journalled, and of timed fronts what is known to have entered: what is below
        `timed_below`, and what was asked about."""
        journalled = {
            source.front.front: self._journalled(source) for source in self._sources if not source.front.timed
        }
        below = max(timed_below, asked_below(run for found in journalled.values() for run in found.runs))
        return [journalled.get(source.front.front) or self._timed(source, below) for source in self._sources]

    def counted(self, counts: Mapping[FrontId, tuple[int, int]]) -> list[FrontInput]:
        """Input of all fronts where the records are read and counted elsewhere. `counts`: of each timed front
        all records, and those below the committed cut."""
        return [
            self._recounted(source, *counts[source.front.front])
            if source.front.timed
            else self._looked_at(source)
            for source in self._sources
        ]

    def until(self, front: FrontId) -> Time:
        """Behind all that the journal of a front had when this was made."""
        entries = self._entries[front]
        return Time(entries[-1].time + 1) if entries else START

    def entered(self, front: FrontId) -> int | None:
        """The number of records of a timed front that had entered when it was through; None if that is not
        known."""
        position = self._last.position(front) if self._last.cut == END else None
        return None if position is None else sum(position.offsets.values())

    def _journalled(self, source: RecordedSource) -> FrontInput:
        recording = Recording(source, entries=tuple(self._entries[source.front.front]))
        runs = recording.runs()
        return replace(self._looked_at(source), records=_count(runs), runs=runs, recording=recording)

    def _looked_at(self, source: RecordedSource) -> FrontInput:
        """A journal's entries."""
        entries, known_from = (
            self._entries[source.front.front],
            "source" if source.front.replayable else "journal",
        )
        count, wrong = sum(entry.count for entry in entries), list(self._wrong(source, entries))
        return FrontInput(source.front.source, count, known_from, wrong)  # type: ignore[arg-type]  # one of the two

    def _wrong(self, source: RecordedSource, entries: Sequence[Entry]) -> Iterator[Finding]:
        front, traits = source.front.front, self._traits[source.front.source]
        # a restored job's journal begins where the savepoint ends, and not at the first record
        begins = self._begins(front)
        for found in contiguity(entries, begins, Offset(traits.start), skips=traits.skips):
            if isinstance(found, Finding):
                yield found
            elif problem := self._hole(source, found):
                yield problem
        if (position := self._last.position(front)) is not None:
            yield from committed_position(entries, position, self._last.cut, begins)
        ends = {**begins, **{entry.partition: entry.next for entry in entries}}
        if self._last.completed and traits.bounded and (count := source.beyond(ends)):
            text = f"the source has {count:,} records behind the last that entered, and the job has completed"
            yield Finding("unexpected", count, text)

    def _hole(self, source: RecordedSource, skip: Skip) -> Finding | None:
        """Whether the source has records where no run has any."""
        reason = source.skipped(Entry(skip.before, skip.partition, skip.first, 0, end=skip.end))
        if not reason:
            return None
        return Finding(
            "missing",
            skip.end - skip.first,
            f"{records(skip.partition, skip.first, skip.end)} not recorded: {reason}",
        )

    def _begins(self, front: FrontId) -> Mapping[Partition, Offset]:
        """The offsets at which a restored job's partitions go on."""
        known = () if self.savepoint is None else self.savepoint.index.fronts
        return next((each.offsets for each in known if each.front == front), {})

    def _timed(self, source: RecordedSource, below: Time) -> FrontInput:
        runs: list[Run] = list(source.below(below))
        found = self._recounted(source, _count(runs), _count(run for run in runs if run[0] < self._last.cut))
        if (entered := self.entered(source.front.front)) is not None:
            # what the source has got since was never read
            runs = _first(source.front, entered, runs)
        recording = Recording(source, below, entered=entered)
        return replace(found, records=_count(runs), runs=runs, recording=recording)

    def _recounted(self, source: RecordedSource, count: int, below: int) -> FrontInput:
        """A timed front's records, counted."""
        position = self._last.position(source.front.front)
        entered = self.entered(source.front.front)
        findings = [] if position is None else recounted(below, position)
        return FrontInput(
            source.front.source, count if entered is None else min(count, entered), "source", findings
        )


def _count(runs: Iterable[Run]) -> int:
    return sum(record_count(records) for _, records in runs)


def _first(front: FrontSettings, count: int, runs: Sequence[Run]) -> list[Run]:
    """The first `count` records, and the end: what a source has got since it was through was never read."""
    kept: list[Run] = []
    for time, some in runs:
        if not record_count(some):
            # An end stands right behind the last record, and of these some were taken away.
            last = kept[-1][0] if kept else START
            kept.append((step_after(last, front.front, front.step), some))
        elif count > 0:
            kept.append(
                (time, RunRecords(some[:count], some.run) if isinstance(some, RunRecords) else some[:count])
            )
        count -= record_count(some)
    return kept
