"""Streams in event time: how windows are said in a graph.

Does not: do anything with an item (panes.py and its siblings), or find what is due (process.py).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.model.duration import UNITS, Duration, micros
from flamestream.model.errors import GraphError
from flamestream.model.event_time import EventTime, Marker, Stamped, TimeOf, Timing, Undecoded
from flamestream.model.graph import Function, Graph, Kind, Stream, name_of
from flamestream.model.ready import Field
from flamestream.model.windows.aggregates import Aggregate, counted
from flamestream.model.windows.panes import Panes
from flamestream.model.windows.process import Input, late_items, processed, values
from flamestream.model.windows.program import Program


def timed_source(
    graph: Graph, name: str, decode: Function | None, at: Function | str, unit: str | None, late: Duration, idle: Duration | None,
    max_ahead: Duration | None,
) -> Stream[Any]:  # fmt: skip
    """A source that tells its event time: its records, without what goes with them for the marks (marks.py)."""
    if unit is not None and unit not in UNITS:
        raise GraphError(f"source {name!r} in graph {graph.name!r}: unit={unit!r} is none of {', '.join(UNITS)}")
    time = TimeOf(function_of(at), UNITS[unit] if unit else 0)
    where = f"source {name!r} in graph {graph.name!r}"
    timing = Timing(
        decode,
        time,
        micros(late, f"{where}: late"),
        graph.step,
        max_ahead=None if max_ahead is None else micros(max_ahead, f"{where}: max_ahead", least=1),
        idle=None if idle is None else micros(idle, f"{where}: idle", least=1),
    )
    source: Stream[Any] = Stream(graph, graph.add(Kind.SOURCE, name, timing=timing))
    records = source.flat_map(Events(decode))
    return Stream(graph, records.vertex, event_time=time)


class Events:
    """What enters -> the event, whether or not it moves progress; nothing of a marker."""

    def __init__(self, decode: Function | None) -> None:
        self._decode = decode
        self.written = "the source's records" if decode is None else name_of(decode)

    def __call__(self, entering: Any) -> tuple[Any, ...]:
        if type(entering) is Stamped:
            entering = entering.record
        if type(entering) is Undecoded:
            assert self._decode is not None, "it has failed"
            return (self._decode(entering.record),)  # raises again, where that becomes an error item
        return () if type(entering) is Marker else (entering,)


def function_of(key: Function | str) -> Function:
    """A field of items by its name, or the function itself."""
    return Field(key) if isinstance(key, str) else key


class LastOf(TimeOf):
    """fs.Windowed -> the last microsecond of its window, which is its event time."""

    __slots__ = ()

    def __call__(self, item: Any) -> EventTime:
        return EventTime(super().__call__(item) - 1)


class Results(Stream[Any]):
    """The results of a program."""

    __slots__ = ("steps",)

    def __init__(self, steps: Stream[Any], event_time: TimeOf | None) -> None:
        object.__setattr__(self, "steps", steps)
        super().__init__(steps.graph, steps.flat_map(values).vertex, event_time=event_time)

    @property
    def late(self) -> Stream[Any]:
        """The items that came too late for it, as they were. Nothing is dropped in silence: give them a sink."""
        steps: Stream[Any] = self.steps  # type: ignore[attr-defined]
        return steps.flat_map(late_items)


def results_of(program: Program, *inputs: tuple[Stream[Any], Function], event_time: TimeOf | None = None) -> Results:
    """The results of a program on streams, each with its key. Raises GraphError for a stream without event time."""
    return Results(processed(tuple(_input(stream, key, program) for stream, key in inputs), program), event_time)


def _input(stream: Stream[Any], key: Function, program: Program) -> Input:
    leading = [source.timing for source in stream.graph.sources if source.timing and stream.vertex in stream.graph.reachable(source.id)]
    if stream.event_time is None or not leading:
        raise _no_time(program.written, stream)
    return Input(stream, key, stream.event_time, min((timing.max_ahead for timing in leading if timing.max_ahead), default=None))


def _no_time(written: str, stream: Stream[Any]) -> GraphError:
    where = f"{written} in graph {stream.graph.name!r}"
    return GraphError(f'{where} needs event time, which its stream has not: say graph.source(..., at="...") where it begins')


@dataclass(frozen=True, slots=True)
class Shape:
    """Tumbling and sliding windows: their length, and how far apart they begin. In microseconds."""

    size: int
    every: int
    offset: int
    written: str


def tumbling(size: Duration, *, offset: Duration = "0s") -> Shape:
    """Windows of length `size`, one behind the other. They begin at multiples of it since 1970 in UTC, `offset` later."""
    return _shape(size, size, offset, f"tumbling({size!r})")


def sliding(size: Duration, *, every: Duration, offset: Duration = "0s") -> Shape:
    """Windows of length `size` that begin every `every`: each item is in several, if that is less."""
    return _shape(size, every, offset, f"sliding({size!r}, every={every!r})")


def _shape(size: Duration, every: Duration, offset: Duration, written: str) -> Shape:
    return Shape(micros(size, "size", least=1), micros(every, "every", least=1), micros(offset, "offset"), written)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a stream, of which nothing is made yet."""

    stream: Stream[Any]
    shape: Shape
    key: Function | str

    def count(self, results: str = "final") -> Results:
        """How many items each window has."""
        return self.aggregate(counted(), results)

    def fold(
        self, *, initial: Callable[[], Any], combine: Callable[[Any, Any], Any], emit: Callable[[Any], Any] | None = None,
        results: str = "final",
    ) -> Results:  # fmt: skip
        """A window's items folded in the order in which they came."""
        return self.aggregate(Aggregate(initial, combine, emit), results)

    def aggregate(self, aggregate: Aggregate, results: str = "final") -> Results:
        """`fs.Windowed(key, start, end, value)` for each window, when it is final, or with results="each" at each of its items."""
        if results not in ("final", "each"):
            raise GraphError(f'results={results!r} is neither "final" nor "each"')
        written, shape = f"window({self.shape.written}).{aggregate.written}", self.shape
        if (time := self.stream.event_time) is None:
            raise _no_time(written, self.stream)
        panes = Panes(shape.size, shape.every, shape.offset, aggregate, results == "each", written, time.shown)
        return results_of(panes, (self.stream, function_of(self.key)), event_time=LastOf(operator.attrgetter("end"), time.unit))
