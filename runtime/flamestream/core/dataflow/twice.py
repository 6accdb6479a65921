"""Twice: a graph in which each function of the user's runs twice, as in debug mode, for whoever interprets
it.

A function that depends on clock, chance or outside state, or that changes its input, becomes an error item
that names it.

Does not: see what is the same both times (a date, the order of a set of texts).
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from flamestream.core.dataflow import user_code
from flamestream.model.graph import Graph
from flamestream.model.vertex import Function, Kind, Vertex


def _as_it_is(_: Vertex, key: Function) -> Function:
    return key


def twice(graph: Graph, watched: Callable[[Vertex, Function], Function] = _as_it_is) -> Graph:
    """The graph with each function called twice and compared. `watched` is put around the keys of
    vertices."""
    # shallow: what is not replaced, edges and names, is the graph's own
    doubled = copy(graph)
    doubled.vertices = [_vertex_twice(vertex, watched) for vertex in graph.vertices]
    return doubled


def _vertex_twice(vertex: Vertex, watched: Callable[[Vertex, Function], Function]) -> Vertex:
    settle: Any = {Kind.FLAT_MAP: user_code.lister(vertex), Kind.FILTER: bool}.get(
        vertex.kind, user_code.as_it_is
    )
    doubled: dict[str, Any] = {}
    for name in ("balance", "initial", "combine", "emit"):
        if (function := getattr(vertex, name)) is not None:
            doubled[name] = _named(function, user_code.observed(function, True))
    if vertex.function is not None:
        doubled["function"] = _named(vertex.function, user_code.observed(vertex.function, True, settle))
    if vertex.key is not None:
        doubled["key"] = _named(vertex.key, watched(vertex, user_code.observed(vertex.key, True)))
    return replace(vertex, **doubled)


def _named(users: Function, function: Function) -> Function:
    """The function under the name of the user's, in messages."""
    call = partial(function)
    call.written = user_code.name_of(users)  # type: ignore[attr-defined]
    return call
