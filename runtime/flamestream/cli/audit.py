"""`flamestream audit`: what was delivered, against the reference interpreter on the recorded input.

Of a job that has not ended, the input from the newest output on may still be under way: what a slot lacks behind its own last item is not
counted as lost, everything before it is.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from flamestream.adapters import sinks
from flamestream.cli.bootstrap import Begun, begun, history_of
from flamestream.cli.cat import JobPlace
from flamestream.cli.exit_codes import ExitCode
from flamestream.cli.manifest import DeadLetter
from flamestream.cli.output import Json, as_json, say
from flamestream.cli.recorded import recorded_runs
from flamestream.cli.run_folder import RunFolder, find
from flamestream.cli.validation import CheckedJob, checked_job
from flamestream.model import payload as payloads
from flamestream.model.errors import UserError
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta, floor, time_of_meta
from flamestream.model.slot import slot_of, slot_of_hash
from flamestream.model.time import END, START, Time, timestamp_of
from flamestream.testing.audit import Delivered, Verdict, audit
from flamestream.testing.reference import ERRORS, Run, interpret

NEEDS_ARGUMENTS = True
Expected = dict[str, list[tuple[Meta, Any]]]


@dataclass(frozen=True, slots=True)
class Report:
    """An audit's outcome. `records` is the input, `complete` whether all of it had to be through."""

    records: int
    complete: bool
    verdict: Verdict


def command(
    job: JobPlace,
    spark: Annotated[bool, typer.Option("--spark", help="As a Spark job, for histories that one process cannot hold.")] = False,
    json: Json = False,
) -> None:
    """Compare everything that was delivered with what a sequential interpreter makes of the recorded input.

    With --spark the expectation is the batch runner's, computed and compared in parallel without collecting.

    Example: [bold]flamestream audit job.yaml[/bold]. Exit code 3 if a byte is lost, doubled, foreign or out of order.
    """
    found, folder = find(job, None)
    checked, began = checked_job(found), begun(folder)
    if spark:
        from flamestream.cli.audit_spark import audit_with_spark  # lazily: PySpark takes a while to import

        clean = audit_with_spark(checked, folder, is_complete(folder), began, json=json)
        raise typer.Exit(ExitCode.OK if clean else ExitCode.DIFFERENCE)
    report = audited(checked, is_complete(folder), began=began)
    if json:
        as_json({**asdict(report), "clean": report.verdict.clean})
    else:
        say(sentence(report))
    if not report.verdict.clean:
        raise typer.Exit(ExitCode.DIFFERENCE)


def sentence(report: Report, inputs: str = "records", outputs: str = "results") -> str:
    """The outcome in a line, and the first difference."""
    verdict = report.verdict
    text = f"{report.records:,} {inputs}, {verdict.delivered:,} {outputs}, {verdict.lost} lost, {verdict.doubled} doubled"
    text += f", {verdict.reordered} reordered"
    if verdict.foreign:
        text += f", {verdict.foreign} that the reference does not have"
    if not report.complete:
        text += " (the job has not ended: input behind each slot's last result is not counted)"
    return text + (f"\nfirst difference: {verdict.first_difference}" if verdict.first_difference else "")


def is_complete(folder: RunFolder) -> bool:
    """Whether the coordinator has said that all input is through."""
    return (folder.status() or {}).get("outcome") == "completed"


def audited(checked: CheckedJob, complete: bool, job: str = "", zookeeper: str = "", began: Begun | None = None) -> Report:
    """The audit of a job's whole output. Raises UserError for a sink that cannot be read back. `job` and `zookeeper`: in a cluster.

    `began`: the history before it, whose results were not delivered.
    """
    if checked.job.spec.restore_from is not None:
        raise UserError(
            "a job that was restored cannot be audited by itself: what entered before its savepoint is recorded with the job that it "
            "was taken of, which can be audited"
        )
    delivered = {name: [Delivered(*item) for item in sinks.read(checked.job.sink(name), f"spec.sinks.{name}")] for name in checked.sinks}
    newest = max((time_of_meta(item.meta) for items in delivered.values() for item in items), default=Time(0))
    cut = START if began is None else began.time
    runs = recorded_runs(checked, END if complete else Time(newest + 1), job, zookeeper, cut)
    history = [] if began is None else _history(checked, began)
    expected = _expected(checked, [*history, *runs])
    if history:
        expected = {name: [item for item in items if item[0] >= floor(cut)] for name, items in expected.items()}
    if not complete:
        _without_what_is_under_way(checked, expected, delivered)
    return Report(sum(len(records) for _, records in runs), complete, audit(expected, delivered))


def _history(checked: CheckedJob, began: Begun) -> list[Run]:
    """Raises UserError if it is not what the job began with."""
    read = (run for source in history_of(checked, began.paths) for run in source.below(END))
    runs: list[Run] = sorted(read, key=lambda run: run[0])
    if runs and timestamp_of(runs[-1][0]) != timestamp_of(began.time) - 1:
        raise UserError(
            "the history that the job began with has another number of rows now: restore its files, or the job cannot be audited"
        )
    return runs


def _expected(checked: CheckedJob, runs: Sequence[tuple[Time, Sequence[Any]]]) -> Expected:
    on_error = checked.job.spec.on_error
    if isinstance(on_error, DeadLetter):
        results = interpret(checked.graph, runs)
        results[on_error.dead_letter] = results.pop(ERRORS)
        return results
    results = interpret(checked.graph, runs, on_error="fail")
    results.pop(ERRORS)
    return results


def _without_what_is_under_way(checked: CheckedJob, expected: Expected, delivered: dict[str, list[Delivered]]) -> None:
    for name, items in expected.items():
        last: dict[Slot, Meta] = {}
        for item in delivered[name]:
            last[item.slot] = max(item.meta, last.get(item.slot, LEAST))
        items[:] = [(meta, value) for meta, value in items if meta <= last.get(_slot(checked, name, value), LEAST)]


def _slot(checked: CheckedJob, sink: str, value: Any) -> Slot:
    """Where an output belongs, by its payload alone."""
    slots = checked.job.spec.workers.slots
    vertex = next((vertex for vertex in checked.graph.sinks if vertex.name == sink), None)
    if vertex is None or (vertex.key is None and vertex.balance is None):
        return slot_of(payloads.encode(value), slots)
    if vertex.balance is not None:
        return slot_of_hash(vertex.balance(value), slots)
    assert vertex.key is not None, "one of the two is there"
    return slot_of(payloads.encode(vertex.key(value)), slots)
