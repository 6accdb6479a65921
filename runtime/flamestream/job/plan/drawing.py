"""Draws a graph: as Mermaid, or as text with one line a vertex.

>>> graph = Graph("g")
>>> graph.source("in").map(len).sink("out")
>>> print(mermaid(graph))
flowchart LR
  v0([in])
  v1[map len]
  v2([out])
  v0 --> v1
  v1 -->|by key| v2
"""

import math
import re
from dataclasses import asdict
from typing import Any, Final

from flamestream.job.plan.functions import functions
from flamestream.model.calls.call import CallFunction
from flamestream.model.calls.productions import Production
from flamestream.model.duration import shown
from flamestream.model.graph import Graph
from flamestream.model.vertex import Kind, Vertex

_SIGNS: Final = re.compile(r"[^\w .,:/*+%=-]|\bend\b")
"""A label with one of these has to be quoted: signs that Mermaid has a use for, and its word for the end of
a part."""
_SHAPES = {
    Kind.SOURCE: ("([", "])"),
    Kind.SINK: ("([", "])"),
    Kind.GROUPING: ("[(", ")]"),
    Kind.REDUCE: ("[(", ")]"),
    Kind.MERGE: ("((", "))"),
    Kind.LOOP: ("{{", "}}"),
}


def label(vertex: Vertex) -> str:
    """A vertex in a few words."""
    function = vertex.name if "(" in vertex.name else vertex.name.rpartition(".")[2]
    match vertex.kind:
        case Kind.SOURCE | Kind.SINK if vertex.call is not None:
            return f"{vertex.name} {'answers' if vertex.kind is Kind.SOURCE else 'asks'}"
        case Kind.SOURCE | Kind.SINK:
            return vertex.name
        case Kind.MERGE:
            return "merge"
        case Kind.GROUPING:
            return f"last {vertex.window} by {function}"
        case Kind.LOOP:
            return f"{vertex.name}, {vertex.max_iterations} rounds allowed"
        case _:
            return f"{vertex.kind.value} {function}".replace("<lambda>", "lambda")


def keeps(vertex: Vertex) -> str:
    """State that an operation keeps and until when, in event time; "": it has none."""
    match vertex.kind:
        case Kind.GROUPING:
            return f"the last {vertex.window} items a key, for ever"
        case Kind.SINK if vertex.call is not None:
            return "requests until their answers are committed"
        case Kind.REDUCE:
            return str(getattr(vertex.combine, "keeps", "an accumulator a key, for ever"))
        case _:
            return ""


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart. An edge into an operation with state says that items change workers there."""
    lines = ["flowchart LR"]
    for vertex in graph.vertices:
        opening, closing = _SHAPES.get(vertex.kind, ("[", "]"))
        lines.append(f"  v{vertex.id}{opening}{_quoted(label(vertex))}{closing}")
    for vertex in graph.vertices:
        for output in vertex.outputs:  # an arrow an edge: two may lead to one vertex
            arrow = "-->|by key|" if graph.vertices[output].routed else "-->"
            lines.append(f"  v{vertex.id} {arrow} v{output}")
    return "\n".join(lines)


def _quoted(label: str) -> str:
    """A label as Mermaid takes it: its own signs, as in `fs.field("price")`, would end the drawing."""
    return '"' + label.replace("#", "#35;").replace('"', "#quot;") + '"' if _SIGNS.search(label) else label


def text(graph: Graph) -> str:
    """A line for each vertex, in the order of the graph: `>>` marks results that go to the worker of their
    key. Then one for each that has state, with the name that it is found by and what it keeps, and one for
    each function of the user's, with where it runs."""
    width = max(len(f"{vertex.id} {label(vertex)}") for vertex in graph.vertices)
    lines = []
    for vertex in graph.vertices:
        targets = (f"{'>>' if graph.vertices[output].routed else '->'} {output}" for output in vertex.outputs)
        ends = {Kind.SOURCE: "source", Kind.SINK: "sink"}.get(vertex.kind, "")
        lines.append(f"{f'{vertex.id} {label(vertex)}':<{width}}  {'  '.join(targets) or ends}".rstrip())
    names = _state_names(graph)
    called = {vertex: f"{name!r} " for vertex, name in names.items()}
    lines += [
        f"{vertex.id} {called.get(vertex.id, '')}keeps {kept}"
        for vertex in graph.vertices
        if (kept := keeps(vertex))
    ]
    lines += [said.line for said in functions(graph)]
    lines += [f"{sink.id} {_made(sink.call)}" for sink in graph.calls.values() if sink.call]
    return "\n".join(lines)


def _state_names(graph: Graph) -> dict[int | None, str]:
    """The names that states are found by, of the vertices that have one."""
    return {operation.place: operation.name for operation in graph.operations}


def _made(call: CallFunction[..., Any]) -> str:
    """How a call is made."""
    if isinstance(call.function, Production):
        return f"is a production, in the worker and in the order of what comes: {call.function.written}"
    settings = call.settings
    most = settings.most_tries
    tries = "one try" if most == 1 else "tries" if math.isinf(most) else f"{most} tries"
    order = "answers of a key in order" if settings.order == "key" else "answers as they come"
    doubt = "made once at most" if settings.doubt == "never" else "made again where a failure met it"
    until = f" within {shown(settings.give_up_after)}" if settings.give_up_after else ""
    how = [
        f"{tries} of {shown(settings.timeout)}{until}",
        f"{settings.concurrency} at once in a worker",
        order,
    ]
    if settings.batch > 1:
        how.append(f"up to {settings.batch} requests together behind {shown(settings.linger)}")
    if settings.rate:
        how.append(f"{settings.rate:g} calls a second")
    if settings.cache:
        how.append(f"equal requests for {shown(settings.cache)} asked once")
    return f"is {doubt}: {', '.join(how)}, sources wait behind {settings.pending:,}"


def described(graph: Graph) -> dict[str, object]:
    """Plain data of the drawing, for `--json`."""
    names = _state_names(graph)
    vertices = [
        {
            "id": v.id,
            "kind": v.kind.value,
            "name": v.name,
            "label": label(v),
            "outputs": v.outputs,
            "routed": v.routed,
            "keeps": keeps(v),
            "state": names.get(v.id),
        }
        for v in graph.vertices
    ]
    return {
        "graph": graph.name,
        "identity": graph.identity,
        "vertices": vertices,
        "functions": [asdict(said) for said in functions(graph)],
    }
