"""Whether ready-made functions fit the classes of what they are given, as far as the graph says it without
running.

A source's `type`, `fs.record(...)` and what a vectorised function makes are known; behind an ordinary
function nothing is.

Keeps: what is refused here would have failed for every record. Does not: run anything (trial.py finds the
rest).
"""

from collections.abc import Mapping
from typing import get_args, get_type_hints

from flamestream.model import ready
from flamestream.model.fields import check_function
from flamestream.model.graph import Graph
from flamestream.model.vertex import Kind, Vertex

KEEPS = (Kind.SOURCE, Kind.MERGE, Kind.FILTER, Kind.LOOP, Kind.SINK)
"""Their results are what they were given."""


def check_fields(graph: Graph, records: Mapping[str, type | None]) -> list[str]:
    """Warnings: keys that are floats. `records`: what each source gives. Raises GraphError that names
    operation, line and field."""
    given = _given(graph, records)
    warnings = []
    for vertex in graph.vertices:
        cls = given.get(vertex.id)
        for function in (vertex.key, vertex.combine, vertex.emit):
            check_function(cls, function, said(vertex), folded=True)
        if cls is not None and isinstance(vertex.key, ready.Field) and _is_float(cls, vertex.key.name):
            warnings.append(
                FLOAT_KEY.format(where=said(vertex), key=f"{vertex.key.written} of {cls.__qualname__}")
            )
    return warnings


FLOAT_KEY = (
    "{where}: {key} is a float: keys are told apart by their bytes, so 0.0 and -0.0 are two keys, every NaN "
    "is one, and what is computed in another order may be another key. Use int (cents, milliseconds) or str"
)


def said(vertex: Vertex) -> str:
    """A vertex as messages call it: its operation, and the line of the user's file."""
    return f"the {vertex.kind.value} of {vertex.place}"


def _given(graph: Graph, records: Mapping[str, type | None]) -> dict[int, type | None]:
    """The one class of everything that enters each vertex; None if that is not known. Only vertices that
    sources lead to are in it."""
    given: dict[int, type | None] = {vertex.id: records.get(vertex.name) for vertex in graph.sources}
    changed = True
    # until nothing changes: a loop leads back to a vertex that was looked at already
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
    return getattr(vertex.function, "makes_class", None)  # a vectorised function's, a decoder's


def _is_float(cls: type, name: str) -> bool:
    hint = get_type_hints(cls).get(name)
    return hint is float or float in get_args(hint)
