"""A connector of another package, found by its entry point: every command takes it as one of ours."""

import os
from pathlib import Path

import pytest

from support.runs.cli_job import ENVIRONMENT, CliJob, explained
from support.shelf import installed

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("shelf")
counts = graph.source("books").reduce(key=str, initial=lambda: ("", 0), combine=lambda old, word: (word, old[1] + 1))
counts.sink("counts")
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliJob:
    """Its places are relative to the manifest."""
    path = [str(installed(tmp_path / "site")), ENVIRONMENT["PYTHONPATH"]]
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", os.pathsep.join(path))
    (tmp_path / "shelf_application.py").write_text(APPLICATION)
    (tmp_path / "books.txt").write_text("\n".join(["a", "b", "a"] * 5))
    ends = {
        "sources": {"books": {"shelf": {"path": "books.txt"}}},
        "sinks": {"counts": {"shelf": {"path": "out"}}},
    }
    return CliJob(tmp_path, tmp_path / "shelf_application.py", ends, spark=False)


def test_validate_plan_run_cat_and_audit_take_it(job: CliJob) -> None:
    for command in ("validate", "plan"):
        code, told = job.ask(command, str(job.manifest))
        assert code == 0, told
    with explained(job):
        job.start()
        assert job.end()[0] == 0
        assert job.audit()["clean"]
    assert (job.path / "out" / "sink.msgpack").exists()


def test_an_error_in_its_settings_has_its_place(job: CliJob) -> None:
    job.manifest.write_text(job.manifest.read_text().replace('"path": "books.txt"', '"folder": "books.txt"'))
    code, told = job.ask("validate", str(job.manifest))
    assert code != 0
    assert "spec.sources.books.shelf" in str(told)
    assert "unknown field `folder`" in str(told)
