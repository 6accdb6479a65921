"""Event time: when things happened, as their records say, and how far each source has come in it.

An event time is a number of microseconds since 1970 (or since whatever a job's integers count from). A source
that knows its event time (`graph.source(..., at=...)`) tells progress: for each partition, the greatest time
seen, less `late`, in whole steps. A record that moves it within its run carries it (of many some), so
progress depends on the runs alone, and never on a clock or the worker that read it (!): every replay and
every runner tells the same.

    records   10:00:01  10:00:03  10:00:02  10:00:09       late="2s", step="1s"
    progress   9:59:59  10:00:01            10:00:07

Keeps: what is told twice changes nothing. Does not: take the least over partitions (windows/marks.py).
Source: Google Dataflow's watermarks (VLDB 2015), made items of the total order; rule 21 of the design.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nlargest
from operator import attrgetter
from typing import Any, ClassVar, Final, NewType, TypeVar

from flamestream.model.duration import Micros
from flamestream.model.errors import RecordError, UserError
from flamestream.model.event_decoder import Decoder
from flamestream.model.expressions.expression import Field
from flamestream.model.failure import FATAL, called
from flamestream.model.graph import Graph
from flamestream.model.ids import NOTE, SourceName
from flamestream.model.kernel import kernel
from flamestream.model.payload import ErrorValue, payload_type
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.time import FrontId, Time, front_of, timestamp_of
from flamestream.model.vertex import Function, name_of

Run = TypeVar("Run", bound=Sequence[Any])
EventTime = NewType("EventTime", int)
"""Microseconds."""
MOST_MARKS: Final = 8
"""Records of a run that tell progress, at most."""
MOST_TOLD: Final = 16
"""Times that such a record tells where some may be too far ahead to count."""
END_OF_TIME: Final = EventTime(1 << 62)
"""After every event: the progress of an input that has ended."""


@dataclass(frozen=True, slots=True)
class TimeOf:
    """item -> its event time."""

    at: Callable[[Any], Any]
    """item -> an aware datetime, or an int."""
    unit: int
    """Microseconds of an int; 0: times are datetimes."""
    of_pairs: ClassVar[bool] = False
    """Is the time of a tuple that of its members?"""

    def __call__(self, item: Any) -> EventTime:
        """Raises UserError if the item says none, and Raised for what `at` raises."""
        return self.read(called(self.at, item), self.at)

    def read(self, value: Any, function: Function) -> EventTime:
        """A time as items say it, in microseconds. Raises UserError that names `function`, which gave it."""
        if self.unit:
            if type(value) is int:
                if abs(time := value * self.unit) >= END_OF_TIME // 2:
                    raise UserError(
                        f"{name_of(function)} gave the event time {value!r}, which is no time of this world: "
                        "is unit= right?"
                    )
                return EventTime(time)
            raise UserError(
                f"{name_of(function)} gave the event time {value!r}: with unit= it must be an int"
            )
        if kernel is not None and (known := kernel.microseconds(value)) is not None:
            return known  # type: ignore[no-any-return]
        if not isinstance(value, datetime):
            raise UserError(
                f'{name_of(function)} gave the event time {value!r}: it must be a datetime, or say unit="ms" '
                "for an int"
            )
        if value.tzinfo is None:
            raise UserError(
                f"{name_of(function)} gave the event time {value!r}, which has no zone: which instant is "
                "meant is not known"
            )
        return EventTime((value - EPOCH) // MICROSECOND)

    def of_all(self, events: list[Any]) -> list[int] | None:
        """The event times of all of them; None if the kernel cannot say them, or one of them has to be asked
        alone."""
        if kernel is None or not isinstance(self.at, Field):
            return None
        return kernel.event_times(events, self.at.name, self.unit)  # type: ignore[no-any-return]

    def fits(self, other: "TimeOf | None") -> bool:
        """Whether items that say their time so and items that do so by `other` may be of one stream."""
        return other is not None and (self is ARRIVAL, self.unit) == (other is ARRIVAL, other.unit)

    def shown(self, time: int) -> Any:
        """A time in the form that items have: a datetime in UTC, or an int. Raises RecordError where there
        is no such datetime."""
        if self.unit:
            return time // self.unit
        try:
            return EPOCH + time * MICROSECOND
        except OverflowError:
            raise RecordError(
                f"{time / 1e6:.0f} s since 1970 is outside of the years 1 to 9999, which datetimes have: "
                "filter such items out, or give their times as ints (`unit`)"
            ) from None

    def shown_end(self, time: int) -> Any:
        """The end of something, which does not belong to it: not before it, where ints are coarser (!). A
        session over windows, whose times are last microseconds, would come too late for what is behind it."""
        return self.shown(time + max(0, self.unit - 1))


@payload_type
@dataclass(frozen=True, slots=True)
class Dated:
    """An item that does not say its event time, with it (`Kind.ARRIVAL`)."""

    item: Any
    time: int
    """Microseconds since 1970: the timestamp of the run that brought its record."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record of a source with `clock="arrival"` for `Graph.run`, and when it arrives there."""

    record: Any
    at: datetime
    """With a zone."""


class ArrivalTime(TimeOf):
    """Dated -> its time: when a record arrived is in its place in the order, so no replay asks a clock again
    (!)."""

    __slots__ = ()

    def __call__(self, item: Dated) -> EventTime:
        return EventTime(item.time)

    def __reduce__(self) -> str:
        return "ARRIVAL"  # the one of the process that it comes to (!): it is known by identity


ARRIVAL: Final = ArrivalTime(attrgetter("time"), 0)


@dataclass(frozen=True, slots=True)
class Timing:
    """How a source tells its event time."""

    decode: Callable[[Any], Any] | None
    """record -> event; None: records are events."""
    time: TimeOf
    late: Micros
    """How far records may be behind the greatest time and still be in time."""
    step: Micros
    """Progress is told in whole steps."""
    max_ahead: Micros | None = None
    """A record further than this ahead of the mark does not move it; None: any may."""
    idle: Micros | None = None
    """A partition without records for this long of the clock is not waited for; None: it is, however long."""
    in_sequence: bool = False
    """Partitions come one after the other, each whole, so there is one progress: that of all of them."""
    every: Micros | None = None
    """Records are the readings of a clock, one at each multiple of this (`Graph.clock`); None: they come from
    outside."""

    @property
    def by_arrival(self) -> bool:
        """Event time is when records arrive."""
        return self.time is ARRIVAL


@payload_type
@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition of a source has come."""

    source: str
    front: int
    partition: str
    fronts: int
    """Fronts of the source: until each has told something nothing is known of the least."""
    times: tuple[int, ...]
    """No record that is in time will be older than the greatest of these that counts (`max_ahead`), the
    greatest first; none: nothing is known yet, or the partition is idle. END_OF_TIME: all partitions of the
    front have ended."""
    idle: bool = False


@payload_type
@dataclass(frozen=True, slots=True)
class Marker:
    """A run without records that says something of its partition, "found" or "idle", or of all of its front:
    "passed" (its clock has come to the time of the run) or "ended"."""

    says: str


@payload_type
@dataclass(frozen=True, slots=True)
class Stamped:
    """A record, or a marker, that moves progress."""

    record: Any
    progress: Progress


@payload_type
@dataclass(frozen=True, slots=True)
class Undecoded:
    """A record that `decode` fails for: it becomes an error item in the graph."""

    record: Any


FOUND, IDLE, PASSED, ENDED = Marker("found"), Marker("idle"), Marker("passed"), Marker("ended")


_NOT_READ: Final = {Marker, ErrorValue}
"""Classes of what a source gives that is no record."""


def record_count(run: Sequence[Any]) -> int:
    """The records of a run, which is all records or one marker."""
    return 0 if len(run) == 1 and type(run[0]) is Marker else len(run)


def partition_of(run: Sequence[Any]) -> str:
    """The partition of a run, where whoever gave it says so (`core.worker.front.RunRecords`)."""
    said = getattr(run, "run", None)
    return "" if said is None else str(said.partition)


def least_by_source(told: Iterable[tuple[SourceName, int | None]]) -> dict[SourceName, int | None]:
    """How far the last of those who tell of a source has come; None: one knows nothing."""
    least: dict[SourceName, int | None] = {}
    for source, time in told:
        before = least.get(source, time)
        least[source] = None if before is None or time is None else min(before, time)
    return least


def take_in_sequence(graph: Graph, sources: Container[str]) -> None:
    """Take the partitions of these sources for one: what the manifest says of them, in every process that
    loads the graph."""
    for vertex in graph.sources:
        if vertex.timing is not None and vertex.name in sources:
            vertex.timing = replace(vertex.timing, in_sequence=True)


class Entrances:
    """Where the runs of a job enter. Those of sources without event time enter as they are."""

    def __init__(self, graph: Graph, sources: Mapping[FrontId, str]) -> None:
        """`sources`: of all fronts of the job."""
        self.timings = {
            SourceName(source.name): source.timing for source in graph.sources if source.timing is not None
        }
        """The event time of each source that has one."""
        fronts = Counter(sources.values())
        timed = ((front, SourceName(name)) for front, name in sources.items() if name in self.timings)
        self._doors = {
            front: Entrance(self.timings[name], name, front, fronts[name]) for front, name in timed
        }

    def entering(self, time: Time, partition: str, records: Run) -> Run | list[Any]:
        """The records of the whole run at `time` as they enter."""
        door = self._doors.get(front_of(time))
        return records if door is None else door.entering(time, partition, records)

    def event_times(self, fronts: Iterable[FrontId]) -> dict[SourceName, int | None]:
        """How far the last of these fronts has come, by source; None: one has told nothing."""
        doors = (self._doors[front] for front in fronts if front in self._doors)
        return least_by_source((door.source, door.newest) for door in doors)

    def idle(self, fronts: Iterable[FrontId]) -> dict[SourceName, int]:
        """Partitions of these fronts that are idle, by source, where there are any."""
        count = Counter[SourceName]()
        for door in (self._doors[front] for front in fronts if front in self._doors):
            count[door.source] += len(door.idle)
        return {source: number for source, number in count.items() if number}


class Entrance:
    """Where the records of one front enter: as events, those that move progress `Stamped`."""

    def __init__(self, timing: Timing, source: SourceName, front: FrontId, fronts: int) -> None:
        self._timing, self.source, self._front, self._fronts = timing, source, front, fronts
        self.idle = set[str]()
        """Partitions that nobody waits for, for people too."""
        self.newest: int | None = None
        """The greatest progress told here, for people: nothing is decided by it (!). END_OF_TIME: the input
        has ended."""

    def entering(self, time: Time, partition: str, records: Sequence[Any]) -> list[Any]:
        """The records of a whole run, in order. A run without any tells that its partition is there."""
        if self._timing.by_arrival:
            return self._arriving(timestamp_of(time), list(records) or [FOUND])
        # (!) A file that was read would hold the mark back for ever, and be remembered as long.
        partition = "" if self._timing.in_sequence else partition
        self.idle.discard(partition)
        # (!) Nothing comes of a note, and a mark would wait for it; but its front has told something.
        found = IDLE if partition.startswith(NOTE) else FOUND
        entering, times = self._read(partition, list(records) or [found])
        moves = list(self._moves(times))
        for group in _thinned(moves):
            index, told = group[-1][0], self._times(time for _, time in group)
            self.newest = told[0] if self.newest is None else max(told[0], self.newest)
            entering[index] = Stamped(
                entering[index], Progress(self.source, self._front, partition, self._fronts, told)
            )
        return entering

    def _arriving(self, time: int, run: list[Any]) -> list[Any]:
        """A run whose first item tells when it arrived: for all of its front, whose times only grow."""
        entering = [item if type(item) in (Marker, ErrorValue) else self._decoded(item) for item in run]
        if (
            first := next(
                (index for index, item in enumerate(entering) if type(item) is not ErrorValue), None
            )
        ) is not None:
            ended = type(run[first]) is Marker and run[first] == ENDED
            self.newest = END_OF_TIME if ended else time - time % self._timing.step
            entering[first] = Stamped(
                entering[first], Progress(self.source, self._front, "", self._fronts, (self.newest,))
            )
        return entering

    def _read(self, partition: str, records: list[Any]) -> tuple[list[Any], Sequence[int | None]]:
        """Entering items of the records, and the event time that each tells, if it does."""
        events = self._decoded_all(records)
        if events is not None and (times := self._timing.time.of_all(events)) is not None:
            return events, times
        read = [self._entering(partition, record) for record in records]
        return [event for event, _ in read], [time for _, time in read]

    def _decoded_all(self, records: list[Any]) -> list[Any] | None:
        """All records at once; None if each must be read alone."""
        decode = self._timing.decode
        if decode is None:
            return records
        try:
            if isinstance(decode, Decoder):
                return decode.of_all(records)
            # No `map`: a StopIteration of the function would end it in silence (!).
            return None if _NOT_READ & set(map(type, records)) else [decode(record) for record in records]
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the record at fault is read again, alone)
            return None

    def _moves(self, times: Iterable[int | None]) -> Iterator[tuple[int, int]]:
        """(index, progress) of the records that move it."""
        late, step, any_counts = self._timing.late, self._timing.step, self._timing.max_ahead is None
        low = high = 0  # times from here to there move nothing
        for index, time in enumerate(times):
            if time is not None and not low <= time < high:
                progress = (time - late) // step * step
                # With `max_ahead` a greater time may not count, and a smaller one behind it must.
                low, high = -END_OF_TIME if any_counts else progress + late, progress + late + step
                yield index, progress

    def _times(self, moves: Iterable[int]) -> tuple[int, ...]:
        return (max(moves),) if self._timing.max_ahead is None else tuple(nlargest(MOST_TOLD, set(moves)))

    def _told(self, partition: str, marker: Marker) -> Progress:
        ended = marker == ENDED
        if ended:
            self.newest = END_OF_TIME
            self.idle.clear()
        elif marker == IDLE and not partition.startswith(NOTE):
            self.idle.add(partition)
        return Progress(
            self.source, self._front, partition, self._fronts, (END_OF_TIME,) if ended else (), marker == IDLE
        )

    def _entering(self, partition: str, record: Any) -> tuple[Any, int | None]:
        """Entering item of a record, and its event time; None if it says none: then it is an error item where
        its time is wanted."""
        if type(record) is Marker:
            return Stamped(record, self._told(partition, record)), None
        if type(record) is ErrorValue:
            return record, None
        if type(event := self._decoded(record)) is Undecoded:
            return event, None
        try:
            return event, self._timing.time(event)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the vertex that reads its time reports it)
            return event, None

    def _decoded(self, record: Any) -> Any:
        try:
            return record if self._timing.decode is None else self._timing.decode(record)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the vertex that reads the record reports it)
            return Undecoded(record)


def _thinned(moves: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """(index, time) of the records that move progress, in groups: the last of each tells it. A mark goes to
    every shard of keys, so a run with a step at every record must not lead to one at each (!)."""
    groups = min(len(moves), MOST_MARKS)
    return (
        moves[len(moves) * number // groups : len(moves) * (number + 1) // groups] for number in range(groups)
    )
