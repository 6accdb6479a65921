"""A span of code: the runs between two ticks, interpreted by the application that had to make their results.

Two versions of an application have modules of the same names, and payload classes are known by those. So each
span has a process of its own, which is told where its code and its runs are (`SpanRequest`), and says what
they give (`SpanAnswer`). State goes from one span to the next as a snapshot has it, from one attempt to the next: an
operation that the next code has not is forgotten, and classes and versions become those of the next code.

Keeps: no object of a user's class goes between processes, but its encoding alone. Does not: start a process
(span_process.py), or decide which code made what (changed_code.py).
"""

from pathlib import Path
from typing import Any

import msgspec

from flamestream.audit.committed import Savepoint
from flamestream.audit.interpretation import Interpretation, Made, Meaning, interpreted
from flamestream.audit.recorded import Recording
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.inventory import inventory_of, next_inventory
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import Inventory
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.job.application import load
from flamestream.job.application_code import code_found
from flamestream.job.py_files import PyFile
from flamestream.loop.watchdog import LOADING
from flamestream.model import payload
from flamestream.model.calls.call import change_calls
from flamestream.model.errors import Retryable
from flamestream.model.event_time import take_in_sequence
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor
from flamestream.model.payloads import encoding as payloads
from flamestream.model.payloads.state import encode_state
from flamestream.model.tables.ledger import completed
from flamestream.model.time import START, Time
from flamestream.model.vertex import Kind, Vertex
from flamestream.node.hang import within
from flamestream.node.queries.committed import values_of
from flamestream.reference import Run, State


class StateRow(msgspec.Struct, frozen=True, array_like=True):
    """The state of one key of an operation."""

    number: int
    """The operation's (model/state_names.py)."""
    key: bytes
    value: bytes
    """As a full row of a snapshot."""


class StateLeft(msgspec.Struct, frozen=True):
    """The state that one code leaves for the next."""

    rows: tuple[StateRow, ...] = ()
    inventory: Inventory | None = None
    """The operations, tables and classes that they are of; None: there are no rows."""


class ResultRow(msgspec.Struct, frozen=True, array_like=True):
    """A result of the reference."""

    meta: bytes
    slot: int
    payload: bytes


class SpanRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that the process of a span is told. For its owner's eyes only: sources may have passwords."""

    file: str
    """Path of the application as it was then."""
    code: str
    """Its digest."""
    graph: str
    py_files: tuple[PyFile, ...]
    productions: bool
    """`strong-productions`: with a call in the place of each chain of its functions."""
    calls: dict[str, dict[str, int | float | str]]
    """Changes of the manifest to calls, by name."""
    fronts: tuple[FrontSettings, ...]
    slots: int
    dead_letter: str | None
    begin: Time
    """The span's cut, or above it that from which on runs entered."""
    end: Time
    entered: tuple[Recording, ...] = ()
    past: tuple[Recording, ...] = ()
    """The history that the job began with, all of it below `begin`."""
    savepoint: Savepoint | None = None
    """Has the state below the first span; None: `state` is it."""
    state: StateLeft = StateLeft()


class SpanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a span's runs, and the state behind them."""

    results: dict[str, list[ResultRow]] = {}
    state: StateLeft = StateLeft()
    failed: bool = False
    """An error has ended the job."""
    category: str = ""
    """Category of the error for which there is no answer; "": there is one."""
    message: str = ""


def answered(request: SpanRequest) -> SpanAnswer:
    """The answer to a request. Loads the application: once in a process. Raises what reading the runs does."""
    graph = loaded(request)
    meaning = Meaning(
        graph, {each.front: each.source for each in request.fronts}, request.slots, request.dead_letter
    )
    state = state_of(graph, request.state) if request.savepoint is None else request.savepoint.state(graph)
    found = interpreted(meaning, _runs(request), state)
    rows = {
        sink: [ResultRow(meta, slot, payloads.encode(value)) for meta, value, slot in items]
        for sink, items in found.results.items()
    }
    return SpanAnswer(results=rows, state=stored(graph, found.state), failed=found.failed)


def results_in(answer: SpanAnswer) -> Interpretation:
    """The results of an answer, by the payload classes of this process. Its state is of use to other code
    alone. Raises Corrupt for a class that is another here."""
    results = {
        sink: [Made(Meta(row.meta), payloads.decode(row.payload), Slot(row.slot)) for row in rows]
        for sink, rows in answer.results.items()
    }
    return Interpretation(results, {}, answer.failed)


def stored(graph: Graph, state: State) -> StateLeft:
    """A graph's state, as a snapshot has it."""
    numbers = Numbers(graph).of_states
    rows = (
        StateRow(numbers[vertex], key, _row(graph.vertices[vertex], value))
        for (vertex, key), value in state.items()
    )
    return StateLeft(tuple(rows), next_inventory(None, inventory_of(graph)))


def _row(vertex: Vertex, value: Any) -> bytes:
    if vertex.kind is Kind.GROUPING:
        return payload.encode_items([(floor(START), each) for each in value])
    return encode_state(value)


def state_of(graph: Graph, left: StateLeft) -> State:
    """The state that a graph finds: of operations that it has not, nothing. Raises UserError if it cannot read one."""
    chains = (Chain(row.number, Slot(0), row.key, Epoch(0), True, (row.value,)) for row in left.rows)
    return completed(graph, values_of(graph, chains, Numbers(graph).known_in(left.inventory)))


def loaded(request: SpanRequest) -> Graph:
    """The graph of a request's application. Once in a process. Raises UserError, and Retryable if it is another
    application now."""
    file = Path(request.file)
    with within(LOADING, f"loading the application with code {request.code[:12]}"):
        graph = load(file, request.graph, request.py_files, productions=request.productions)
    change_calls(graph, request.calls)
    take_in_sequence(graph, {front.source for front in request.fronts if front.in_sequence})
    # (!) Behind the import: an edit meanwhile would have results of other code expected.
    if code_found(file, request.py_files) != request.code:
        raise Retryable(f"{file} was edited while it was audited: try again")
    return graph


def _runs(request: SpanRequest) -> list[Run]:
    past = [run for recording in request.past for run in recording.runs()]
    entered = (run for recording in request.entered for run in recording.runs())
    return [*past, *(run for run in entered if request.begin <= run[0] < request.end)]
