"""Vertices as the kernel takes them: a mapping of names to functions and plain values each.

What is ready-made (folds, fields, expressions, windows on a grid) is described by words, and the kernel
carries it out itself; all else is a function that it calls.

Keeps: a described operation means what its vertex means in operations.py. Does not: call the kernel
(native.py).
"""

from collections.abc import Callable
from typing import Any

from flamestream.core.dataflow import native_expressions, user_code
from flamestream.core.dataflow.operations import KEYED
from flamestream.core.dataflow.placing import itself
from flamestream.core.dataflow.stored import Reading
from flamestream.core.dataflow.tables.patience import Patience
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import ready
from flamestream.model.calls.loops import too_often
from flamestream.model.event_time import Dated, Marker, Stamped, TimeOf, Undecoded
from flamestream.model.failure import called
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads import state as states
from flamestream.model.payloads.registry import PLANS
from flamestream.model.tables.ledger import DecidedAs, Deciding, Table, WritesTo
from flamestream.model.tables.transaction import CHECK, Aborted, Decision, Write
from flamestream.model.vertex import Kind, Vertex
from flamestream.model.windows.marks import Mark, progress_of
from flamestream.model.windows.panes import Panes
from flamestream.model.windows.process import Input, Shard, Side, Steps
from flamestream.model.windows.program import Late, Now, OfKeys, Program
from flamestream.model.windows.shapes import Grid
from flamestream.model.windows.stream import Events


def described(
    vertex: Vertex, graph: Graph, debug: bool, *, rows: bool = True, settings: WorkerSettings | None = None
) -> dict[str, Any]:
    """A vertex as the kernel takes it. `rows`: payloads may stay encoded in state too; `settings`: of a worker
    that decides transactions."""
    settle: Callable[[Any], Any] = user_code.as_it_is
    if vertex.kind in (Kind.FLAT_MAP, Kind.FILTER):
        settle = user_code.lister(vertex) if vertex.kind is Kind.FLAT_MAP else bool
    described: dict[str, Any] = {
        "kind": vertex.kind.value,
        "outputs": vertex.outputs,
        "routed": vertex.kind in KEYED or vertex.balance is not None,
        "function": None if vertex.function is None else user_code.observed(vertex.function, debug, settle),
        "users": vertex.function,
        "others": of_others(vertex.function),
        "max_results": vertex.max_results,
        "max_result_bytes": vertex.max_result_bytes,
        "key": None if vertex.key is None else user_code.observed(vertex.key, debug),
        "users_key": itself if vertex.key is None else vertex.key,
        "balance": None if vertex.balance is None else user_code.balanced(vertex.balance, debug),
        "users_balance": vertex.balance,
    }
    described["batch"] = getattr(vertex.function, "checked_batch" if debug else "batch", None)
    if not debug:  # which calls every function twice
        described["expression"] = native_expressions.described(vertex.function)
        described["part"] = part_of(vertex.function)
        described |= _ready_key(vertex)
        if rows:
            described |= _ready(vertex)
    match vertex.kind:
        case Kind.LOOP:
            described |= {"limit": graph.max_trace, "too_often": too_often(vertex)}
        case Kind.GROUPING:
            described["window"] = vertex.window
        case Kind.REDUCE:
            described |= _fold(vertex, debug)
            if rows and isinstance(vertex.combine, Deciding):
                assert settings is not None, "transactions are decided by a worker"
                described["deciding"] = _described_deciding(vertex, vertex.combine, debug, settings)
    return described


def of_others(function: Any) -> tuple[bool, list[type]] | None:
    """For what looks for items of a few classes: whether one of another class is its only result, or has
    none. The kernel does not ask about those."""
    if isinstance(function, Events):
        return True, [Stamped, Undecoded, Marker]
    return (False, [Stamped]) if function is progress_of else None


def part_of(function: Any) -> tuple[Any, ...] | None:
    """For a stream of transactions' outcomes: what it takes of each result."""
    match function:
        case DecidedAs(number, aborted):
            return "result", number, aborted
        case WritesTo(table):
            return "writes", table
    return None


def _ready_key(vertex: Vertex) -> dict[str, Any]:
    """Where the kernel finds a key itself."""
    described: dict[str, Any] = {}
    if vertex.key is not None:
        described["key_expression"] = native_expressions.described(vertex.key)
    if vertex.kind in KEYED and vertex.balance is None:
        described["ready_key"] = True if vertex.key is None else described["key_expression"]
    return described


def _ready(vertex: Vertex) -> dict[str, Any]:
    """Ready-made folds, which the kernel carries out itself."""
    described: dict[str, Any] = {}
    parts = list(map(_described_part, vertex.emit.parts)) if isinstance(vertex.emit, ready.Record) else [None]
    if isinstance(vertex.combine, Steps):
        described["steps"] = _described_steps(vertex.combine)
    # All of it or nothing: a `ready_combine` without a `ready_emit` gives accumulators as results.
    elif vertex.kind is Kind.REDUCE and (vertex.emit is None or None not in parts):
        described["ready_combine"] = _described_combine(vertex.combine)
    if isinstance(vertex.emit, ready.Record) and None not in parts:
        described["ready_emit"] = ("record", PLANS[vertex.emit.cls].tag, *parts)
    return described


def _described_steps(steps: Steps) -> dict[str, Any]:
    """The fold of a program in event time, whose states the kernel keeps."""
    return {
        "python": steps,
        "program": steps.program,
        "answered": steps.answered,
        "called": steps.called,
        "of_keys": isinstance(steps.program, OfKeys),
        "inputs": [
            (native_expressions.described(each.key), each.key, _time_field(each)) for each in steps.inputs
        ],
        "panes": described_panes(steps.program),
        "step": steps.step,
        "shards": steps.shards,
        "mark": Mark,
        "side": Side,
        "dated": Dated,
        "late": Late,
        "now": Now,
        "tag": PLANS[Shard].tag,
    }


def described_panes(program: Program) -> dict[str, Any] | None:
    """Windows that the kernel finds itself: those on a grid."""
    if not isinstance(program, Panes) or not isinstance(grid := program.shape, Grid):
        return None
    aggregate = program.aggregate
    ready_made = isinstance(aggregate.combine, ready.Count | ready.Total) and aggregate.initial is int
    # filled up to two, for a count names no field
    fold = (*(_described_combine(aggregate.combine) or ()), None)[:2] if ready_made else None
    return {"size": grid.size, "every": grid.every, "offset": grid.offset, "each": program.each, "fold": fold}


def _described_deciding(
    vertex: Vertex, deciding: Deciding, debug: bool, settings: WorkerSettings
) -> dict[str, Any]:
    """Transactions, whose rows the kernel keeps."""
    return {
        "patience": settings.patience,
        "most_runs": Patience.most,
        "window": settings.judged,
        "decide": user_code.decided(vertex, debug),
        "functions": None if debug else deciding.functions,  # Python calls each twice
        "rules": [(name, *rules[:2], deciding.stored(name)) for name, rules in deciding.rules.items()],
        "table": Table,
        "called": called,
        "refused": user_code.refused(vertex),
        "check": CHECK,
        **{cls.__name__.lower(): PLANS[cls].tag for cls in (Write, Decision, Aborted)},
    }


def _name_of_field(function: Any) -> str | None:
    return function.name if isinstance(function, ready.Field) else None


def _time_field(given: Input) -> tuple[str, int] | None:
    """(field, microseconds of an int, or 0), where an item's time is just that."""
    if (
        # the very class: one derived from it may find times in another way
        type(given.time) is not TimeOf
        or given.max_ahead is not None
        or (name := _name_of_field(given.time.at)) is None
    ):
        return None
    return name, given.time.unit


def _described_part(part: Any) -> tuple[Any, ...] | None:
    match part:
        case ready.Size():
            return ("size",)
        case ready.State():
            return ("state",)
    return native_expressions.described(part)


def _described_combine(combine: Any) -> tuple[str, ...] | None:
    match combine:
        case ready.Append(names):
            return ("append", *names)
        case ready.Count():
            return ("count",)
        case ready.Total(name):
            return ("total", name)
    return None


def _fold(vertex: Vertex, debug: bool) -> dict[str, Any]:
    assert vertex.initial is not None and vertex.combine is not None, (
        "the graph's builder gives every operation its functions"
    )
    return {
        "initial": user_code.observed(vertex.initial, debug),
        "combine": user_code.observed(vertex.combine, debug),
        "emit": None if vertex.emit is None else user_code.observed(vertex.emit, debug),
        "users_initial": vertex.initial,
        "users_combine": vertex.combine,
        "users_emit": vertex.emit,
        "nothing": user_code.NOTHING,
        "self_checked": list(user_code.SELF_CHECKED),
        "decoded": Reading.of(vertex).accumulator,
        "delta_state": states.delta_state,
        "error_type": ErrorValue,
    }
