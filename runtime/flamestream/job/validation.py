"""Whether a manifest, its graph and what the outside can do fit together. Opens nothing; reads the
application's file only.

Keeps: what passes here starts. Does not: look into folders or servers (the run says so if they are missing).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from flamestream.connectors import clients, sinks, sources
from flamestream.connectors.kit.rows import row_class
from flamestream.connectors.sinks import SinkTraits
from flamestream.connectors.sources import SourceTraits
from flamestream.connectors.synthetic.answers import ANSWERS
from flamestream.connectors.synthetic.clock import CLOCK
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.job import py_files
from flamestream.job.application import folders_of, load, located
from flamestream.job.application_code import code_of
from flamestream.job.egress import Allowed
from flamestream.job.field_types import check_fields
from flamestream.job.journal_of import journal_of
from flamestream.job.manifest import EXACT, STRONG, DeadLetter, Job, changes_of_calls, read
from flamestream.job.manifest_rules import UNJOURNALLED
from flamestream.job.py_files import PyFile
from flamestream.model.calls.call import calls_of, change_calls
from flamestream.model.calls.productions import asked_of
from flamestream.model.errors import ManifestError
from flamestream.model.event_time import take_in_sequence
from flamestream.model.graph import Graph
from flamestream.model.state_names import BRACKETS, tables_in

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job whose parts fit together."""

    job: Job
    graph: Graph
    sources: dict[str, SourceTraits]
    sinks: dict[str, SinkTraits]
    py_files: tuple[PyFile, ...] = ()
    """As they were found: by their content."""
    warnings: tuple[str, ...] = ()
    """Warnings: the job can run, and this may not be what was meant."""
    known: tuple[KnownFront, ...] = ()
    """The fronts of the job, where it has run, by their numbers. Empty: that was not looked up, and numbers go by
    the graph's order."""

    @property
    def application(self) -> Path:
        """File of the application: perhaps in one of `py_files`."""
        return located(self.job.path(self.job.spec.application.file), folders_of(self.py_files))

    @property
    def code(self) -> str:
        """Digest of the application's files as they are now. Raises UserError."""
        return code_of(self.application, self.py_files)


def checked(manifest: Path, debug: bool = False) -> CheckedJob:
    """The job of `manifest`, in debug mode if either says so. Raises ManifestError, GraphError or
    UserError."""
    job = read(manifest)
    return checked_job(replace(job, spec=replace(job.spec, debug=True)) if debug else job)


def checked_job(job: Job) -> CheckedJob:
    """A job that was read already."""
    files, graph = loaded(job)
    job = _with_inner_sources(job, graph)
    _same_names(job, "sources", {vertex.name for vertex in graph.sources}, graph)
    _dead_letter_fits(job, graph)  # before the names: its message is the clearer one
    _same_names(job, "sinks", _sinks(graph) | _dead_letters(job), graph)
    of_sources = {
        name: described(job, "sources", name, job.source(name), sources.describe) for name in job.spec.sources
    }
    of_sinks = {
        name: described(job, "sinks", name, job.sink(name), sinks.describe) for name in job.spec.sinks
    }
    for part, names, check in (
        ("sources", of_sources, sources.check_classes),
        ("sinks", of_sinks, sinks.check_classes),
    ):
        for name in names:
            described(job, part, name, job.source(name) if part == "sources" else job.sink(name), check)
    _call_settings_hold(job, graph)
    change_calls(graph, changes_of_calls(job.spec))
    _calls_hold(job, graph)
    _queries_hold(job, graph)
    if job.spec.transactions.patience is not None and graph.ledger is None:
        raise job.error(("spec", "transactions"), f"graph {graph.name!r} has no transactions: remove it")
    take_in_sequence(graph, {name for name, traits in of_sources.items() if traits.in_sequence})
    _guarantee_holds(job, of_sources, of_sinks)
    _arrivals_are_journalled(job, graph, of_sources)
    _dropped_are_gone(job, graph)
    # for what it refuses
    journal_of(job)
    gives = {
        name: sources.settings_of(job.source(name), f"spec.sources.{name}").gives()
        for name in job.spec.sources
    }
    classes = {name: row_class(given.cls, f"spec.sources.{name}") for name, given in gives.items()}
    warnings = (
        *check_fields(graph, classes),
        *_idle_without_effect(graph, of_sources),
        *_journal_without_use(job, of_sources),
    )
    return CheckedJob(job, graph, of_sources, of_sinks, files, warnings)


def _with_inner_sources(job: Job, graph: Graph) -> Job:
    """The job, with the graph's clocks and calls as sources: nobody has to write what the graph says
    already."""
    for name, spec in job.spec.sources.items():
        if name in graph.clocks or CLOCK.kind in spec:
            raise job.error(
                ("spec", "sources", name),
                "a clock is said by the graph alone, as graph.clock(...): remove it here",
            )
    clocks = {name: {CLOCK.kind: {"every": every}} for name, every in graph.clocks.items()}
    calls = {name: {ANSWERS.kind: {"fronts": call.settings.fronts}} for name, call in calls_of(graph).items()}
    return replace(job, spec=replace(job.spec, sources={**job.spec.sources, **clocks, **calls}))


def _sinks(graph: Graph) -> set[str]:
    """Names of the sinks that a manifest has: all but those of calls."""
    return {vertex.name for vertex in graph.sinks if vertex.call is None}


def loaded(job: Job) -> tuple[tuple[PyFile, ...], Graph]:
    """Graph of a job's application, and the files that it needs on the path. Raises ManifestError, GraphError
    or UserError."""
    found = []
    for number, written in enumerate(job.py_files):
        try:
            found.append(py_files.found(*py_files.split(written)))
        except ManifestError as error:
            raise job.error(("spec", "application", "pyFiles", number), str(error)) from error
    application = job.spec.application
    strong = job.spec.guarantee == STRONG
    return tuple(found), load(job.path(application.file), application.graph, found, productions=strong)


def _dead_letters(job: Job) -> set[str]:
    return {job.spec.on_error.dead_letter} if isinstance(job.spec.on_error, DeadLetter) else set()


def _same_names(job: Job, part: str, wanted: set[str], graph: Graph) -> None:
    given = set(getattr(job.spec, part))
    for name in sorted(wanted - given):
        close = get_close_matches(name, given - wanted, n=1)
        hint = f"is {close[0]!r} meant to be it?" if close else f"add spec.{part}.{name}"
        raise job.error(
            ("spec", part), f"graph {graph.name!r} has a {part[:-1]} {name!r}, which is missing here: {hint}"
        )
    for name in sorted(given - wanted):
        has = ", ".join(sorted(wanted))
        raise job.error(
            ("spec", part, name),
            f"graph {graph.name!r} has no {part[:-1]} {name!r} (it has {has}): remove it, or rename it",
        )


def _dead_letter_fits(job: Job, graph: Graph) -> None:
    for name in _dead_letters(job) & _sinks(graph):
        place = ("spec", "onError", "deadLetter")
        raise job.error(
            place, f"sink {name!r} gets results of the graph already: error items need a sink of their own"
        )


def _idle_without_effect(graph: Graph, of_sources: dict[str, SourceTraits]) -> Iterator[str]:
    """A warning for each source that is never idle. No error: the same graph may run over a source that
    is."""
    for vertex in graph.sources:
        if vertex.timing is not None and vertex.timing.idle is not None and of_sources[vertex.name].timed:
            yield (
                f"spec.sources.{vertex.name}: idle= in {vertex.place} has no effect here: this source is read in "
                "an order of its own, so all others wait for its next record, and its end closes every window"
            )


def _journal_without_use(job: Job, of_sources: dict[str, SourceTraits]) -> Iterator[str]:
    """A warning for a journal that no source needs. No error: a source that was removed may have one, which is
    asked whether all of it was read."""
    if job.spec.journal is not None and all(source.timed for source in of_sources.values()):
        yield (
            "spec.journal: no source of this job needs a journal: remove it, but where one that did was removed: then "
            "once the job has committed an epoch without it"
        )


def _dropped_are_gone(job: Job, graph: Graph) -> None:
    """Nothing is forgotten that the graph has."""
    # By its first name too: the state is found by that.
    has = {
        name
        for operation in graph.operations
        for name in (operation.name, operation.was, *tables_in(operation.form))
    }
    for place, name in enumerate(job.spec.upgrade.drop if job.spec.upgrade is not None else ()):
        if name in has:
            raise job.error(
                ("spec", "upgrade", "drop", place),
                f"graph {graph.name!r} has an operation or a table {name!r}, so its state is not forgotten: remove the "
                "line, or give it another name",
            )


def _arrivals_are_journalled(job: Job, graph: Graph, of_sources: dict[str, SourceTraits]) -> None:
    for vertex in graph.sources:
        if vertex.timing is not None and vertex.timing.by_arrival and of_sources[vertex.name].timed:
            text = (
                f'{vertex.place} says clock="arrival" for source {vertex.name!r}, which is read in an order '
                "of its own, again so after "
                "a failure: when a record arrived is written nowhere. Say at= with a time that its records "
                "have, or read it as it grows (files: follow: true)"
            )
            raise job.error(("spec", "sources", vertex.name), text)


def described(job: Job, part: str, name: str, spec: object, describe: Callable[[object, str], T]) -> T:
    """The answer of a connector about a spec; its error is given a file and a line."""
    place = f"spec.{part}.{name}"
    try:
        return describe(spec, place)
    except ManifestError as error:
        field, colon, message = str(error).partition(": ")
        # the connector names its field below `where`; the document knows on which line that stands
        path = ("spec", part, name, *re.findall(r"\w+", field.removeprefix(place)))
        raise job.error(path, message if colon else str(error)) from error


def _egress_holds(job: Job, graph: Graph) -> Allowed | None:
    """Places that calls may reach; None: any."""
    if job.spec.egress is None:
        return None
    # An empty list is true of a graph without calls, and what a cluster's operator adds to every job.
    if job.spec.egress and not asked_of(graph):
        raise job.error(
            ("spec", "egress"), f"graph {graph.name!r} has no call, so nothing is asked: remove it"
        )
    try:
        return Allowed(job.spec.egress)
    except ValueError as error:
        raise job.error(("spec", "egress"), str(error)) from None


def _clients_hold(job: Job, graph: Graph, allowed: Allowed | None) -> None:
    """Clients are asked with, and may be reached."""
    for name in job.spec.clients:
        place = ("spec", "clients", name)
        client = described(job, "clients", name, job.client(name), clients.settings_of)
        if not asked_of(graph):
            raise job.error(place, f"graph {graph.name!r} has no call, so nothing is asked: remove it")
        # (!) Here, since in a process nobody sees what a C library connects to (node/calls/egress.py).
        for host, port in client.reached():
            if allowed is not None and not allowed.asks(host, port):
                raise job.error(place, f"{host}:{port} is not in spec.egress: add it there, or remove this")


def _call_settings_hold(job: Job, graph: Graph) -> None:
    """Settings are of calls that there are, and go with what their functions say."""
    asked = asked_of(graph)
    for name, settings in job.spec.calls.items():
        if (call := asked.get(f"{name}()")) is None:
            close = get_close_matches(name, [known.removesuffix(BRACKETS) for known in asked], n=1)
            hint = f"is {close[0]!r} meant?" if close else "remove it"
            raise job.error(("spec", "calls", name), f"graph {graph.name!r} has no call {name!r}: {hint}")
        place = ("spec", "calls", name)
        never = (settings.doubt or call.said.doubt) == "never"
        refused = {
            "retries": "a second try could be a second effect",
            "cache": "it is for calls without an effect",
        }
        for setting, why in refused.items():
            if getattr(settings, setting) and never:
                raise job.error((*place, setting), f'call {name}() has doubt="never": {why}. Remove the line')
        if never and call.said.cache:
            raise job.error(
                (*place, "doubt"),
                f"call {name}() has a cache, which is for calls without an effect: remove the line, or the function's "
                "cache=",
            )
        if settings.order == "key" and graph.calls[f"{name}()"].key is None:
            raise job.error(
                (*place, "order"),
                f"call {name}() has no key: remove the line, or say stream.call(..., key=...)",
            )


def _queries_hold(job: Job, graph: Graph) -> None:
    """Names that may be asked for are there."""
    kept = graph.kept
    if job.spec.queries is not None and job.spec.queries.tls is not None and job.spec.queries.tls.secret:
        raise job.error(
            ("spec", "queries", "tls", "secret"), "a Secret is in a cluster: write certFile and keyFile here"
        )
    if job.spec.queries is not None and not kept:
        raise job.error(("spec", "queries"), f"graph {graph.name!r} keeps no state: remove it")
    for place, name in enumerate(job.spec.queries.tables if job.spec.queries is not None else ()):
        if name not in kept:
            close = get_close_matches(name, kept, n=1)
            hint = f"is {close[0]!r} meant?" if close else f"it has {', '.join(map(repr, kept))}"
            raise job.error(
                ("spec", "queries", "tables", place),
                f"graph {graph.name!r} keeps nothing named {name!r}: {hint}",
            )


def _calls_hold(job: Job, graph: Graph) -> None:
    """Calls have what they need under the guarantee, and may reach what they ask."""
    calls = calls_of(graph)
    _clients_hold(job, graph, _egress_holds(job, graph))
    for name, call in calls.items():
        written = job.spec.calls.get(name.removesuffix(BRACKETS))
        if written is not None and written.give_up_after and call.settings.most_tries == 1:
            raise job.error(
                ("spec", "calls", name.removesuffix(BRACKETS), "giveUpAfter"),
                f"call {name} is tried once, and given up behind that: remove the line",
            )
        if job.spec.guarantee == "at-most-once":
            raise job.error(
                ("spec", "guarantee"),
                f"call {name} needs a journal for its answers, and under at-most-once there is none: choose another "
                "guarantee",
            )
        if job.spec.guarantee != "none" and job.spec.journal is None:
            raise job.error(
                ("spec",),
                f"call {name} needs a journal under {job.spec.guarantee}: its answers are written nowhere "
                "else. Add spec.journal, like journal: {folder: journal}, or choose guarantee: none",
            )
        if job.spec.batches:
            raise job.error(
                ("spec", "guarantee"),
                f"a micro-batch job makes no calls, and its graph has {name}: choose another guarantee. "
                "`flamestream run --runner micro-batch` then takes the answers that a stream has kept",
            )
        if job.spec.guarantee == "none" and call.settings.doubt == "never":
            raise job.error(
                ("spec", "guarantee"),
                f'call {name} has doubt="never", and under none no journal says what was begun: choose '
                'another guarantee, or doubt="again"',
            )


def _guarantee_holds(job: Job, of_sources: dict[str, SourceTraits], of_sinks: dict[str, SinkTraits]) -> None:
    guarantee = job.spec.guarantee
    for name, sink in of_sinks.items():
        if guarantee in EXACT and not sink.fences:
            raise job.error(
                ("spec", "sinks", name), sink.refusal.partition(": ")[2] or "this sink cannot fence"
            )
    for name, source in of_sources.items():
        if guarantee in UNJOURNALLED and source.answers:
            raise job.error(
                ("spec", "sources", name),
                f"this source answers when a record is in the journal, and under {guarantee} there is no journal: "
                "choose at-least-once or exactly-once",
            )
        if guarantee not in UNJOURNALLED and not source.timed and job.spec.journal is None:
            raise job.error(
                ("spec", "sources", name),
                f"this source needs a journal under {guarantee}: the order in which its records enter is "
                "written nowhere else. "
                "Add spec.journal, like journal: {folder: journal}, or choose guarantee: none",
            )
