"""The audit of a job's whole output, against the reference interpreter on the recorded input.

Which results had to be there is said by the job record, not by the output: of a job that has completed all,
of any other everything below the committed cut, since an epoch is committed only when its output is with the
consumers (under `exactly-once-2pc` but for what the epoch holds). What the reference gives above the cut and
was not delivered is a number of its own, unless a later result of its slot is there.

Keeps: record, sinks and journals are read in this order, so that what follows from something is read before
it. Does not: read a sink (connectors/sinks.py), the record (committed.py) or a source (recorded.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from flamestream.audit.answers import unpaired
from flamestream.audit.begun import Begun, begun, check_history, history_of
from flamestream.audit.committed import LastCommit, Savepoint, cluster_state_of, committed_here
from flamestream.audit.interpretation import Interpretation, Made, Meaning, interpreted
from flamestream.audit.places import has_deliveries, judged, looks_at, with_places
from flamestream.audit.recorded import FrontInput, RecordedInput, Recording
from flamestream.audit.report import Report, codes_of, report_of
from flamestream.audit.timeline import Before, interpreted_along, timeline_of
from flamestream.connectors import sinks
from flamestream.connectors.kit.standing import Look, Span
from flamestream.job.manifest_rules import why_not_audited
from flamestream.job.recorded import recorded_sources
from flamestream.job.settings import dead_letter, fronts_of, known_to
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.meta import LEAST, Meta, floor, time_of_meta
from flamestream.model.time import END, START, Time
from flamestream.node.run_folder import RunFolder
from flamestream.reference import Run, State
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess
from flamestream.testing.audit import Delivered, Result, audit


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of an audit: everything it compared, and its outcome."""

    report: Report
    last: LastCommit
    runs: Sequence[Run]
    """All runs that entered from where the audit begins, in the order of times."""
    state: State | None
    """The state that was restored before those runs; None: the audit begins with nothing."""
    delivered: Mapping[str, Sequence[Delivered]]
    """Delivered results by sink, where they are known beside the place that users look at."""
    history: bool
    """Whether the first runs are a history that the job began with, whose results were not delivered."""


def audited_here(checked: CheckedJob, folder: RunFolder, *, changed: bool = False) -> Report:
    """The audit of a job of this machine, whether it runs or not. Raises as `audited` does."""
    return witnessed_here(checked, folder, changed=changed).report


def witnessed_here(
    checked: CheckedJob, folder: RunFolder, *, changed: bool = False, by_each: bool = True
) -> Evidence:
    """The audit of a job of this machine, with everything it compared. `by_each`: each result is judged by
    the code that made it, if a copy is kept; else those alone that the code of now has made at first."""
    with cluster_state_of(folder) as zookeeper:
        # Before the sinks are read (!): what the record promises is in them then (decision 045).
        look = partial(committed_here, folder, zookeeper, checked.job.identity, checked.job.store)
        last, kept = look(), folder.code if by_each else None
        return witnessed(
            checked, last, zookeeper=zookeeper, began=begun(folder), again=look, kept=kept, changed=changed
        )


def audited(
    checked: CheckedJob, last: LastCommit, job: str = "", zookeeper: ZooKeeperAccess = NOWHERE,
    began: Begun | None = None, *, again: Callable[[], LastCommit] | None = None, kept: Path | None = None,
    changed: bool = False,
) -> Report:  # fmt: skip
    """The audit of a job's whole output. Raises UserError for a sink that cannot be read back, or a guarantee
    that cannot be judged so; Corrupt for input that cannot be read again.

    `last` was read before this is called: what it says to be delivered is there. `job` and `zookeeper`: in a
    cluster. `began`: the history before it, whose results were not delivered. `again`: gives the last commit
    of now, of a job that may run. `kept`: where copies of its applications are. `changed`: the application as
    it is now stands for all versions that there were.
    """
    return witnessed(checked, last, job, zookeeper, began, again=again, kept=kept, changed=changed).report


def witnessed(
    checked: CheckedJob, last: LastCommit, job: str = "", zookeeper: ZooKeeperAccess = NOWHERE,
    began: Begun | None = None, *, again: Callable[[], LastCommit] | None = None, kept: Path | None = None,
    changed: bool = False,
) -> Evidence:  # fmt: skip
    """The audit of a job's whole output, with everything it compared. Arguments as for `audited`."""
    check_guarantee(checked)
    checked = known_to(last.record, checked)
    check_sources(checked)
    name = job or checked.job.identity
    # all sinks before the journals, which have what they follow from
    looks = looks_at(checked, name)
    known = [sink for sink in checked.sinks if sink not in looks or has_deliveries(checked, sink)]
    delivered = {
        sink: [Delivered(*item) for item in sinks.read(checked.job.sink(sink), f"spec.sinks.{sink}", name)]
        for sink in known
    }
    # (!) Behind the sinks: other code may have taken over since `last`, and they have its results.
    line = timeline_of(checked, last if again is None else again(), kept, changed=changed)
    until = line.until
    since = START if began is None else began.time
    recorded = RecordedInput(recorded_sources(checked, job, zookeeper, since), checked.sources, last)
    savepoint = recorded.savepoint
    cut = since if savepoint is None else savepoint.cut
    # restored under its old name: its sinks go on
    goes_on = savepoint is not None and savepoint.index.job == name
    delivered = _between(delivered, floor(cut) if goes_on else LEAST, until)
    fronts = recorded.read(END if last.completed else _entered(delivered, looks, last.cut))
    entered = (run for front in fronts for run in front.runs if cut <= run[0] < until)
    past = [] if began is None else [Recording(source) for source in history_of(checked, began.paths)]
    runs = [*([] if began is None else _history(past, began)), *sorted(entered, key=itemgetter(0))]
    # else the state, too, is of other code
    state = savepoint.state(checked.graph) if savepoint is not None and line.alone else None
    if line.alone:
        found = interpreted(_meaning(checked), runs, state)
    else:
        recordings = [front.recording for front in fronts if front.recording is not None]
        found = interpreted_along(checked, line, recordings, Before(cut, savepoint, past))
    if until == END:  # what code that is not there has asked cannot be said
        fronts = _with_answers(checked, fronts, found, cut, completed=last.completed)
    expected = {
        sink: [*_expected(found.results.get(sink, ()), last, cut)]
        for sink in {**dict.fromkeys(checked.sinks), **found.results}
    }
    # where users look, results of all code stand together
    span = Span(LEAST if savepoint is None else floor(cut), floor(until) if until < END else None)
    places = [
        judged(sink, look, expected[sink], delivered.get(sink), span, ended=bool(last.outcome))
        for sink, look in looks.items()
    ]
    verdict = with_places(audit({sink: expected[sink] for sink in known}, delivered), places)
    codes = codes_of(line.spans, until, (expected[sink] for sink in checked.sinks))
    edits = line.told + _not_there(checked, found)
    report = report_of(checked, last, verdict, places, fronts, beginning(savepoint, began), edits, codes)
    return Evidence(report, last, runs, state, delivered, began is not None)


def check_guarantee(checked: CheckedJob) -> None:
    """Raises UserError if nothing says what a job with its guarantee had to deliver."""
    if why := why_not_audited(checked.job.spec.guarantee):
        raise UserError(f"job {checked.job.name!r} cannot be audited: {why}")


def check_sources(checked: CheckedJob) -> None:
    """Raises UserError if the job has had a source that the graph of now has not: nobody can read it again."""
    names = {front.known_as for front in fronts_of(checked)}
    for front in checked.known:
        if front.name not in names and front.begins is not None:
            raise UserError(
                f"job {checked.job.name!r} cannot be audited so: it has read source {front.name!r}, which the graph "
                "of now has not, so its records are not known. Audit with the files and the manifest from before "
                "it was removed"
            )


def _between(
    delivered: Mapping[str, Sequence[Delivered]], begin: Meta, until: Time
) -> dict[str, list[Delivered]]:
    """Delivered items with times from `begin` to before `until`, by sink."""
    return {
        sink: [item for item in items if begin <= item.meta and (until == END or item.meta < floor(until))]
        for sink, items in delivered.items()
    }


def _with_answers(
    checked: CheckedJob, fronts: list[FrontInput], found: Interpretation, cut: Time, *, completed: bool
) -> list[FrontInput]:
    """The input, with what is wrong between the requests and the answers of calls."""
    entered = ((front.source, run) for front in fronts for run in front.runs if run[0] >= cut)
    asked = {
        name: [(made.meta, made.payload) for made in found.results.get(name, ())]
        for name in checked.graph.calls
    }
    wrong = unpaired(checked.graph, entered, asked, cut, completed=completed)
    return [replace(front, findings=[*front.findings, *wrong.pop(front.source, ())]) for front in fronts]


def _entered(delivered: Mapping[str, Sequence[Delivered]], looks: Mapping[str, Look], cut: Time) -> Time:
    """Below what everything has entered that is delivered; END if a place does not say up to where it
    goes."""
    newest = [look.newest for name, look in looks.items() if name not in delivered]
    if None in newest:
        return END
    metas = [*filter(None, newest), *(item.meta for items in delivered.values() for item in items)]
    return max(Time(max(map(time_of_meta, metas), default=START) + 1), cut)


def _history(past: Iterable[Recording], began: Begun) -> list[Run]:
    """Raises UserError if it is not what the job began with."""
    runs = sorted((run for recording in past for run in recording.runs()), key=itemgetter(0))
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


def _not_there(checked: CheckedJob, found: Interpretation) -> str:
    """That results of older code went to sinks which nobody can read any more."""
    gone = [name for name in found.results if name not in checked.sinks and name not in checked.graph.calls]
    names = ", ".join(repr(name) for name in gone if found.results[name])
    return (
        f"; the manifest has no sink {names} any more, so what went there is not looked at" if names else ""
    )


def _meaning(checked: CheckedJob) -> Meaning:
    """The meaning of runs by the application of now."""
    fronts = {front.front: front.source for front in fronts_of(checked)}
    spec = checked.job.spec
    return Meaning(checked.graph, fronts, spec.workers.slots, dead_letter(spec))


def _expected(items: Iterable[Made], last: LastCommit, cut: Time) -> Iterator[Result]:
    """The results from `cut` on. `last` says which are due."""
    # (!) Due is what the commit promises; the rest may be under way. All is, once the job has completed.
    below, begin = floor(END if last.completed else last.cut), floor(cut)
    held = frozenset[bytes]() if last.completed else last.held
    for meta, value, slot in items:
        if meta >= begin:
            yield Result(meta, value, slot, meta < below and meta not in held)
