"""Judged history: what any system did with the input of a job, by definitions 5 to 10.

    lines of a file -> records and results -> items at the doors, by key -> a search for each key

The job says what had to be computed: its graph, interpreted by the reference. Nothing else of it is used, so
sources and sinks need not exist.

Keeps: a graph whose results depend on more than the records in their order is refused, with the reason.
Does not: run the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flamestream.audit.definitions.graph_steps import GraphSteps
from flamestream.audit.definitions.history import Crashed, Recovered
from flamestream.audit.definitions.judge import (
    AT_LEAST_STRICT,
    AT_MOST_STRICT,
    EXACTLY_STRICT,
    Form,
    Judged,
    judged,
)
from flamestream.audit.definitions.properties import differs_twice, swapped
from flamestream.audit.definitions.reasons import counted
from flamestream.audit.definitions.records import Emitted, Outlet, Record
from flamestream.audit.definitions.search import BOUND
from flamestream.audit.definitions.steps import Result
from flamestream.audit.definitions.table import Row, delivery_rows, determinism_row, reason_of, swap_row
from flamestream.audit.history_file import (
    Line,
    canonical,
    canonical_text,
    failure_of,
    lines,
    wrong,
)
from flamestream.connectors import sources
from flamestream.connectors.kit.rows import BadRow, Rows, row_class
from flamestream.job.validation import CheckedJob
from flamestream.model.decoding import DecodeError
from flamestream.model.errors import UserError
from flamestream.model.failure import told
from flamestream.model.graph import Graph
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.model.vertex import Kind, Vertex

WANTED: Mapping[str, Form] = {"at-least-once": AT_LEAST_STRICT, "at-most-once": AT_MOST_STRICT}
"""The definition that a guarantee asks for; of most it is the strict form of 6."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The verdict on a history."""

    records: int
    results: int
    keys: int
    ended: bool
    """Everything had to have come out."""
    definitions: list[Row]
    guarantee: str
    """The job's."""
    verdict: str
    """Whether the history keeps it: holds, broken or undecided."""
    reason: str
    """Why it does not."""


@dataclass(slots=True)
class _Seen:
    """What the file says."""

    records: list[Record] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    failures: list[Crashed | Recovered] = field(default_factory=list)
    keyed: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """Whether the results of a sink have keys, and the line that said so."""
    ended: bool = False


def judged_history(checked: CheckedJob, path: Path, bound: int = BOUND) -> HistoryReport:
    """The verdict on the history in `path`, by the graph and the guarantee of the job. Raises UserError for a
    line or a graph that cannot be judged."""
    graph = checked.graph
    _check(graph)
    seen = _read(checked, path)
    steps = GraphSteps(graph, _outlet(graph, seen, path))
    history = steps.history(seen.records, seen.emitted, seen.ended, seen.failures)
    verdicts = judged(history, steps, bound)
    rows = [
        *delivery_rows(verdicts, len(seen.emitted), "line"),
        swap_row(swapped(graph, seen.records)),
        determinism_row(*differs_twice(graph, seen.records)),
    ]
    guarantee = checked.job.spec.guarantee
    found = _wanted(verdicts, guarantee)
    return HistoryReport(
        records=len(seen.records), results=len(seen.emitted), keys=len({event.key for event in history.events
        if not isinstance(event, Crashed | Recovered)}), ended=seen.ended, definitions=rows, guarantee=guarantee,
        verdict=found.outcome, reason="" if found.outcome == "holds" else reason_of(found, "line"),
    )  # fmt: skip


def sentence(report: HistoryReport) -> str:
    """The verdict's first line."""
    until = "all results had to be there" if report.ended else 'results may be under way: no {"end": true}'
    return (
        f"{counted(report.records, 'record')}, {counted(report.results, 'result')}, "
        f"{counted(report.keys, 'key')}; {until}\n"
        f"{report.guarantee}: {report.verdict}{f': {report.reason}' if report.reason else ''}"
    )


def _wanted(verdicts: Mapping[Form, Judged], guarantee: str) -> Judged:
    """The verdict on what the job guarantees."""
    return Judged("holds") if guarantee == "none" else verdicts[WANTED.get(guarantee, EXACTLY_STRICT)]


def _check(graph: Graph) -> None:
    """Raises UserError for what a history does not say."""
    reasons = {
        "calls the outside": bool(graph.calls),
        "has clocks": bool(graph.clocks),
        "has event time": any(source.timing is not None for source in graph.sources),
        "asks when a record arrived": any(vertex.kind is Kind.ARRIVAL for vertex in graph.vertices),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UserError(
                f"graph {graph.name!r} {reason}, so what it gives depends on more than the records of a "
                "history: give a job without that"
            )


def _read(checked: CheckedJob, path: Path) -> _Seen:
    seen = _Seen()
    names = [vertex.name for vertex in checked.graph.sources]
    rows = {name: _rows(checked, name) for name in names}
    for number, line in lines(path):
        if line.came_in is not None:
            if line.came_in not in rows:
                raise wrong(
                    path, number, f"the job has no source {line.came_in!r}; it has {', '.join(names)}"
                )
            try:
                value = rows[line.came_in].of_json(bytes(line.value))
            except (BadRow, ValueError) as error:
                raise wrong(path, number, f"the value is no record of {line.came_in!r}: {error}") from error
            seen.records.append(_record(number, line.came_in, names, line, value))
        elif line.came_out is not None:
            seen.emitted.append(_emitted(checked, path, number, line, seen))
        elif (failure := failure_of(number, line)) is not None:
            seen.failures.append(failure)
        seen.ended = line.end
    return seen


def _rows(checked: CheckedJob, source: str) -> Rows:
    """What makes records of the source of JSON."""
    where = f"spec.sources.{source}"
    gives = sources.settings_of(checked.job.source(source), where).gives()
    return Rows(row_class(gives.cls, where))


def _record(number: int, source: str, names: list[str], line: Line, value: Any) -> Record:
    """Its time, and its offset, is the number of its line."""
    meta = meta_of(time_of(Timestamp(number), FrontId(names.index(source))), 0)
    return Record(number, (source, line.partition), source, meta, value, ("", number))


def _emitted(checked: CheckedJob, path: Path, number: int, line: Line, seen: _Seen) -> Emitted:
    sink, has_key = line.came_out, bool(bytes(line.key))
    assert sink is not None
    known = [vertex.name for vertex in checked.graph.sinks]
    if sink not in known:
        raise wrong(path, number, f"the graph has no sink {sink!r}; it has {', '.join(known)}")
    keyed, first = seen.keyed.setdefault(sink, (has_key, number))
    if keyed != has_key:
        raise wrong(
            path, number, f"a result of {sink!r} {'without' if keyed else 'with'} a key, though the one in line "
            f"{first} has {'one' if keyed else 'none'}: all of a sink, or none",
        )  # fmt: skip
    try:
        to = (sink, canonical_text(line.key)) if keyed else sink
        return Emitted(number, to, canonical_text(line.value))
    except DecodeError as error:
        raise wrong(path, number, f"the value or key is no JSON: {error}") from error


def _outlet(graph: Graph, seen: _Seen, path: Path) -> Outlet:
    """Where a result of the reference would stand in the file."""

    def outlet(sink: Vertex | None, payload: Any) -> Result:
        if sink is None:
            place = f":{payload.offset}" if payload.offset >= 0 else ""  # unknown behind a door
            raise UserError(
                f"{path}{place}: a history is judged by functions that fail for none of its records: "
                + told(payload, f"a record of source {payload.source!r}", graph)
            )
        if seen.keyed.get(sink.name, (False, 0))[0]:
            key = payload if sink.key is None else sink.key(payload)
            return (sink.name, canonical(key)), canonical(payload)
        return sink.name, canonical(payload)

    return outlet
