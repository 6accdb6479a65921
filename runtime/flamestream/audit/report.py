"""Report: the outcome of an audit, as data and in words.

Keeps: it names its bounds, and what the input was checked against. Does not: judge anything (job_audit.py).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from flamestream.audit.committed import LastCommit
from flamestream.audit.definitions.table import Row
from flamestream.audit.places import PlaceVerdict, first_of, in_words
from flamestream.audit.recorded import FrontInput
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.job.drills.status import (
    MOST_CODES,
    AuditResult,
    CodeResult,
    DefinitionResult,
    codes_in_words,
)
from flamestream.job.validation import CheckedJob
from flamestream.model.meta import time_of_meta
from flamestream.model.time import START, Time
from flamestream.testing.audit import Result, Verdict

_ENDED: Final = {
    "drained": "the job was drained",
    "stopped": "the job was stopped",
    "failed": "the job has failed",
}
LONGEST: Final = 1000
"""Characters of a first difference in a drill's status."""
REASON: Final = 200
"""Characters of why a definition does not hold."""
IN_WORDS: Final = 500
"""Characters of bounds and input there."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Up to where results had to be there."""

    complete: bool
    """All of them."""
    epoch: int
    """The committed one; 0: none, so nothing had to be there."""
    cut: int
    """Its global time: everything below it."""
    held: int
    """Results below it that the epoch holds: they leave now, and need not be there yet
    (`exactly-once-2pc`)."""
    outcome: str
    """The job's end in a word; "": it may run."""
    begins: str
    """A sentence about what came before the first result that is looked at; "": nothing."""
    changed: str = ""
    """A sentence about edits of the application's code, and what they mean for what was looked at."""


@dataclass(frozen=True, slots=True)
class InputVerdict:
    """Whether what is recorded of a source is all that has entered."""

    source: str
    records: int
    known_from: str
    """source: read again from there, at the places that are recorded. journal: known from the journal
    alone."""
    missing: int
    """Records that have entered, and are not recorded or not there any more."""
    unexpected: int
    """Records that are recorded twice, or that the source did not have then."""
    problems: list[str]


@dataclass(frozen=True, slots=True)
class Report:
    """An audit's outcome."""

    records: int
    """Input."""
    complete: bool
    """Whether all of it had to be through."""
    verdict: Verdict
    """The verdict on what was delivered, in its order."""
    places: list[PlaceVerdict]
    """The verdicts on what stands where users look: tables, hashes, streams, topics, events."""
    input: list[InputVerdict]
    codes: list[CodeResult]
    """Each span of code that was judged by its own code, in the order of cuts."""
    bounds: Bounds
    kept: bool
    """Whether the input is whole, and the output and its places as the job's guarantee allows it."""
    clean: bool
    """Whether the input is whole, and the output and its places byte for byte the reference's."""
    empty: bool
    """Nothing has entered, and nothing was delivered: there was nothing to audit."""
    first_difference: str
    """The first difference in the input, else in the output, else at a place."""


def report_of(
    checked: CheckedJob, last: LastCommit, verdict: Verdict, places: list[PlaceVerdict],
    fronts: Sequence[FrontInput], begins: str, edits: str, codes: Sequence[CodeResult] = (),
) -> Report:  # fmt: skip
    """All findings of an audit, as one report."""
    found = [_input_of(name, [front for front in fronts if front.source == name]) for name in checked.sources]
    bounds = Bounds(last.completed, last.epoch, last.cut, len(last.held), last.outcome, begins, edits)
    whole, count = not any(each.problems for each in found), sum(each.records for each in found)
    problems = [f"input of {each.source!r}: {problem}" for each in found for problem in each.problems]
    found_out: list[Verdict | PlaceVerdict] = [verdict, *places]
    return Report(
        records=count,
        complete=last.completed,
        verdict=verdict,
        places=places,
        input=found,
        codes=list(codes),
        bounds=bounds,
        clean=whole and all(each.clean for each in found_out),
        kept=whole and all(each.keeps(checked.job.spec.guarantee) for each in found_out),
        empty=whole
        and not (count or verdict.delivered or verdict.expected or any(place.stands for place in places)),
        first_difference=(problems or [verdict.first_difference or first_of(places)])[0],
    )


def codes_of(
    spans: Sequence[CodeSpan], until: Time, expected: Iterable[Sequence[Result]]
) -> list[CodeResult]:
    """The spans below `until`, with the results of all sinks that are `expected` of each."""
    judged = [span for span in spans if span.since < until]
    # what a job began with was made by its first code, whatever its cut
    begins = [START, *(span.since for span in judged[1:])]
    counts = Counter(
        bisect_right(begins, time_of_meta(each.meta)) for results in expected for each in results
    )
    return [
        CodeResult(since=span.since, digest=span.digest, results=counts[place])
        for place, span in enumerate(judged, 1)
    ]


def result_of(report: Report, rows: Sequence[Row] = ()) -> AuditResult:
    """The report as a drill keeps it, and as `kubectl flamestream audit --json` prints it. `clean`: as the
    job's guarantee allows it. `rows`: its formal verdict."""
    found = report.verdict
    return AuditResult(
        clean=report.kept, records=report.records, delivered=found.delivered, lost=found.lost,
        doubled=found.doubled, reordered=found.reordered, foreign=found.foreign, misplaced=found.misplaced,
        not_due=found.not_due, missing_input=sum(each.missing for each in report.input),
        unexpected_input=sum(each.unexpected for each in report.input), complete=report.complete,
        epoch=report.bounds.epoch, bounds=bounds_in_words(report.bounds)[:IN_WORDS],
        input=input_in_words(report.input)[:IN_WORDS], first_difference=report.first_difference[:LONGEST],
        codes=report.codes[-MOST_CODES:],
        definitions=[
            DefinitionResult(
                definition=row.definition, name=row.name, printed=row.printed, strict=row.strict or "",
                reason=row.reason[:REASON],
            )
            for row in rows
        ],
    )  # fmt: skip


def _input_of(source: str, fronts: Sequence[FrontInput]) -> InputVerdict:
    """The verdict on a source, from all fronts that share it."""
    findings = [finding for front in fronts for finding in front.findings]
    counted = {
        kind: sum(each.count for each in findings if each.kind == kind) for kind in ("missing", "unexpected")
    }
    records = sum(front.records for front in fronts)
    return InputVerdict(
        source, records, fronts[0].known_from, problems=[each.text for each in findings], **counted
    )


def sentence(report: Report, inputs: str = "records", outputs: str = "results") -> str:
    """The outcome in a line; then the bounds, the input, and the first difference."""
    verdict = report.verdict
    if report.empty:
        text = f"empty: no {inputs} have entered, and no {outputs} were delivered"
    else:
        text = (
            f"{report.records:,} {inputs}, {verdict.delivered:,} {outputs}, {verdict.lost} lost, "
            f"{verdict.doubled} doubled"
        )
        text += f", {verdict.reordered} reordered"
        text += f", {verdict.foreign} that the reference does not have" if verdict.foreign else ""
        text += f", {verdict.misplaced} in a wrong slot" if verdict.misplaced else ""
        text += f", {verdict.not_due:,} {outputs} not due yet" if verdict.not_due else ""
    problems = [f"input: {each.source}: {problem}" for each in report.input for problem in each.problems]
    first = verdict.first_difference or first_of(report.places)
    difference = f"first difference: {first}" if first else ""
    told = [
        text,
        bounds_in_words(report.bounds, outputs),
        input_in_words(report.input),
        *codes_in_words(report.codes, outputs),
        *in_words(report.places),
        *problems,
        difference,
    ]
    return "\n".join(filter(None, told))


def bounds_in_words(bounds: Bounds, outputs: str = "results") -> str:
    """Which results had to be there, and why."""
    if bounds.complete:
        text = f"bounds: all {outputs} had to be there, since the job has completed"
    else:
        text = f"bounds: {outputs} had to be there up to epoch {bounds.epoch} (cut {bounds.cut})"
        if not bounds.epoch:
            text = f"bounds: no {outputs} had to be there, since no epoch is committed"
        if bounds.held:
            text += f", but for {bounds.held:,} that it holds"
        text += f"; {_ENDED.get(bounds.outcome, 'the job has not ended')}"
    return "; ".join(filter(None, [text, bounds.begins, bounds.changed]))


def input_in_words(found: Sequence[InputVerdict]) -> str:
    """The share of each source that is recorded, and what says so."""
    words = {"source": "read again from the source", "journal": "known from the journal alone"}
    return "input: " + ", ".join(
        f"{each.source} ({each.records:,}) {words[each.known_from]}" for each in found
    )
