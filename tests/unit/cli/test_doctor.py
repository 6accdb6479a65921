"""`flamestream doctor`: a line for each finding, and an exit code that says whether a job could run."""

import json
from pathlib import Path

import pytest

from flamestream.cli import doctor
from flamestream.cli import run as run_command
from flamestream.cli.main import main
from flamestream.job.exit_codes import ExitCode
from flamestream.machine.examination import Finding
from support.runs.job_folder import JobFolder


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", *arguments])
    return int(caught.value.code or 0)


def test_this_machine_is_examined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path), "--json") == ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    assert said["healthy"] is True
    assert {"python", "kernel", "spark", "java", "processors", "open files", "disk"} <= {
        each["what"] for each in said["findings"]
    }


@pytest.mark.parametrize(("state", "code"), [("slow", ExitCode.OK), ("missing", ExitCode.JOB_FAILED)])
def test_what_is_missing_has_an_exit_code_and_what_is_slow_has_none(
    state: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examined", lambda _: [Finding("java", "none", state, "install one")])  # type: ignore[arg-type]
    assert run() == code
    said = capsys.readouterr().out
    assert "java" in said and state in said and "install one" in said


def test_a_run_without_the_kernel_says_so_once(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it starts anything: here it is then refused for its options."""
    monkeypatch.setattr(run_command, "kernel", None)
    monkeypatch.setattr(run_command, "WHY_NOT", "this installation was built without it")
    with pytest.raises(SystemExit):
        main(["run", str(job.write()), "--runner", "batch", "--drain"])
    assert (
        capsys.readouterr().err.count("warning: no native kernel: this installation was built without it")
        == 1
    )
