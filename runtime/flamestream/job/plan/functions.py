"""Functions: which of a graph's run in the native kernel, and why the others are asked in Python.

Keeps: what it says of a function is what the kernel is told of it (core/dataflow/native_expressions.py). Does
not: speak of the library's own functions, or of a worker without the kernel, which asks all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from flamestream.core.dataflow.native_expressions import SAID_BY_FIELDS, why_python
from flamestream.core.dataflow.native_vertices import described_panes
from flamestream.model.graph import Graph
from flamestream.model.vertex import Vertex, name_of
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.expiry import Expiry
from flamestream.model.windows.own import Own
from flamestream.model.windows.panes import Closing
from flamestream.model.windows.process import Steps
from flamestream.model.windows.tables import KeyOfSide

_OURS: Final = "flamestream."
"""How modules begin whose functions are none of the user's."""


@dataclass(frozen=True, slots=True)
class Said:
    """Where a function of the user's runs."""

    vertex: int
    role: str
    """function, key, combine, emit, balance, on_item, on_time, due."""
    function: str
    why_python: str | None
    """None: it runs in the kernel."""

    @property
    def line(self) -> str:
        if self.why_python is None:
            return f"{self.vertex} {self.role} runs in the kernel: {self.function}"
        return f"{self.vertex} {self.role} runs in Python: {self.function}: {self.why_python}"


def functions(graph: Graph) -> Iterator[Said]:
    """All of them, in the order of the graph."""
    for vertex in graph.vertices:
        for role, function, why in _of(vertex):
            if not _is_ours(function):
                yield Said(vertex.id, role, _written(function), why)


def _of(vertex: Vertex) -> Iterator[tuple[str, Any, str | None]]:
    if isinstance(vertex.combine, Steps):
        yield from _of_program(vertex.combine)
        return
    if isinstance(vertex.key, KeyOfSide):
        yield from (("key", key, why_python(key)) for key in vertex.key.keys)
        return
    for role in ("function", "key"):
        if (function := getattr(vertex, role)) is not None:
            yield role, function, why_python(function)
    if vertex.balance is not None:
        yield "balance", vertex.balance, "a balance always does"
    folds = [(role, each) for role in ("combine", "emit") if (each := getattr(vertex, role)) is not None]
    own = next((each for _, each in folds if not isinstance(each, SAID_BY_FIELDS)), None)
    why = None if own is None else f"{_short(own)} is not ready-made"
    yield from ((role, function, why) for role, function in folds)


def _of_program(steps: Steps) -> Iterator[tuple[str, Any, str | None]]:
    for given in steps.inputs:
        yield "key", given.key, why_python(given.key)
    program: object = steps.program
    if isinstance(program, Closing):
        panes = described_panes(steps.program)
        why = "its windows are on no grid" if panes is None else "it is not ready-made"
        folds = program.aggregate if _is_ours(program.aggregate.combine) else program.aggregate.combine
        yield "combine", folds, None if panes and panes["fold"] else why
    else:
        own = _own_of(program)
        yield from ((role, each, f"the kernel has no {what}") for role, each, what in own if each is not None)


def _own_of(program: object) -> Iterator[tuple[str, Any, str]]:
    """The functions of a user's in a program, their roles, and what they are of."""
    if isinstance(program, Expiry):
        yield from (
            ("combine", program.combine, "fold with a ttl"),
            ("emit", program.emit, "fold with a ttl"),
        )
    if isinstance(program, Own):
        roles = {"on_item": program.item, "on_time": program.time, "due": program.next}
        yield from ((role, each, "program of one's own") for role, each in roles.items())


def _is_ours(function: Any) -> bool:
    if isinstance(function, (*SAID_BY_FIELDS, Aggregate)):  # these are named by the user's fields
        return False
    of = function if isinstance(function, FunctionType) else type(function)
    return str(getattr(of, "__module__", "")).startswith(_OURS)


def _written(function: Any) -> str:
    """Name of a function, and where it stands in its file."""
    if not isinstance(function, FunctionType):
        return name_of(function)
    code = function.__code__
    return f"{_short(function)} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _short(function: Any) -> str:
    return name_of(function).rpartition(".")[2] if isinstance(function, FunctionType) else name_of(function)
