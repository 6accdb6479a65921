"""A restored job is audited from its savepoint on: the state there is where the reference interpreter
begins."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.audit.committed import Savepoint
from flamestream.audit.job_audit import audited
from flamestream.audit.report import Report, sentence
from flamestream.core.protocol.chain import Row
from flamestream.model.ids import Epoch
from flamestream.model.payload import encode
from flamestream.model.payloads.state import encode_state
from flamestream.model.vertex import Kind
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of
from flamestream.store.snapshots import put_segment
from support.runs.changes import Change, both, foreign, nothing, only, replaced, without, without_runs
from support.runs.past_run import PastRun, finished, going_on, own_modules, slot_of_word

BEFORE = 6
"""Runs before the savepoint."""


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    with own_modules():
        yield


def begins_there(past: PastRun) -> None:
    """The job's own part: what was before is another job's."""
    past.entries, past.given = past.entries[BEFORE:], past.given[BEFORE:]


def restored(folder: Path, change: Change, job: str = "first", before: PastRun | None = None) -> Report:
    """A job that has begun with a savepoint of `job`, behind `before`'s run, and what an audit says of it."""
    past = before or finished()
    change(past)
    checked = past.leave(folder, {"files": {"path": str(folder / "out"), "fsync": False}})
    reduce = next(vertex.id for vertex in checked.graph.vertices if vertex.kind is Kind.REDUCE)
    last = replace(past.last_commit(), savepoint=savepoint(folder / "store", reduce, job, past))
    return audited(checked, last)


def savepoint(store: Path, operation: int, job: str, past: PastRun) -> Savepoint:
    """Of `job`, which has read the first runs of `past`."""
    counts = Counter(line.split()[0] for line in past.lines[: BEFORE * past.length])
    rows = [
        Row(operation, slot_of_word(word), encode(word), Epoch(3), True, encode_state(count))
        for word, count in counts.items()
    ]
    ref = put_segment(LocalStore(store, create=True), "one", table_of(rows))
    manifest = going_on(past.kind, len(past.lines), committed=BEFORE).index()
    assert manifest is not None
    return Savepoint("before", str(store), msgspec.structs.replace(manifest, job=job, segments=(ref,)))


def counts(report: Report) -> dict[str, Any]:
    verdict = report.verdict
    found = {
        "lost": verdict.lost,
        "foreign": verdict.foreign,
        "doubled": verdict.doubled,
        "not_due": verdict.not_due,
    }
    found["missing"] = sum(each.missing for each in report.input)
    return {name: count for name, count in found.items() if count}


def test_what_came_before_is_the_savepoints_state_and_the_verdict_says_so(tmp_path: Path) -> None:
    report = restored(tmp_path, begins_there)
    assert report.clean and report.records == 16 and report.verdict.delivered == 16
    assert "what came before is the state of savepoint 'before' (cut " in sentence(report)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without(24), {"lost": 1}),
        (only(slice(2)), {"lost": 8}),
        (replaced(39, payload=("yew", 1)), {"lost": 1, "foreign": 1}),
        (without_runs([0]), {"missing": 4, "lost": 4, "foreign": 8}),
    ],
    ids=["first lost", "half lost", "counted as if it had begun empty", "hole behind the savepoint"],
)
def test_what_is_wrong_behind_it_is_found(change: Change, says: dict[str, int], tmp_path: Path) -> None:
    report = restored(tmp_path, both(begins_there, change))
    assert counts(report) == says and not report.kept


def test_output_from_before_is_foreign_to_a_job_with_sinks_of_its_own(tmp_path: Path) -> None:
    older = finished().given[2]
    assert counts(restored(tmp_path, both(begins_there, foreign(*older)))) == {"foreign": 4}


def test_a_job_that_was_restored_under_its_own_name_goes_on_with_its_output(tmp_path: Path) -> None:
    def entries_only(past: PastRun) -> None:
        del past.entries[:BEFORE]

    report = restored(tmp_path, entries_only, "words")
    assert report.clean and report.verdict.delivered == 16, "what was given before is not looked at"


def test_a_timed_source_goes_on_at_its_place(tmp_path: Path) -> None:
    past = finished("timed", 64 * 10)
    del past.given[:BEFORE]
    report = restored(tmp_path, nothing, before=past)
    assert report.clean and report.verdict.delivered == 256


def test_a_savepoint_that_was_not_used_since_the_job_had_state_is_none(tmp_path: Path) -> None:
    report = restored(tmp_path, nothing)
    assert report.clean and report.records == 40 and report.bounds.begins == ""


def test_the_state_of_a_savepoint_is_by_vertex_and_key(tmp_path: Path) -> None:
    with own_modules():
        checked = finished().leave(tmp_path, {"files": {"path": str(tmp_path / "out"), "fsync": False}})
        state = savepoint(tmp_path / "store", 1, "first", finished()).state(checked.graph)
    assert state[1, encode("ash")] == 3 and len(state) == 10
