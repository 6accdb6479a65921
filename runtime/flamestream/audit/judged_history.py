"""Judged history: what any system did with the input of a job, by definitions 5 to 10.

    lines of a file -> the witness: a run in their order -> it gives what came out: everything holds
                    -> else items at the doors, by key -> a search for each key

The job says what had to be computed: its graph, interpreted by the reference. Nothing else of it is used, so
sources and sinks need not exist.

Keeps: a graph whose results depend on more than the records in their order is refused, with the reason.
Does not: run the job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flamestream.audit.definitions.graph_steps import GraphSteps
from flamestream.audit.definitions.history import Crashed, Recovered
from flamestream.audit.definitions.judge import (
    AT_LEAST_STRICT,
    AT_MOST_STRICT,
    EXACTLY_STRICT,
    FORMS,
    Form,
    Judged,
    judged,
)
from flamestream.audit.definitions.properties import SWAPPED, differs_twice, swapped
from flamestream.audit.definitions.reasons import counted
from flamestream.audit.definitions.records import Emitted, Record, entered, sink_of
from flamestream.audit.definitions.search import BOUND
from flamestream.audit.definitions.table import Row, delivery_rows, determinism_row, reason_of, swap_row
from flamestream.audit.definitions.witness import Witness
from flamestream.audit.seen_history import SeenHistory
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.vertex import Kind
from flamestream.reference import Walk

WANTED: Mapping[str, Form] = {"at-least-once": AT_LEAST_STRICT, "at-most-once": AT_MOST_STRICT}
"""The definition that a guarantee asks for; of most it is the strict form of 6."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The verdict on a history."""

    records: int
    results: int
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
class _Counts:
    """Counts of a history's lines, and its first records."""

    records: int = 0
    results: int = 0
    first: list[Record] = field(default_factory=list)

    def add(self, event: Record | Emitted | Crashed | Recovered) -> None:
        """Count a line."""
        if type(event) is Record:
            self.records += 1
            if self.records <= SWAPPED:
                self.first.append(event)
        elif type(event) is Emitted:
            self.results += 1


def judged_history(checked: CheckedJob, path: Path, bound: int = BOUND) -> HistoryReport:
    """The verdict on the history in `path`, by the graph and the guarantee of the job. Raises UserError for a
    line or a graph that cannot be judged."""
    graph, guarantee = checked.graph, checked.job.spec.guarantee
    _check(graph)
    seen = SeenHistory(checked, path)
    if (counts := _witnessed(graph, seen)) is not None:
        verdicts = dict.fromkeys(FORMS, Judged("holds", consistent=counts.results))
    else:
        verdicts, counts = _searched(graph, seen, bound)
    found = Judged("holds") if guarantee == "none" else verdicts[WANTED.get(guarantee, EXACTLY_STRICT)]
    return HistoryReport(
        records=counts.records, results=counts.results, ended=seen.ended,
        definitions=_rows(graph, verdicts, counts.results, counts.first), guarantee=guarantee,
        verdict=found.outcome, reason="" if found.outcome == "holds" else reason_of(found, "line"),
    )  # fmt: skip


def sentence(report: HistoryReport) -> str:
    """The verdict's first lines."""
    until = "all results had to be there" if report.ended else 'results may be under way: no {"end": true}'
    return (
        f"{counted(report.records, 'record')}, {counted(report.results, 'result')}; {until}\n"
        f"{report.guarantee}: {report.verdict}{f': {report.reason}' if report.reason else ''}"
    )


def _witnessed(graph: Graph, seen: SeenHistory) -> _Counts | None:
    """Counts of a history if a run in the order of its lines gives what came out; else None."""
    witness, counts, walk = Witness(), _Counts(), Walk(graph)
    sources = {vertex.name: vertex for vertex in graph.sources}
    for event in seen.events():
        counts.add(event)
        if type(event) is Record:
            for end in entered(walk, sources, event):
                witness.made(*seen.outlet(sink_of(graph, end), end.payload))
        elif type(event) is Emitted and not witness.left(event.to, event.value):
            return None
    return None if seen.ended and witness.waits else counts


def _searched(graph: Graph, seen: SeenHistory, bound: int) -> tuple[dict[Form, Judged], _Counts]:
    """The verdicts by a search over orders."""
    events, counts = list(seen.events()), _Counts()
    for event in events:
        counts.add(event)
    steps = GraphSteps(graph, seen.outlet)
    history = steps.history(
        (event for event in events if isinstance(event, Record)),
        (event for event in events if isinstance(event, Emitted)),
        seen.ended,
        (event for event in events if isinstance(event, Crashed | Recovered)),
    )
    return judged(history, steps, bound), counts


def _rows(
    graph: Graph, verdicts: Mapping[Form, Judged], results: int, records: Sequence[Record]
) -> list[Row]:
    return [
        *delivery_rows(verdicts, results, "line"),
        swap_row(swapped(graph, records)),
        determinism_row(*differs_twice(graph, records)),
    ]


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
