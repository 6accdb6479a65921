"""Judged run: definitions 5 to 10 of a run of ours, from what its audit compared.

The order of its items is known, so 5 and 6 are the audit's comparison with the reference: linear, and at no
bound. Where 6 holds, 7 and 8 follow. Where it does not, they are searched for, as in a history of any system
(judged_history.py), whose items entered in the order of their times.

Keeps: what cannot be said is undecided, with the reason. Does not: read anything (job_audit.py).
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from flamestream.audit.definitions.graph_steps import GraphSteps
from flamestream.audit.definitions.judge import (
    AT_LEAST,
    AT_LEAST_STRICT,
    AT_MOST,
    AT_MOST_STRICT,
    EXACTLY,
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
from flamestream.audit.definitions.table import Row, delivery_rows, determinism_row, swap_row
from flamestream.audit.job_audit import Evidence
from flamestream.audit.report import Report
from flamestream.job.manifest import DeadLetter
from flamestream.job.settings import fronts_of, known_to
from flamestream.job.validation import CheckedJob
from flamestream.model import payload as payloads
from flamestream.model.errors import UserError
from flamestream.model.meta import meta_of
from flamestream.model.payloads.exact import exact
from flamestream.model.slot import slot_of
from flamestream.model.time import front_of
from flamestream.model.vertex import Vertex
from flamestream.reference import Walk, place_of, slot_at

SHOWN: Final = 200
"""Characters of a value."""
LATER: Final = (AT_MOST, AT_MOST_STRICT, AT_LEAST, AT_LEAST_STRICT)


@dataclass(frozen=True, slots=True)
class Value:
    """A payload to be compared exactly, and shown."""

    form: Hashable
    shown: str = field(compare=False)

    def __str__(self) -> str:
        return self.shown


def judged_run(checked: CheckedJob, evidence: Evidence, bound: int = BOUND) -> list[Row]:
    """The rows of definitions 5 to 10. `bound`: as for `judged`, where something has to be searched for."""
    checked = known_to(evidence.last.record, checked)
    report, graph, state = evidence.report, checked.graph, evidence.state
    verdicts = exactly_once(report)
    if any(each.outcome != "holds" for each in verdicts.values()):
        verdicts |= _searched(checked, evidence, bound)
    else:
        verdicts |= dict.fromkeys(LATER, Judged("holds"))
    fronts = _fronts(checked)
    twice = differs_twice(graph, _records(checked, evidence), fronts, state)
    return [
        *delivery_rows(verdicts, report.verdict.delivered),
        swap_row(swapped(graph, _records(checked, evidence), fronts, state)),
        determinism_row(*twice, _same(evidence), decided=not report.verdict.foreign),
    ]


def exactly_once(report: Report) -> dict[Form, Judged]:
    """Definition 6, and with it 5, as the audit found it."""
    found = report.verdict
    counts = {"that the reference does not have": found.foreign, "doubled": found.doubled}
    seen = _told(counts, report.first_difference)
    counts |= {
        "lost": found.lost, "out of order": found.reordered, "in a wrong slot": found.misplaced,
        "other differences where users look": sum(not place.clean for place in report.places if not place.alone),
    }  # fmt: skip
    strict = _told(counts, report.first_difference)
    consistent = found.delivered - found.foreign - found.doubled
    return {
        EXACTLY: Judged("broken" if seen else "holds", reason=seen, consistent=consistent),
        EXACTLY_STRICT: Judged("broken" if strict else "holds", reason=strict),
    }


def once_repeats_are_removed(report: Report) -> str:
    """A sentence for at-least-once, which promises definition 6 once equal results are removed. "": there are
    none."""
    if not report.verdict.doubled:
        return ""
    holds = "holds" if report.verdict.keeps("at-least-once") else "is broken"
    return f"Once repeats of equal results are removed, definition 6 {holds} strictly."


def _told(counts: Mapping[str, int], first: str) -> str:
    found = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    return f"{found}; first: {first}" if found and first else found


def _searched(checked: CheckedJob, evidence: Evidence, bound: int) -> dict[Form, Judged]:
    """Definitions 7 and 8 where they do not follow."""
    if why := _not_searched(evidence):
        return dict.fromkeys(LATER, Judged("undecided", reason=why))
    steps = GraphSteps(checked.graph, _outlet(checked), _fronts(checked), evidence.state)
    records = list(_records(checked, evidence))
    try:
        history = steps.history(records, _emitted(evidence, len(records)), evidence.last.completed)
        found = judged(history, steps, bound)
    except UserError as error:  # of an item that fails, or a key that depends on the order
        return dict.fromkeys(LATER, Judged("undecided", reason=str(error)))
    return {form: found[form] for form in LATER}


def _not_searched(evidence: Evidence) -> str:
    if any(place.alone for place in evidence.report.places):
        return "what stands at a place does not say what was delivered in which order"
    if evidence.history:
        return "the job began with a history, whose results were not delivered"
    if evidence.report.verdict.lost and not evidence.last.completed:
        return "results are lost, and the job has not completed: which ones are under way is not known"
    return ""


def _records(checked: CheckedJob, evidence: Evidence) -> Iterator[Record]:
    """All that entered, in the order of times."""
    names, places = _fronts(checked), count()
    walk = Walk(checked.graph, fronts=names)
    for time, records in evidence.runs:
        for position, record in enumerate(walk.entering(time, records)):
            yield Record(
                next(places), "", names[front_of(time)], meta_of(time, position), record,
                place_of(records, position),
            )  # fmt: skip


def _emitted(evidence: Evidence, entered: int) -> Iterator[Emitted]:
    """All that was delivered. Which record had entered before it is not known, so all of them had."""
    for sink, items in evidence.delivered.items():
        for place, item in enumerate(items, entered):
            yield Emitted(place, (sink, item.slot), _value(item.payload))


def _outlet(checked: CheckedJob) -> Outlet:
    on_error, slots = checked.job.spec.on_error, checked.job.spec.workers.slots

    def outlet(sink: Vertex | None, payload: Any) -> Result | None:
        if sink is not None and sink.call is not None:
            return None  # a request, which the audit pairs with its answer
        if sink is not None:
            return (sink.name, slot_at(sink, payload, slots)), _value(payload)
        if isinstance(on_error, DeadLetter):
            return (on_error.dead_letter, slot_of(payloads.encode(payload), slots)), _value(payload)
        raise UserError("a record fails, which has ended the job")

    return outlet


def _value(payload: Any) -> Value:
    text = repr(payload)
    return Value(exact(payload), text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _fronts(checked: CheckedJob) -> dict[Any, str]:
    return {front.front: front.source for front in fronts_of(checked)}


def _same(evidence: Evidence) -> str:
    """Line of the report on determinism, judged by delivered results."""
    found, record = evidence.report.verdict, evidence.last.record
    if found.foreign:
        return "the delivered results are not those of the interpreter"
    attempts = 1 if record is None else max(1, record.attempt)
    return f"{counted(attempts, 'attempt')} delivered what the interpreter gives"
