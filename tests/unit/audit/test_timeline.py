"""A job whose code was changed: each result is judged by the code that made it, with the state that the code
before has left."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.audit import timeline
from flamestream.audit.committed import LastCommit, Savepoint
from flamestream.audit.job_audit import audited
from flamestream.audit.report import Report, sentence
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.job.application_code import code_of
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model import vertex as vertices
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch
from flamestream.model.payload import encode
from flamestream.model.payloads.state import encode_state
from flamestream.model.time import START
from flamestream.node.kept_code import keep
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of
from flamestream.store.snapshots import put_segment
from support.runs.past_run import (
    APPLICATION,
    Given,
    Kind,
    PastRun,
    asked_here,
    finished,
    going_on,
    own_modules,
    run_time,
    slot_of_word,
)  # fmt: skip

BEFORE = 3
"""Runs before a savepoint."""
TICK = 5
"""The first run of the new code."""
NEGATIVE = (": (line.split()[0], count)", ": (line.split()[0], -count)")
NAMED = ("reduce(", "reduce(name='words', was='lambda by lambda', ")
ANEW = ("reduce(", "reduce(name='anew', ")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(timeline, "asked", asked_here)
    with own_modules():
        yield


@dataclass(slots=True)
class Changed:
    """A job that has completed with other code than it began with."""

    folder: Path
    now: CheckedJob
    last: LastCommit
    old: str
    """Digests."""
    new: str

    def audited(self, *, kept: bool = True, now: CheckedJob | None = None) -> Report:
        return audited(now or self.now, self.last, kept=self.folder / "code" if kept else None)


def changed(folder: Path, past: PastRun, *edits: tuple[str, str]) -> Changed:
    """The application with these edits made the runs from TICK on."""
    sink = {"files": {"path": str(folder / "out"), "fsync": False}}
    with own_modules():
        first = past.leave(folder, sink)
        old, file = first.code, first.application
        keep(folder / "code", file, old)
    text = APPLICATION
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    new = code_of(file)
    keep(folder / "code", file, new)
    index, record = past.index(), past.record()
    assert index is not None
    spans = (CodeSpan(START, old), CodeSpan(run_time(TICK), new))
    last = replace(past.last_commit(), index=msgspec.structs.replace(index, code=spans), record=record)
    return Changed(folder, checked_job(first.job), last, old, new)


def negative(item: Given) -> Any:
    return item.payload[0], -item.payload[1]


def ran(change: Callable[[Given], Any] = negative, kind: Kind = "followed", lines: int = 40) -> PastRun:
    """A run whose results are others from TICK on."""
    past = finished(kind, lines)
    past.given[TICK:] = [[item._replace(payload=change(item)) for item in call] for call in past.given[TICK:]]
    return past


def findings(report: Report) -> dict[str, int]:
    found = {name: getattr(report.verdict, name) for name in ("lost", "foreign", "doubled", "not_due")}
    return {name: count for name, count in found.items() if count}


def test_each_result_is_judged_by_the_code_that_made_it(tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    report = job.audited()
    assert report.clean and report.verdict.delivered == 40
    assert [(each.since, each.digest, each.results) for each in report.codes] == [
        (START, job.old, 20),
        (run_time(TICK), job.new, 20),
    ]
    said = sentence(report).splitlines()
    assert f"code {job.old[:12]}: 20 results" in said
    assert f"code {job.new[:12]}: 20 results from the tick at cut {run_time(TICK)} on" in said


@pytest.mark.parametrize("line", [19, 20], ids=["the new code below the cut", "the old code above it"])
def test_a_result_of_the_other_code_is_found(line: int, tmp_path: Path) -> None:
    past = ran()
    call, place = divmod(line, past.length)
    word, count = past.given[call][place].payload
    past.given[call][place] = past.given[call][place]._replace(payload=(word, -count))
    assert findings(changed(tmp_path, past, NEGATIVE).audited()) == {"lost": 1, "foreign": 1}


@pytest.mark.parametrize(("kind", "lines"), [("socket", 40), ("timed", 640)])
def test_runs_of_all_kinds_of_sources_are_read_again(kind: Kind, lines: int, tmp_path: Path) -> None:
    report = changed(tmp_path, ran(negative, kind, lines), NEGATIVE).audited()
    assert report.clean and [each.results for each in report.codes] == [lines // 2, lines // 2]


def test_a_restored_job_begins_with_the_savepoints_state(tmp_path: Path) -> None:
    past = ran()
    before = going_on(committed=BEFORE).index()
    del past.entries[:BEFORE], past.given[:BEFORE]
    job = changed(tmp_path, past, NEGATIVE)
    assert before is not None
    reduce = next(vertex.id for vertex in job.now.graph.vertices if vertex.kind is vertices.Kind.REDUCE)
    counts = Counter(line.split()[0] for line in past.lines[: BEFORE * past.length])
    rows = [
        Row(reduce, slot_of_word(word), encode(word), Epoch(3), True, encode_state(count))
        for word, count in counts.items()
    ]
    ref = put_segment(LocalStore(tmp_path / "store", create=True), "one", table_of(rows))
    index = msgspec.structs.replace(before, job="first", segments=(ref,))
    job.last = replace(job.last, savepoint=Savepoint("before", str(tmp_path / "store"), index))
    report = job.audited()
    assert report.clean and [each.results for each in report.codes] == [8, 20]


def test_state_that_was_lost_at_the_tick_is_found(tmp_path: Path) -> None:
    """Ten words, two lines of each before it: as if the new code had begun to count anew."""
    past = ran(lambda item: (item.payload[0], 2 - item.payload[1]))
    assert findings(changed(tmp_path, past, NEGATIVE).audited()) == {"lost": 20, "foreign": 20}


def test_state_goes_on_by_the_first_name_of_its_operation(tmp_path: Path) -> None:
    assert changed(tmp_path, ran(), NEGATIVE, NAMED).audited().clean


def test_an_operation_that_the_old_code_had_not_begins_empty(tmp_path: Path) -> None:
    past = ran(lambda item: (item.payload[0], 2 - item.payload[1]))
    assert changed(tmp_path, past, NEGATIVE, ANEW).audited().clean


def test_from_code_on_that_is_not_at_hand_nothing_is_looked_at(tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    (tmp_path / "words_application.py").write_text(APPLICATION)
    with own_modules():
        del sys.modules["words_application"]
        before = checked_job(job.now.job)
        report = job.audited(kept=False, now=before)
        assert report.clean and report.verdict.delivered == 20
        assert f"from time {TICK + 1} us ({job.new[:12]}) on is not looked at" in sentence(report)
        assert [each.digest for each in report.codes] == [job.old]
        assert job.audited(now=before).verdict.delivered == 40


@pytest.mark.parametrize("damage", ["gone", "edited"])
def test_without_a_whole_copy_of_the_first_code_the_audit_is_refused(damage: str, tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    copy = tmp_path / "code" / job.old / "words_application.py"
    copy.unlink() if damage == "gone" else copy.write_text(APPLICATION + "\n")
    with pytest.raises(UserError, match=f"the job began with {job.old[:12]}.* is not at hand"):
        job.audited()


def test_the_code_of_now_stands_for_all_of_it_if_that_is_said(tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    report = audited(job.now, job.last, kept=tmp_path / "code", changed=True)
    assert findings(report) == {"lost": 20, "foreign": 20} and report.codes == []


def test_code_that_takes_over_while_the_sinks_are_read_is_known(tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    assert job.last.index is not None
    before = msgspec.structs.replace(job.last.index, code=job.last.index.code[:1])
    older, kept = replace(job.last, index=before), tmp_path / "code"
    assert audited(job.now, older, kept=kept, again=lambda: job.last).clean


def test_what_is_older_than_what_is_known_of_code_is_of_the_first(tmp_path: Path) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    assert job.last.index is not None
    _, new = job.last.index.code
    spans = (CodeSpan(run_time(2), job.old), new)
    job.last = replace(job.last, index=msgspec.structs.replace(job.last.index, code=spans))
    report = job.audited()
    assert report.clean and [each.results for each in report.codes] == [20, 20]


def test_a_job_whose_source_is_gone_is_refused_and_none_of_its_results_is_called_foreign(
    tmp_path: Path,
) -> None:
    job = changed(tmp_path, ran(), NEGATIVE)
    known = (KnownFront("lines"), KnownFront("letters", away=True))
    assert job.last.record is not None
    record = msgspec.structs.replace(job.last.record, fronts=known)
    job.last = replace(job.last, record=record)
    with pytest.raises(UserError, match="it has read source 'letters', which the graph of now has not"):
        job.audited()
    never = (known[0], msgspec.structs.replace(known[1], begins=None))
    job.last = replace(job.last, record=msgspec.structs.replace(record, fronts=never))
    assert job.audited().clean, "it has never begun"
