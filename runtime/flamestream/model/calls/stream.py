"""Called streams: `stream.call` adds a sink for the requests to a graph, a source for the answers, and their
results behind it.

Keeps: a call's name has brackets, so no name of the manifest's is one. Does not: say how a call is made
(call.py).
"""

import re
from typing import TYPE_CHECKING, Any, TypedDict, cast

from flamestream.model import fields
from flamestream.model.calls.call import CallFunction, CallSettings, Results, check_parameters
from flamestream.model.duration import Duration
from flamestream.model.errors import GraphError
from flamestream.model.state_names import BRACKETS
from flamestream.model.vertex import Function, Kind, call_site, name_of

if TYPE_CHECKING:
    from flamestream.model.event_time import TimeOf
    from flamestream.model.expressions.expression import Expression
    from flamestream.model.graph import Graph
    from flamestream.model.stream import Stream


class Times(TypedDict, total=False):
    """How the results of a call tell their event time, as those of a source do (`Graph.source`)."""

    at: "Function | str | Expression"
    """A field, or a function, that gives it."""
    unit: str
    late: Duration
    """How far a result may be behind the greatest time: at least as long as a call may take."""
    idle: Duration
    max_ahead: Duration


class Said(Times, total=False):
    """The rest that may be said of a call."""

    was: str
    """The name that it had when its requests and answers were begun."""


def called_stream(
    stream: "Stream[Any]", function: Function, key: Any, name: str | None, said: Said
) -> "Stream[Any]":
    """The results of a call for each item. Raises GraphError."""
    from flamestream.model.stream import Stream  # it stands on this module

    if not callable(function):
        raise GraphError(f"{call_site()}: a {type(function).__name__} stands where a function is called")
    graph = stream.graph
    # its own, since settings may be changed by the call's name
    made = (
        CallFunction(function.function, function.settings)
        if isinstance(function, CallFunction)
        else CallFunction(function, CallSettings())
    )
    name, was = _named(graph, name, made, said.get("was", ""))
    check_parameters(made.function, call_site())
    if made.settings.order == "key" and key is None:
        raise GraphError(f'{call_site()}: call {name!r} has order="key": say which, as key=...')
    key = None if key is None else fields.key_of(stream.items, key, call_site())
    sink = graph.add(Kind.SINK, name, key=key, balance=stream.balanced, call=made, was=was)
    graph.connect(stream.vertex, sink)
    items = _items_of(made)
    times = {field: it for field, it in said.items() if field != "was"}
    answers, event_time = _answers(graph, name, made, items, cast(Times, times))
    results = graph.add(Kind.FLAT_MAP, name_of(made.function), function=Results(made.function))
    graph.connect(answers.vertex, results)
    next(vertex for vertex in graph.sources if vertex.name == name).was = was
    return Stream(graph, results, items=items, event_time=event_time)


def _named(graph: "Graph", name: str | None, call: CallFunction[..., Any], was: object) -> tuple[str, str]:
    """The name of a call, and that which it had. Raises GraphError for a wrong one, or another call's."""
    if not isinstance(was, str):
        raise GraphError(f"{call_site()}: was={was!r}: it is the name that the call had")
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"[\w.-]{1,63}", name)):
        raise GraphError(
            f"{call_site()}: the name of a call has letters, digits, . _ and -: {name!r} has not"
        )
    name = f"{name or name_of(call.function).rpartition('.')[2]}{BRACKETS}"
    was = was and f"{was.removesuffix(BRACKETS)}{BRACKETS}"
    for vertex in graph.sinks:
        if vertex.name == name:
            raise GraphError(
                f"{call_site()}: graph {graph.name!r} has two calls {name}: say stream.call(..., name=...)"
            )
        if vertex.stored_as == (was or name):
            raise GraphError(
                f"{call_site()}: call {name} of graph {graph.name!r} would have the requests of call "
                f"{vertex.name}: give one of them another name="
            )
    return name, was


def _answers(
    graph: "Graph", name: str, call: CallFunction[..., Any], items: Any, times: Times
) -> "tuple[Stream[Any], TimeOf | None]":
    """The answers of a call, and the event time of its results; None if they have none."""
    from flamestream.model.event_time import TimeOf  # these stand on this module
    from flamestream.model.graph import check_unit
    from flamestream.model.stream import Stream
    from flamestream.model.windows.stream import timed_answers, unit_of

    if unknown := sorted(times.keys() - Times.__annotations__.keys()):
        raise GraphError(f"{call_site()}: stream.call has no {unknown[0]}=")
    if "at" not in times:
        if times:
            raise GraphError(f"{call_site()}: call {name!r}: {next(iter(times))} means nothing without at")
        return Stream(graph, graph.add(Kind.SOURCE, name, call=call)), None
    unit, where = times.get("unit"), f"{call_site()}: call {name!r} in graph {graph.name!r}"
    at = fields.key_of(items, times["at"], call_site())
    check_unit(where, at, fields.result_of(at, items), unit)
    answers = timed_answers(
        graph, name, call, at, unit, times.get("late", "0s"), times.get("idle"), times.get("max_ahead")
    )
    return answers, TimeOf(at, unit_of(unit, where))


def _items_of(call: CallFunction[..., Any]) -> Any:
    """The type of its results, if that is known: what it gives, or what the list has that it gives."""
    return fields.results_of(call.function) or (
        fields.result_of(call.function) if call.settings.batch == 1 else None
    )
