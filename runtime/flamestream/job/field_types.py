"""Whether ready-made functions fit the classes of what they are given, as far as the graph says it without running.

A source's `type`, `fs.record(...)` and what a vectorised function makes are known; behind an ordinary function nothing is.

Keeps: what is refused here would have failed for every record. Does not: run anything (trial.py finds the rest).
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args, get_type_hints

from flamestream.columns.vectorized import ForVertex
from flamestream.model import ready
from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph, Kind, Vertex
from flamestream.model.payload_registry import PLANS

KEEPS = (Kind.SOURCE, Kind.MERGE, Kind.FILTER, Kind.LOOP, Kind.SINK)
"""Their results are what they were given."""


def check_fields(graph: Graph, records: Mapping[str, type | None]) -> list[str]:
    """Warnings: keys that are floats. `records`: what each source gives. Raises GraphError that names operation, line and field."""
    given = _given(graph, records)
    warnings = []
    for vertex in graph.vertices:
        cls = given.get(vertex.id)
        for field in _fields(vertex) if cls is not None else ():
            _check(vertex, field, cls)
        if cls is not None and isinstance(vertex.key, ready.Field) and _is_float(cls, vertex.key.name):
            warnings.append(FLOAT_KEY.format(where=said(vertex), key=f"{vertex.key.written} of {cls.__qualname__}"))
    return warnings


FLOAT_KEY = (
    "{where}: {key} is a float: keys are told apart by their bytes, so 0.0 and -0.0 are two keys, every NaN is one, and what is computed "
    "in another order may be another key. Use int (cents, milliseconds) or str"
)


def said(vertex: Vertex) -> str:
    """A vertex as messages call it: its operation, and the line of the user's file."""
    return f"the {vertex.kind.value} of {vertex.place}"


def _given(graph: Graph, records: Mapping[str, type | None]) -> dict[int, type | None]:
    """The one class of everything that enters each vertex; None if that is not known. Only vertices that sources lead to are in it."""
    given: dict[int, type | None] = {vertex.id: records.get(vertex.name) for vertex in graph.sources}
    changed = True
    while changed:
        changed = False
        for vertex in [vertex for vertex in graph.vertices if vertex.id in given]:
            made = _made(vertex, given[vertex.id])
            for output in vertex.outputs:
                now = made if output not in given or given[output] is made else None
                if output not in given or given[output] is not now:
                    given[output], changed = now, True
    return given


def _made(vertex: Vertex, cls: type | None) -> type | None:
    if vertex.kind in KEEPS:
        return cls
    if vertex.kind is Kind.REDUCE and isinstance(vertex.emit, ready.Record):
        return vertex.emit.cls
    if isinstance(vertex.function, ForVertex):
        return vertex.function.makes_class
    return None


def _fields(vertex: Vertex) -> Iterator[tuple[Any, str]]:
    """(function, field of the item) of its ready-made functions."""
    for function in (vertex.key, vertex.combine):
        match function:
            case ready.Field(name) | ready.Total(name):
                yield function, name
            case ready.Append(names):
                yield from ((function, name) for name in names)
    if isinstance(vertex.emit, ready.Record):
        yield from ((part, part.name) for part in vertex.emit.parts if isinstance(part, ready.Field))


def _check(vertex: Vertex, field: tuple[Any, str], cls: type | None) -> None:
    assert cls is not None, "asked only where it is known"
    function, name = field
    plan = PLANS.get(cls)
    labels = None if plan is None else plan.labels
    if labels is None or name in labels or hasattr(cls, name):
        return
    close = get_close_matches(name, labels, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "correct it"
    raise GraphError(f"{said(vertex)}: {function.written}: {cls.__qualname__} has no field {name!r} (it has {', '.join(labels)}): {hint}")


def _is_float(cls: type, name: str) -> bool:
    hint = get_type_hints(cls).get(name)
    return hint is float or float in get_args(hint)
