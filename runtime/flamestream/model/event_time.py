"""Event time: when things happened, as their records say, and how far each source has come in it.

An event time is a number of microseconds since 1970 (or since whatever a job's integers count from). A source that knows its event time
(`graph.source(..., at=...)`) tells progress: for each partition, the greatest time seen, less `late`. A record carries it if it
moves progress within its run, so progress depends on the records and their order alone, and never on a clock, a batch's size or the
worker that read it (!): every replay and every runner tells the same.

    records   10:00:01  10:00:03  10:00:02  10:00:09       late="2s", step="1s"
    progress   9:59:59  10:00:01            10:00:07

Keeps: what is told again, as a run read in two pieces does, changes nothing. Does not: take the least over partitions (windows/marks.py).
Source: Google Dataflow's watermarks (VLDB 2015), made items of the total order; rule 21 of the design.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NewType

from flamestream.model.duration import Micros
from flamestream.model.errors import UserError
from flamestream.model.failure import called
from flamestream.model.graph import Function, Graph, name_of
from flamestream.model.payload import ErrorValue, payload_type
from flamestream.model.time import FrontId

EventTime = NewType("EventTime", int)
"""Microseconds."""
END_OF_TIME: Final = EventTime(1 << 62)
"""After every event: the progress of an input that has ended."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeOf:
    """item -> its event time."""

    at: Callable[[Any], Any]
    """item -> an aware datetime, or an int."""
    unit: int
    """Microseconds of an int; 0: times are datetimes."""

    def __call__(self, item: Any) -> EventTime:
        """Raises UserError if the item says none, and Raised for what `at` raises."""
        return self.read(called(self.at, item), self.at)

    def read(self, value: Any, function: Function) -> EventTime:
        """A time as items say it, in microseconds. Raises UserError that names `function`, which gave it."""
        if self.unit:
            if type(value) is int:
                return EventTime(value * self.unit)
            raise UserError(f"{name_of(function)} gave the event time {value!r}: with unit= it must be an int")
        if not isinstance(value, datetime):
            raise UserError(f'{name_of(function)} gave the event time {value!r}: it must be a datetime, or say unit="ms" for an int')
        if value.tzinfo is None:
            raise UserError(f"{name_of(function)} gave the event time {value!r}, which has no zone: which instant is meant is not known")
        return EventTime((value - EPOCH) // _MICROSECOND)

    def shown(self, time: int) -> Any:
        """A time in the form that items have: a datetime in UTC, or an int."""
        return time // self.unit if self.unit else EPOCH + timedelta(microseconds=time)


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


@payload_type
@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition of a source has come."""

    source: str
    front: int
    partition: str
    fronts: int
    """Fronts of the source: until each has told something nothing is known of the least."""
    time: int | None
    """No record that is in time will be older; None: nothing is known yet, or the partition is idle. END_OF_TIME: all partitions of the
    front have ended."""
    idle: bool = False


@payload_type
@dataclass(frozen=True, slots=True)
class Marker:
    """A run without records that says something of its partition, "found" or "idle", or of all of its front: "ended"."""

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


FOUND, IDLE, ENDED = Marker("found"), Marker("idle"), Marker("ended")


def record_count(run: Sequence[Any]) -> int:
    """The records of a run, which is all records or one marker."""
    return 0 if len(run) == 1 and type(run[0]) is Marker else len(run)


def entrance(graph: Graph, front: FrontId, sources: Mapping[FrontId, str]) -> "Entrance | None":
    """Where the records of `front` enter, if its source tells event time. `sources`: of all fronts of the job."""
    name = sources.get(front)
    timing = next((source.timing for source in graph.sources if source.name == name), None)
    return None if timing is None or name is None else Entrance(timing, name, front, sum(each == name for each in sources.values()))


class Entrance:
    """Where the records of one front enter: as events, those that move progress `Stamped`."""

    def __init__(self, timing: Timing, source: str, front: FrontId, fronts: int) -> None:
        self._timing, self.source, self._front, self._fronts = timing, source, front, fronts
        self.newest: int | None = None
        """The greatest progress told here, for people: nothing is decided by it (!). END_OF_TIME: the input has ended."""

    def entering(self, partition: str, records: Sequence[Any]) -> list[Any]:
        """The records of a run, in order. A run without any tells that its partition is there."""
        entering, last = list(records) or [FOUND], None
        for index, record in enumerate(entering):
            if type(record) is Marker:
                entering[index] = Stamped(record, self._told(partition, record))
            elif type(record) is not ErrorValue:
                event, time = self._event(record)
                if time is not None and self._moves(time, last):
                    last = time
                    self.newest = time if self.newest is None else max(time, self.newest)
                    event = Stamped(event, Progress(self.source, self._front, partition, self._fronts, time))
                entering[index] = event
        return entering

    def _moves(self, time: int, last: int | None) -> bool:
        # With `max_ahead` a greater time may not count, and a smaller one behind it must: only what was just told is left out (!).
        return last is None or (time > last if self._timing.max_ahead is None else time != last)

    def _told(self, partition: str, marker: Marker) -> Progress:
        time = END_OF_TIME if marker == ENDED else None
        self.newest = time or self.newest
        return Progress(self.source, self._front, partition, self._fronts, time, marker == IDLE)

    def _event(self, record: Any) -> tuple[Any, int | None]:
        """The event, and the progress it is; None if it says no time: then it is an error item where its time is wanted."""
        timing, event = self._timing, None
        try:
            event = record if timing.decode is None else timing.decode(record)
            time = timing.time(event) - timing.late
        except (MemoryError, RecursionError):
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the vertex that reads the record, or its time, reports it)
            return Undecoded(record) if event is None else event, None
        return event, time - time % timing.step
