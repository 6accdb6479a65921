"""Event time: when things happened, as their records say, and how far each source has come in it.

An event time is a number of microseconds since 1970 (or since whatever a job's integers count from). A source
that knows its event time (`graph.source(..., at=...)`) tells progress: for each partition, the greatest time
seen, less `late`, in whole steps. A record that moves it within its run carries it (of many some), so
progress depends on the runs alone, and never on a clock or the worker that read it (!): every replay and
every runner tells the same.

    records   10:00:01  10:00:03  10:00:02  10:00:09       late="2s", step="1s"
    progress   9:59:59  10:00:01            10:00:07

Keeps: what is told twice changes nothing. Does not: tell it of a run (entrances.py), or take the least over
partitions (windows/marks.py).
Source: Google Dataflow's watermarks (VLDB 2015), made items of the total order; rule 21 of the design.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Final, NewType

from flamestream.model.duration import Micros
from flamestream.model.errors import RecordError, UserError
from flamestream.model.expressions.expression import Field
from flamestream.model.failure import called
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.kernel import kernel
from flamestream.model.payload import payload_type
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.vertex import Function, name_of

EventTime = NewType("EventTime", int)
"""Microseconds."""
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


def record_count(run: Sequence[Any]) -> int:
    """The records of a run, which is all records or one marker."""
    return 0 if len(run) == 1 and type(run[0]) is Marker else len(run)


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
