"""Streams in event time: where they begin, and what programs give.

Does not: do anything with an item (programs do), or find what is due (process.py).
"""

from dataclasses import replace
from typing import Any, TypeVar

from flamestream.model import fields
from flamestream.model.calls.call import CallFunction
from flamestream.model.duration import UNITS, Duration, Micros, micros
from flamestream.model.errors import GraphError
from flamestream.model.event_time import ARRIVAL, Dated, Marker, Stamped, TimeOf, Timing, Undecoded
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.ready import Field
from flamestream.model.state_names import NAMELESS, Named
from flamestream.model.stream import Stream
from flamestream.model.time import timestamp_of
from flamestream.model.vertex import Function, Kind, call_site, name_of
from flamestream.model.windows.marks import unlimited
from flamestream.model.windows.process import Input, late_items, processed, sound, timed_sources, values
from flamestream.model.windows.program import Program

T = TypeVar("T")


def timed_source(
    graph: Graph, name: str, decode: Function | None, at: Function | str, unit: str | None, late: Duration,
    idle: Duration | None, max_ahead: Duration | None,
) -> Stream[Any]:  # fmt: skip
    """A source that tells its event time: its records, without what goes with them for the marks
    (marks.py)."""
    where = f"source {name!r} in graph {graph.name!r}"
    time = TimeOf(function_of(at), unit_of(unit, where))
    return _events(graph, name, _timing(graph, decode, time, late, idle, max_ahead, where))


def timed_answers(
    graph: Graph, name: str, call: CallFunction[..., Any], at: Function, unit: str | None, late: Duration,
    idle: Duration | None, max_ahead: Duration | None,
) -> Stream[Any]:  # fmt: skip
    """The answers of a call, which tell the event time of their results."""
    where = f"call {name!r} in graph {graph.name!r}"
    time = TimeOf(NewestResult(at), unit_of(unit, where))
    return _events(graph, name, _timing(graph, None, time, late, idle, max_ahead, where), call)


class NewestResult:
    """An answer -> the greatest time of its results. Raises ValueError if it has none."""

    def __init__(self, at: Function) -> None:
        self._at, self.written = at, name_of(at)

    def __call__(self, answer: Any) -> Any:
        return max(map(self._at, getattr(answer, "results", ())))


def unit_of(unit: str | None, where: str) -> int:
    """Microseconds of a unit; 0: none, for times are datetimes. Raises GraphError."""
    if unit is None:
        return 0
    if unit not in UNITS:
        raise GraphError(f"{where}: unit={unit!r} is none of {', '.join(UNITS)}")
    return UNITS[unit]


def _timing(
    graph: Graph, decode: Function | None, time: TimeOf, late: Duration, idle: Duration | None,
    max_ahead: Duration | None, where: str,
) -> Timing:  # fmt: skip
    return Timing(
        decode,
        time,
        micros(late, f"{where}: late"),
        graph.step,
        max_ahead=None if max_ahead is None else micros(max_ahead, f"{where}: max_ahead", least=1),
        idle=None if idle is None else micros(idle, f"{where}: idle", least=1),
    )


def arriving_source(graph: Graph, name: str, decode: Function | None) -> Stream[Any]:
    """A source whose event time is when its records arrive."""
    return _events(graph, name, Timing(decode, ARRIVAL, Micros(0), graph.step))


def ticking_source(graph: Graph, name: str, every: Micros) -> Stream[Any]:
    """A source whose records are the readings of a clock."""
    return _events(graph, name, Timing(None, TimeOf(same, 0), Micros(0), graph.step, every=every))


def same(moment: Any) -> Any:
    """The moment that an item is."""
    return moment


def _events(
    graph: Graph, name: str, timing: Timing, call: "CallFunction[..., Any] | None" = None
) -> Stream[Any]:
    source: Stream[Any] = Stream(graph, graph.add(Kind.SOURCE, name, timing=timing, call=call))
    # The source's first edge (!): a record enters windows before the mark that goes with it, which may be
    # later than its own time (where `max_ahead` lets a record tell the times of several).
    return Stream(graph, source.flat_map(Events(timing.decode)).vertex, event_time=timing.time)


class Events:
    """Function from an entering item to its event, whether or not it moves progress; a marker has none."""

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


class Results(Stream[T]):
    """The results of a program."""

    __slots__ = ("_steps",)

    def __init__(
        self, steps: Stream[Any], event_time: TimeOf | None, items: Any, late: "Results[Any] | None" = None
    ) -> None:
        """`steps`: tuples of results, of the type `items`. `late`: the results that have the late items, if
        they are others."""
        object.__setattr__(self, "_steps", steps if late is None else late._steps)  # type: ignore[attr-defined]
        results = _all_of(steps, values).filter(sound).vertex
        steps.graph.vertices[results].beside = self._steps.vertex  # type: ignore[attr-defined]
        super().__init__(steps.graph, results, items=items, event_time=event_time)

    @property
    def late(self) -> Stream[Any]:
        """The items that came too late for it, as they were. Nothing is dropped in silence: give them a
        sink."""
        steps: Stream[Any] = self._steps  # type: ignore[attr-defined]
        return replace(_all_of(steps, late_items), items=steps.items)


def _all_of(steps: Stream[Any], part: Function) -> Stream[Any]:
    """Results that are there already, one by one: however many windows close at once, none may become an
    error item (!)."""
    return unlimited(steps.flat_map(part))


def results_of(
    program: Program, *inputs: tuple[Stream[Any], Function], event_time: TimeOf | None = None,
    items: Any = None, late: Results[Any] | None = None, named: Named = NAMELESS,
) -> Results[Any]:  # fmt: skip
    """The results of a program on streams, each with its key. `items`: their type, None if it is not known.
    Raises GraphError for a stream without event time."""
    steps = processed(tuple(_input(stream, key, program) for stream, key in inputs), program, named)
    # The type of late items, which are the inputs'; of the steps themselves nobody asks.
    of_inputs = fields.either(*(stream.items for stream, _ in inputs))
    return Results(replace(steps, items=of_inputs), event_time, items, late)


def time_of(stream: Stream[Any], written: str) -> TimeOf:
    """The event time of a stream. Raises GraphError if it has none: `written` needs it."""
    if stream.event_time is None or not timed_sources(stream):
        where = f"{written} in graph {stream.graph.name!r}"
        raise GraphError(
            f'{where} needs event time, which its stream has not: say graph.source(..., at="...") or '
            'clock="arrival" where it begins, '
            "and the same of all sources that are merged"
        )
    time = stream.event_time
    if not (time.of_pairs and fields.origin(stream.items) is tuple):
        fields.check_function(
            stream.items, time.at, f"{call_site()}: {written} reads the event time of items"
        )
    return time


def _input(stream: Stream[Any], key: Function, program: Program) -> Input:
    time = time_of(stream, program.written)
    timings = [source.timing for source in timed_sources(stream)]
    if time is ARRIVAL:
        stream, key = dated(stream), OfDated(key)
    return Input(
        stream,
        key,
        time,
        # of several sources the least: an item does not say which of them it is of
        min((timing.max_ahead for timing in timings if timing and timing.max_ahead), default=None),
    )


def dated(stream: Stream[Any]) -> Stream[Any]:
    """The items, each with when its record arrived."""
    graph = stream.graph
    added = graph.add(Kind.ARRIVAL, "arrival", function=_dated, balance=stream.balanced)
    graph.connect(stream.vertex, added)
    return Stream(graph, added)


def _dated(item: Any, meta: Meta) -> Dated:
    return Dated(item, timestamp_of(time_of_meta(meta)))


class OfDated:
    """The key of items that have their arrival with them."""

    def __init__(self, key: Function) -> None:
        self._key, self.written = key, name_of(key)

    def __call__(self, dated: Dated) -> Any:
        return self._key(dated.item)
