"""Interpretation: what runs of a job had to give, with the slot of each result, by the reference interpreter.

It is the same in the audit's own process and in one of a span of code (code_span.py), which knows no manifest.

Does not: read runs (recorded.py), or say which results are due (job_audit.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from flamestream.model.graph import Graph
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta
from flamestream.model.payloads import encoding as payloads
from flamestream.model.slot import slot_of
from flamestream.model.time import FrontId
from flamestream.model.vertex import Vertex
from flamestream.reference import Run, State, Walk, slot_at


class Made(NamedTuple):
    """A result of the reference."""

    meta: Meta
    payload: Any
    slot: Slot
    """The slot where it belongs, by its payload alone."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A graph, and what the manifest says beside it of what runs mean."""

    graph: Graph
    fronts: Mapping[FrontId, str]
    """The source that each front stamps for."""
    slots: int
    dead_letter: str | None
    """The sink of error items; None: the first ends the job."""


@dataclass(frozen=True, slots=True)
class Interpretation:
    """The results of some runs, and the state that they leave."""

    results: dict[str, list[Made]]
    """Results by sink, those of calls too, in the order of metas."""
    state: State
    failed: bool = False
    """An error has ended the job: of the runs from it on nothing is here."""


def interpreted(meaning: Meaning, runs: Iterable[Run], state: State | None) -> Interpretation:
    """The interpretation of runs that find `state`; None: there is none."""
    walk = Walk(meaning.graph.validated(), state, fronts=meaning.fronts)
    found = walk.results(runs, "fail" if meaning.dead_letter is None else "dead-letter")
    errors = found.pop(walk.errors)
    if meaning.dead_letter is not None:
        found[meaning.dead_letter] = errors
    vertices = {vertex.name: vertex for vertex in meaning.graph.sinks}
    results = {
        sink: [Made(*item, _slot(vertices.get(sink), item[1], meaning.slots)) for item in items]
        for sink, items in found.items()
    }
    return Interpretation(results, walk.state, meaning.dead_letter is None and bool(errors))


def _slot(sink: Vertex | None, payload: Any, slots: int) -> Slot:
    return slot_of(payloads.encode(payload), slots) if sink is None else slot_at(sink, payload, slots)
