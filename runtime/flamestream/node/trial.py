"""A trial: the first records of a job's files and generators go through its graph, and every function is
called twice for each of them.

So a function that depends on clock or chance, or changes its input, is named before anything runs: results
would differ at the first recovery, hours later. Nothing is delivered, and nothing is kept.

Keeps: nothing outside is written. Does not: ask servers (a topic, a table, a bucket), or call connectors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from msgspec import to_builtins

from flamestream.connectors import sources
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.dataflow.twice import twice
from flamestream.core.worker.front import RunRecords
from flamestream.job.field_types import FLOAT_KEY, said
from flamestream.job.settings import fronts_of
from flamestream.job.validation import CheckedJob, described
from flamestream.model.errors import GraphError, UserError
from flamestream.model.failure import told
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.quoted import plain
from flamestream.model.time import END
from flamestream.model.vertex import Function, Vertex
from flamestream.node.hang import within
from flamestream.reference import Run, errors_of, interpret

RECORDS: Final = 20
"""Records of each source that are tried."""
MOST_WARNINGS: Final = 10
SECONDS: Final = 120.0
"""Seconds for all records and functions."""


@dataclass(slots=True)
class Trial:
    """The outcome: how many records were tried, and what was found."""

    tried: dict[str, int] = field(default_factory=dict)
    """The number of records by source; a source that was not asked is not in it."""
    warnings: list[str] = field(default_factory=list)


def tried(checked: CheckedJob, seconds: float = SECONDS) -> Trial:
    """Raises UserError for a function that is at fault for every run: one that is not pure, asks for a field
    that is not there, does not return, or fails for every record of a source where nothing takes them."""
    with within(seconds, f"the first {RECORDS} records of each source"):
        return _tried(checked)


def _tried(checked: CheckedJob) -> Trial:
    trial = Trial()
    runs: list[Run] = []
    for front in fronts_of(checked):
        name = str(front.source)
        spec = readable(checked, name)
        if spec is None or sources.share_of(fronts_of(checked), front.front):
            continue
        traits = sources.describe(spec, f"spec.sources.{name}")
        read = replace(front, timed=True, run_length=traits.run_length, replayable=True)
        found = list(_first(RecordedSource(checked.job.identity, read, spec).below(END)))
        trial.tried[name] = sum(len(records) for _, records in found)
        if not trial.tried[name]:
            trial.warnings.append(f"spec.sources.{name}: there are no records in it now")
        runs += found
    floats: dict[int, str] = {}
    fronts = {front.front: front.source for front in fronts_of(checked)}
    results = interpret(twice(checked.graph, _noting_floats(floats)), runs, fronts=fronts)
    trial.warnings += floats.values()
    _judge(
        checked.graph,
        [error for _, error in results[errors_of(checked.graph)]],
        trial,
        fails=checked.job.spec.on_error == "fail",
    )
    return trial


def suspect(checked: CheckedJob) -> str:
    """The function at whose fault an audit found a difference, if the first records show one; else what to
    think of it."""
    try:
        tried(checked)
    except GraphError as error:
        return f"the difference is that of a function: {error}"
    except UserError:
        pass  # the input is gone, which the audit says itself
    return (
        "if a function depends on clock, chance or outside state, the difference is its own (the first "
        "records of files and generators "
        "show none); if somebody has changed or removed output or input, put it back or begin anew "
        "(`flamestream reset`); if neither is so, it is a bug of FlameStream: please report it"
    )


def readable(checked: CheckedJob, name: str) -> dict[str, object] | None:
    """The source as one that ends and can be read at once; None if a server would have to be asked. Raises
    ManifestError without input."""
    spec = checked.job.source(name)
    sample = described(
        checked.job,
        "sources",
        name,
        spec,
        lambda each, where: sources.settings_of(each, where).sample(RECORDS, where),
    )
    return None if sample is None else dict.fromkeys(spec, to_builtins(sample))


def _first(runs: Iterator[Run]) -> Iterator[Run]:
    left = RECORDS
    for time, records in runs:
        yield (
            time,
            RunRecords(records[:left], records.run) if isinstance(records, RunRecords) else records[:left],
        )
        left -= len(records)
        if left <= 0:
            return


def _noting_floats(floats: dict[int, str]) -> Callable[[Vertex, Function], Function]:
    """Keys that are floats are noted, by vertex."""

    def noting(vertex: Vertex, key: Function) -> Function:
        return partial(_key, key, vertex, floats)

    return noting


def _key(key: Function, vertex: Vertex, floats: dict[int, str], payload: Any) -> Any:
    found = key(payload)
    if type(found) is float or (type(found) is tuple and float in map(type, found)):
        floats.setdefault(vertex.id, FLOAT_KEY.format(where=said(vertex), key=f"the key {found!r}"))
    return found


def _judge(graph: Graph, errors: Sequence[ErrorValue], trial: Trial, *, fails: bool) -> None:
    failed: dict[str, set[int]] = {}
    for error in errors:
        failed.setdefault(error.source, set()).add(error.offset)
    for error in errors:
        where = (
            f"record {error.offset} of source {error.source!r}"
            if error.offset >= 0
            else f"a record of source {error.source!r}"
        )
        wrong_field = error.function.startswith("fs.") and error.error == AttributeError.__name__
        every = len(failed[error.source]) == trial.tried.get(error.source)
        if (fails and (wrong_field or every)) or error.error == UserError.__name__:
            raise GraphError(plain(told(error, where, graph)).rpartition("\n")[0])
        if len(trial.warnings) < MOST_WARNINGS:
            trial.warnings.append(plain(told(error, where, graph)))
