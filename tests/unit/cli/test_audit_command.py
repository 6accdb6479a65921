"""`cat` and `audit` on what a files sink holds."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from flamestream.cli.main import main
from flamestream.connectors.kit.folder import Writing
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.fenced.fences import FencedFolder
from flamestream.job.exit_codes import ExitCode
from flamestream.job.validation import checked
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.meta import Meta
from flamestream.model.payload import encode, encode_items
from flamestream.model.slot import slot_of
from flamestream.model.time import END
from flamestream.reference import interpret
from support.runs.job_folder import JobFolder
from support.runs.recorded import recorded_runs

FENCE = Fence(Attempt(1), LayoutVersion(1))
Items = list[tuple[Meta, Any]]


def deliver(job: JobFolder, change: Callable[[Items], Items] = list) -> None:
    """Give the sink what the reference gives, after `change`, an item a bundle."""
    accepted = checked(job.manifest)
    results = interpret(accepted.graph, recorded_runs(accepted, END))
    writing = Writing(FencedFolder(job.path / "out"), False, "upper", SinkName("shouts"), WorkerId("w"))
    writing.open(OpenSink(FENCE, SinkName("shouts"), [Slot(slot) for slot in range(256)]))
    sequences: dict[Slot, int] = {}
    for number, (meta, value) in enumerate(change(results["shouts"]), 1):
        slot = slot_of(encode(value), 256)
        sequences[slot] = sequences.get(slot, 0) + 1
        bundle = Bundle(slot, SequenceNumber(sequences[slot]), meta, encode_items([(meta, value)]))
        writing.deliver(Deliver(FENCE, SinkName("shouts"), number, [bundle]))
    writing.close()


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(caught.value.code or 0)


def completed(job: JobFolder) -> None:
    has_run(job, "finished", "completed")


def has_run(job: JobFolder, phase: str = "running", outcome: str = "") -> None:
    folder = job.path / ".flamestream" / "upper"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(
        f'{{"job": "job", "pid": 1, "updated": 0, "phase": "{phase}", "outcome": "{outcome}"}}'
    )


@pytest.fixture(autouse=True)
def in_the_jobs_folder(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job.path)


def test_cat_prints_the_items_in_the_total_order(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    deliver(job)
    assert run("cat", "shouts", job.manifest) == ExitCode.OK
    assert capsys.readouterr().out == '"A"\n"B"\n"C"\n'


def test_cat_with_places_says_where_each_item_is(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    deliver(job)
    assert run("cat", "shouts", job.manifest, "--json", "--limit", "1") == ExitCode.OK
    assert json.loads(capsys.readouterr().out) | {"slot": 0} == {
        "time": 1, "front": 0, "meta": "000000000000100000", "slot": 0, "bundle": 1, "payload": "A"
    }  # fmt: skip


def test_cat_of_an_unknown_sink_names_those_that_are_there(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cat", "nothing", job.write()) == ExitCode.USAGE
    assert "there is no sink 'nothing'; it has shouts" in capsys.readouterr().err


def test_a_sink_that_never_got_anything_is_an_error(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cat", "shouts", job.write()) == ExitCode.CORRUPT
    assert "has the job run?" in capsys.readouterr().err


def test_an_audit_of_everything_is_clean(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    deliver(job)
    completed(job)
    assert run("audit", job.manifest) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "3 records, 3 results, 0 lost, 0 doubled, 0 reordered",
        "bounds: all results had to be there, since the job has completed",
        "input: lines (3) read again from the source",
    ]


def test_an_audit_finds_what_a_completed_job_has_lost(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write()
    deliver(job, lambda items: items[:2])
    completed(job)
    assert run("audit", job.manifest, "--json") == ExitCode.DIFFERENCE
    report = json.loads(capsys.readouterr().out)
    assert (report["clean"], report["verdict"]["lost"]) == (False, 1)
    assert report["verdict"]["first_difference"].startswith("lost in sink 'shouts': 'C'")


def test_without_a_commit_nothing_is_due_and_the_verdict_says_so(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write()
    has_run(job)
    deliver(job, lambda items: items[:2])
    assert run("audit", job.manifest) == ExitCode.OK
    said = capsys.readouterr().out
    assert said.startswith("3 records, 2 results, 0 lost, 0 doubled, 0 reordered, 1 results not due yet\n")
    assert "bounds: no results had to be there, since no epoch is committed; the job has not ended" in said


def test_an_audit_finds_doubled_and_foreign_items(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    deliver(job, lambda items: [*items, items[-1], (Meta(items[-1][0] + b"\x07"), "X")])
    completed(job)
    assert run("audit", job.manifest, "--json") == ExitCode.DIFFERENCE
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert (verdict["lost"], verdict["doubled"], verdict["foreign"]) == (0, 1, 1)
