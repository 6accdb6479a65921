"""The canary: both codes give what they would for the same records, each in a process that has its modules alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.audit import canary_run, canary_start
from flamestream.audit.canary import Canary, Pace, compared, in_words
from flamestream.audit.canary_run import Code, canary
from flamestream.audit.canary_steps import Outcome, Tried
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.application_code import code_of
from flamestream.job.journal_of import journal_of
from flamestream.job.settings import inventory
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch
from flamestream.model.payload import encode
from flamestream.model.payloads.state import encode_state
from flamestream.model.time import Time
from flamestream.node.kept_code import keep
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of
from flamestream.store.snapshots import put_segment
from support.runs.past_run import Kind, going_on, own_modules, slot_of_word

COMMITTED = 6
"""Runs below the cut."""
NEGATIVE = (": (line.split()[0], count)", ": (line.split()[0], -count)")
NO_PACE = Pace(0.0, 1)


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    with own_modules():
        yield


class Job:
    """A job that has committed COMMITTED runs of four lines, and recorded four runs more; and its next code."""

    def __init__(
        self, folder: Path, *edits: tuple[str, str], kind: Kind = "followed", lines: int = 40
    ) -> None:
        past = going_on(kind, lines, committed=COMMITTED)
        self.folder, sink = folder, {"files": {"path": str(folder / "out"), "fsync": False}}
        first = past.leave(folder, sink)
        self.old = first.code
        keep(folder / "code", first.application, self.old)
        found = past.index()
        assert found is not None
        self.index: SnapshotIndex | None = self._with_state(
            first, msgspec.structs.replace(found, inventory=inventory(first)), past.length
        )
        self.now = past.edited(first, edits)

    def _with_state(self, first: CheckedJob, index: SnapshotIndex, length: int) -> SnapshotIndex:
        """Each word was counted in the runs below the cut: ten words, one behind the other."""
        (operation,) = first.graph.operations
        words = [line.split()[0] for line in (self.folder / "in/lines.txt").read_text().splitlines()]
        below = words[: COMMITTED * length]
        rows = [
            Row(
                operation.number,
                slot_of_word(word),
                encode(word),
                Epoch(7),
                True,
                encode_state(below.count(word)),
            )
            for word in dict.fromkeys(below)
        ]
        store = LocalStore(self.folder / "snapshots", create=True, durable=False)
        return msgspec.structs.replace(index, segments=(put_segment(store, "segments/one", table_of(rows)),))

    def before(self) -> Code:
        spec = self.now.job.spec
        return Code(
            file=self.folder / "code" / self.old / self.now.application.name, digest=self.old,
            graph=spec.application.graph, py_files=(), calls={},
        )  # fmt: skip

    def canary(self, most: int | None = None, before: Callable[[], Code] | None = None) -> Canary:
        return canary(
            self.now, before or self.before, lambda: self.index, journal_of(self.now.job), most=most
        )


# --- two processes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "lines", "behind"), [("followed", 40, 16), ("timed", 640, 256)])
def test_each_code_has_its_own_modules_and_the_state_below_the_cut(
    kind: Kind, lines: int, behind: int, tmp_path: Path
) -> None:
    """The module has one name and two contents, and each word's count goes on where the cut has left it."""
    job = Job(tmp_path, NEGATIVE, kind=kind, lines=lines)
    assert code_of(job.now.application) != job.old
    found = job.canary()
    assert (found.untried, found.records) == ("", behind)
    assert (found.differ, found.equal, found.only_before, found.only_after) == (behind, 0, 0, 0)
    for each in found.differences:
        word, count = eval(each.before or "")  # noqa: S307  what a repr has
        assert (each.after, count > 1) == (repr((word, -count)), True)


def test_an_edit_without_an_effect_differs_nowhere(tmp_path: Path) -> None:
    found = Job(tmp_path, ("words.sink", "# edited\nwords.sink")).canary()
    assert (found.equal, found.differs, found.refusal) == (16, False, "")


def test_no_more_records_are_taken_than_are_asked_for(tmp_path: Path) -> None:
    assert Job(tmp_path, NEGATIVE).canary(most=8).differ == 8


def test_results_of_another_graph_are_compared_by_the_record_that_they_came_of(tmp_path: Path) -> None:
    twice = ('words.sink("counts"', 'words.flat_map(lambda pair: [pair, pair]).sink("counts"')
    found = Job(tmp_path, twice).canary()
    assert (found.equal, found.differ, found.only_before, found.only_after) == (16, 0, 0, 16)


def test_state_of_another_version_is_read_through_its_migration(tmp_path: Path) -> None:
    edits = (
        ("initial=int", "initial=lambda: (0, 0), version=2, migrate={1: lambda count: (count, 0)}"),
        ("count + 1", "(count[0] + 1, count[1] + 1)"),
        (": (line.split()[0], count)", ": (line.split()[0], count[0])"),
    )
    assert Job(tmp_path, *edits).canary().equal == 16


def test_an_error_that_only_the_new_code_gives_refuses_it(tmp_path: Path) -> None:
    found = Job(tmp_path, ("count + 1", "count + 1 // (len(line) - 6)")).canary()
    assert found.new_errors and found.errors_before == 0
    assert "ZeroDivisionError" in found.refusal and "upgrade.canary: 0" in found.refusal


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (("count + 1", "__import__('os')._exit(3)"), "ended with exit code 3"),
        (("count + 1", "[*iter(int, 1)]"), "has not come to an end in 10 s"),
    ],
    ids=["it ends its process", "it never ends"],
)  # fmt: skip
def test_new_code_that_does_not_survive_is_refused(
    edit: tuple[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary_run, "AT_MOST", 10.0)
    found = Job(tmp_path, edit).canary()
    assert reason in found.failed and reason in found.refusal


# --- what cannot be tried is said, and refuses nothing ------------------------------------------------------


def gone() -> Code:
    raise UserError("no copy of the code before is there")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda job: setattr(job, "index", None), "has saved nothing yet"),
        (lambda job: setattr(job, "before", gone), "no copy of the code before"),
        (lambda job: (job.folder / "code" / job.old / "words_application.py").write_text("x = 1"), "with code"),
        (lambda job: setattr(job, "index", msgspec.structs.replace(job.index, inventory=None)), "older release"),
        (lambda job: (job.folder / "snapshots/segments/one").unlink(), "is missing"),
        (lambda job: (job.folder / "in/lines.txt").write_text(""), "cannot be read again"),
        (lambda job: setattr(job, "now", spec_of(job.now, guarantee="none")), "nothing is saved"),
        (lambda job: setattr(job, "now", spec_of(job.now, guarantee="strong-productions")), "strong-productions"),
    ],
)  # fmt: skip
def test_an_obstacle_is_a_reason_and_no_refusal(
    damage: Callable[[Job], Any], reason: str, tmp_path: Path
) -> None:
    job = Job(tmp_path, NEGATIVE)
    damage(job)
    found = job.canary()
    assert reason in found.untried and not found.refusal
    assert in_words(found) == [f"canary: nothing is tried: {found.untried}"]


def spec_of(checked: CheckedJob, **fields: Any) -> CheckedJob:
    job = checked.job
    return replace(
        checked, job=msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **fields))
    )


def test_none_is_made_where_the_spec_says_none(tmp_path: Path) -> None:
    assert "canary is 0" in Job(tmp_path, NEGATIVE).canary(most=0).untried


def test_a_snapshot_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary_start, "MOST_STATE", 10)
    assert "MiB" in Job(tmp_path, NEGATIVE).canary().untried


def test_a_commit_while_it_begins_begins_it_anew(tmp_path: Path) -> None:
    """Behind a commit the journal may have been trimmed: what was read is not used."""
    job = Job(tmp_path, NEGATIVE)
    assert job.index is not None
    later = msgspec.structs.replace(job.index, epoch=Epoch(8))
    looks = [job.index, later, later, later]
    begun = canary_start.start(
        job.now, "words", journal_of(job.now.job), lambda: looks.pop(0), 16, tmp_path / "copy"
    )
    assert (begun.epoch, begun.journalled) == (8, 16)


def test_a_source_with_an_order_of_its_own_is_as_fast_as_snapshots_say_meanwhile(tmp_path: Path) -> None:
    """No journal says when its records came."""
    slow = (NEGATIVE[0], ": (line.split()[0], __import__('time').sleep(0.002) or count)")
    job = Job(tmp_path, slow, kind="timed", lines=640)
    assert job.index is not None
    assert not any("slower" in note for note in job.canary(most=16).notes), "nothing has come"
    fronts = [msgspec.structs.replace(each, records=each.records + 100_000_000) for each in job.index.fronts]
    looks = [job.index, job.index, msgspec.structs.replace(job.index, fronts=tuple(fronts))]
    found = canary(job.now, job.before, lambda: looks.pop(0), journal_of(job.now.job), most=16)
    assert any("slower than the stream" in note for note in found.notes), found


# --- the comparison -----------------------------------------------------------------------------------------


def row(record: int, value: str, index: int = 0, sink: str = "out") -> Outcome:
    return Outcome(Time(record), 0, sink, index, value.encode(), value, f"record {record} of lines")


def given(*values: str, until: int = 100, **fields: Any) -> Tried:
    """A result of each record, in order."""
    rows = [row(number, value) for number, value in enumerate(values)]
    return Tried(results=rows, until=Time(until), **{"records": len(values), "micros": 10.0} | fields)


def test_results_are_equal_other_or_there_once() -> None:
    before, after = given("a", "b", "c"), given("a", "x")
    after.results.append(row(9, "new"))
    found = compared(before, after, NO_PACE)
    assert (found.equal, found.differ, found.only_before, found.only_after) == (1, 1, 1, 1)
    assert [(each.record, each.before, each.after) for each in found.differences] == [
        ("record 1 of lines", "b", "x"),
        ("record 2 of lines", "c", None),
        ("record 9 of lines", None, "new"),
    ]
    assert not found.refusal, "what differs is what new code is for"


def test_examples_are_bounded() -> None:
    assert len(compared(given(*"abcdefghij"), given(*"ABCDEFGHIJ"), NO_PACE).differences) == 5


def test_only_what_both_have_come_to_is_compared() -> None:
    found = compared(given("a", "b", "c"), given("a", until=1), NO_PACE)
    assert (found.equal, found.only_before, found.records) == (1, 0, 1)
    assert "has come to 1 of 3 records" in found.notes[0]


def test_errors_count_by_record_and_those_of_before_do_not_refuse() -> None:
    before, after = given("a", errors=[row(1, "E")]), given("a", errors=[row(1, "F")])
    assert not compared(before, after, NO_PACE).refusal
    after.errors.append(row(3, "ZeroDivisionError"))
    found = compared(before, after, NO_PACE)
    assert (found.errors_before, found.errors_after, found.new_errors) == (1, 2, 1)
    assert "has 1 error that the code before does not give" in found.refusal
    assert "ZeroDivisionError of record 3 of lines" in found.refusal


@pytest.mark.parametrize(
    ("micros", "rate", "slow"),
    [(300.0, 10_000, True), (300.0, 5_000, False), (300.0, 0, False), (10.0, 1e6, False)],
)
def test_code_that_is_slower_than_the_stream_is_called_so(micros: float, rate: float, slow: bool) -> None:
    """Two workers have 200 us a record at 10,000 a second. What is as slow as the code that runs keeps up as that
    does."""
    notes = compared(given("a"), given("a", micros=micros), Pace(rate, 2)).notes
    assert any("slower than the stream" in note for note in notes) == slow


def test_requests_that_nobody_has_answered_are_told() -> None:
    note = compared(given("a", unanswered=1), given("a", unanswered=3), NO_PACE).notes[0]
    assert "3 requests of the new code (1 before) have no answer in the journal" in note


def test_an_operation_that_finds_none_of_its_state_is_refused_if_enough_keys_say_so() -> None:
    def tried(*keys: int) -> Tried:
        return Tried(until=Time(9), records=9, keys={"sums": [bytes([key]) for key in keys]})

    found = compared(tried(1, 2, 3), tried(4, 5, 6), Pace(0.0, 1))
    assert found.other_keys == ("sums",) and "keeps its state by other keys" in found.refusal
    for others in (tried(3, 4, 5), tried(4, 5), tried()):
        assert not compared(tried(1, 2, 3), others, Pace(0.0, 1)).refusal
