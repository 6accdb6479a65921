"""`flamestream audit`: what was delivered, against the reference interpreter on the recorded input.

Which results had to be there is said by the job record, not by the output: of a job that has completed all,
of any other everything below the committed cut, since an epoch is committed only when its output is with the
consumers (under `exactly-once-2pc` but for what the epoch holds). What the reference gives above the cut and
was not delivered is a number of its own, unless a later result of its slot is there.

Keeps: a verdict names its bounds, and what the input was checked against. Does not: read a sink
(connectors/sinks.py), the record (committed.py) or a source (recorded.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import typer

from flamestream.audit.answers import unpaired
from flamestream.audit.begun import Begun, begun, check_history, history_of
from flamestream.audit.changed_code import behind, by_this_code
from flamestream.audit.committed import LastCommit, Savepoint, cluster_state_of, committed_here
from flamestream.audit.places import (
    PlaceVerdict,
    first_of,
    has_deliveries,
    in_words,
    judged,
    looks_at,
    with_places,
)
from flamestream.audit.recorded import FrontInput, RecordedInput, recorded_sources
from flamestream.cli.cat import JobPlace
from flamestream.cli.output import Json, answer, say
from flamestream.connectors import sinks
from flamestream.connectors.kit.standing import Look, Span
from flamestream.job.drill_status import AuditResult
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest import DeadLetter
from flamestream.job.settings import fronts_of
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model import payload as payloads
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta, floor, time_of_meta
from flamestream.model.slot import slot_of
from flamestream.model.time import END, START, Time
from flamestream.node.run_folder import RunFolder, find
from flamestream.reference import ERRORS, Results, Run, State, interpret, slot_at
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess
from flamestream.testing.audit import Delivered, Result, Verdict, audit

_ENDED: Final = {
    "drained": "the job was drained",
    "stopped": "the job was stopped",
    "failed": "the job has failed",
}
LONGEST: Final = 1000
"""Characters of a first difference in a drill's status."""
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
    bounds: Bounds
    kept: bool
    """Whether the input is whole, and the output and its places as the job's guarantee allows it."""
    clean: bool
    """Whether the input is whole, and the output and its places byte for byte the reference's."""
    empty: bool
    """Nothing has entered, and nothing was delivered: there was nothing to audit."""
    first_difference: str
    """The first difference in the input, else in the output, else at a place."""


def command(
    job: JobPlace,
    spark: Annotated[
        bool, typer.Option("--spark", help="As a Spark job, for histories that one process cannot hold.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Interpret all of it with the application as it is now.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare everything that was delivered with what a sequential interpreter makes of the recorded input.

    Where the application's code was edited, what lies behind the edit is left out, and code that did not
    begin the job is refused: with --changed the code of now stands for all of it, and a difference may be the
    edit's.

    With --spark the same interpreter takes the keys of each partition, and the output of `files` sinks is
    compared without collecting.

    Example: [bold]flamestream audit job.yaml[/bold]. Exit code 3 if a byte is lost, doubled, foreign, out of
    place or out of order, or if records of the input are missing. Under at-least-once repeats are counted as
    doubled, and allowed.
    """
    found, folder = find(job, None)
    checked = checked_job(found)
    if spark:
        from flamestream.cli.spark.audit import audited_with_spark  # lazily: PySpark takes a while to import

        report = audited_with_spark(checked, folder, changed=changed)
    else:
        report = audited_here(checked, folder, changed=changed)
    answer(asdict(report), sentence(report), json)
    if not report.kept:
        if not json and report.verdict.first_difference:
            from flamestream.node.trial import suspect  # here: most audits are clean

            say(suspect(checked))
        raise typer.Exit(ExitCode.DIFFERENCE)


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


def audited_here(checked: CheckedJob, folder: RunFolder, *, changed: bool = False) -> Report:
    """The audit of a job of this machine, whether it runs or not. Raises as `audited` does."""
    with cluster_state_of(folder) as zookeeper:
        # Before the sinks are read (!): what the record promises is in them then (decision 045).
        last = committed_here(folder, zookeeper, checked.job.name, checked.job.store)
        return audited(checked, last, zookeeper=zookeeper, began=begun(folder), changed=changed)


def audited(
    checked: CheckedJob, last: LastCommit, job: str = "", zookeeper: ZooKeeperAccess = NOWHERE,
    began: Begun | None = None, *, changed: bool = False,
) -> Report:  # fmt: skip
    """The audit of a job's whole output. Raises UserError for a sink that cannot be read back, Corrupt for
    input that cannot be read again.

    `last` was read before this is called: what it says to be delivered is there. `job` and `zookeeper`: in a
    cluster. `began`: the history before it, whose results were not delivered. `changed`: the application as
    it is now stands for all versions that there were.
    """
    spans = (
        ()
        if last.manifest is None
        else behind(last.manifest.code, START if last.savepoint is None else last.savepoint.cut)
    )
    until, edits = by_this_code(spans, checked.code, all_of_it=changed) if spans else (END, "")
    # all sinks before the journals, which have what they follow from
    looks = looks_at(checked, job or checked.job.name)
    known = [name for name in checked.sinks if name not in looks or has_deliveries(checked, name)]
    read = {
        name: sinks.read(checked.job.sink(name), f"spec.sinks.{name}", job or checked.job.name)
        for name in known
    }
    delivered = {name: [Delivered(*item) for item in items] for name, items in read.items()}
    recorded = RecordedInput(
        recorded_sources(checked, job, zookeeper, START if began is None else began.time),
        checked.sources,
        last,
    )
    savepoint = recorded.savepoint
    # restored under its old name: its sinks go on
    if savepoint is not None and savepoint.manifest.job == (job or checked.job.name):
        delivered = {
            name: [item for item in items if item.meta >= floor(savepoint.cut)]
            for name, items in delivered.items()
        }
    if until < END:
        delivered = {
            name: [item for item in items if item.meta < floor(until)] for name, items in delivered.items()
        }
    fronts = recorded.read(END if last.completed else _entered(delivered, looks, last.cut))
    cut = savepoint.cut if savepoint is not None else START if began is None else began.time
    runs = sorted(
        (run for front in fronts for run in front.runs if cut <= run[0] < until), key=lambda run: run[0]
    )
    history = [] if began is None else _history(checked, began)
    results = _results(
        checked, [*history, *runs], None if savepoint is None else savepoint.state(checked.graph)
    )
    if until == END:  # what other code has asked cannot be said
        fronts = _with_answers(checked, fronts, results, cut, completed=last.completed)
    expected = {name: [*_expected(checked, name, items, last, cut)] for name, items in results.items()}
    before = LEAST if savepoint is None else floor(cut)
    # where users look, results of all code stand together
    span = Span(before, floor(until) if until < END else None)
    places = [
        judged(name, look, expected[name], delivered.get(name), span, ended=bool(last.outcome))
        for name, look in looks.items()
    ]
    verdict = with_places(audit({name: expected[name] for name in known}, delivered), places)
    return report_of(checked, last, verdict, places, fronts, beginning(savepoint, began), edits)


def _with_answers(
    checked: CheckedJob, fronts: list[FrontInput], results: Results, cut: Time, *, completed: bool
) -> list[FrontInput]:
    """The input, with what is wrong between the requests and the answers of calls."""
    entered = ((front.source, run) for front in fronts for run in front.runs if run[0] >= cut)
    wrong = unpaired(checked.graph, entered, results, cut, completed=completed)
    return [replace(front, findings=[*front.findings, *wrong.pop(front.source, ())]) for front in fronts]


def _entered(delivered: Mapping[str, Sequence[Delivered]], looks: Mapping[str, Look], cut: Time) -> Time:
    """Below what everything has entered that is delivered; END if a place does not say up to where it
    goes."""
    newest = [look.newest for name, look in looks.items() if name not in delivered]
    if None in newest:
        return END
    metas = [*filter(None, newest), *(item.meta for items in delivered.values() for item in items)]
    return max(Time(max(map(time_of_meta, metas), default=START) + 1), cut)


def _history(checked: CheckedJob, began: Begun) -> list[Run]:
    """Raises UserError if it is not what the job began with."""
    read = (run for source in history_of(checked, began.paths) for run in source.below(END))
    runs: list[Run] = sorted(read, key=lambda run: run[0])
    check_history(began, runs[-1][0] if runs else None)
    return runs


def beginning(savepoint: Savepoint | None, began: Begun | None) -> str:
    """A sentence about what came before the first result that is looked at."""
    if savepoint is not None:
        return (
            f"what came before is the state of savepoint {savepoint.name!r} (cut {savepoint.cut}), from "
            "which the job was restored"
        )
    return (
        "" if began is None else f"what came before (cut {began.time}) is the history that the job began with"
    )


def _results(checked: CheckedJob, runs: Sequence[Run], state: State | None) -> Results:
    """The reference's results, by sink."""
    on_error = checked.job.spec.on_error
    fronts = {front.front: front.source for front in fronts_of(checked)}
    if isinstance(on_error, DeadLetter):
        results = interpret(checked.graph, runs, fronts=fronts, state=state)
        results[on_error.dead_letter] = results.pop(ERRORS)
        return results
    results = interpret(checked.graph, runs, on_error="fail", fronts=fronts, state=state)
    results.pop(ERRORS)
    return results


def _expected(
    checked: CheckedJob, sink: str, items: Iterable[tuple[Meta, Any]], last: LastCommit, cut: Time
) -> Iterator[Result]:
    """The results from `cut` on, with their slots. `last` says which are due."""
    below, begin = floor(END if last.completed else last.cut), floor(cut)
    held = frozenset[bytes]() if last.completed else last.held
    for meta, value in items:
        if meta >= begin:
            yield Result(meta, value, _slot(checked, sink, value), meta < below and meta not in held)


def _slot(checked: CheckedJob, sink: str, value: Any) -> Slot:
    """The slot where an output belongs, by its payload alone."""
    slots = checked.job.spec.workers.slots
    vertex = next((vertex for vertex in checked.graph.sinks if vertex.name == sink), None)
    return slot_of(payloads.encode(value), slots) if vertex is None else slot_at(vertex, value, slots)


def report_of(
    checked: CheckedJob, last: LastCommit, verdict: Verdict, places: list[PlaceVerdict],
    fronts: Sequence[FrontInput], begins: str, edits: str,
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
        bounds=bounds,
        clean=whole and all(each.clean for each in found_out),
        kept=whole and all(each.keeps(checked.job.spec.guarantee) for each in found_out),
        empty=whole
        and not (count or verdict.delivered or verdict.expected or any(place.stands for place in places)),
        first_difference=(problems or [verdict.first_difference or first_of(places)])[0],
    )


def result_of(report: Report) -> AuditResult:
    """The report as a drill keeps it, and as `kubectl flamestream audit --json` prints it. `clean`: as the
    job's guarantee allows it."""
    found = report.verdict
    return AuditResult(
        clean=report.kept, records=report.records, delivered=found.delivered, lost=found.lost,
        doubled=found.doubled, reordered=found.reordered, foreign=found.foreign, misplaced=found.misplaced,
        not_due=found.not_due, missing_input=sum(each.missing for each in report.input),
        unexpected_input=sum(each.unexpected for each in report.input), complete=report.complete,
        epoch=report.bounds.epoch, bounds=bounds_in_words(report.bounds)[:IN_WORDS],
        input=input_in_words(report.input)[:IN_WORDS], first_difference=report.first_difference[:LONGEST],
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
