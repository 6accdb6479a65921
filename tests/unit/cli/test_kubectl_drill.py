"""`kubectl flamestream drill`: follows a drill to its verdict, and ends also where nobody carries one out."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flamestream.cli.kubectl import drill
from flamestream.cli.kubectl.drill import TAKEN_UP_WITHIN, followed
from flamestream.cli.kubectl.main import main
from flamestream.job.drills.status import DrillStatus, FaultResult
from flamestream.job.exit_codes import ExitCode
from flamestream.model.errors import Retryable, UserError

RUNNING = DrillStatus(phase="Running", started_at="now")
PASSED = DrillStatus(phase="Passed", reason="Clean", message="2 of 2 faults took place")
LONGEST = 600.0
Look = Callable[[], DrillStatus | None]


class Following:
    """`followed` in virtual time. `told` are the faults, `removed` whether the drill was."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[str] = []
        self.removed = False

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def remove(self) -> None:
        self.removed = True

    def run(self, look: Look) -> DrillStatus:
        return followed(
            look,
            self.remove,
            lambda fault: self.told.append(fault.victim),
            LONGEST,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


def faults(count: int, kept: int = 50) -> list[FaultResult]:
    return [FaultResult(victim=f"v{number}", time="t", recovered_ms=1) for number in range(count)][-kept:]


def test_a_drill_that_nobody_takes_up_ends_is_removed_and_names_the_charts_value() -> None:
    following = Following()
    status = following.run(lambda: None)
    assert (status.reason, following.removed) == ("DrillsOff", True)
    assert "operator.drills=true" in status.message
    assert TAKEN_UP_WITHIN < following.now < TAKEN_UP_WITHIN + 5


def test_each_fault_is_told_once_also_behind_the_newest_50() -> None:
    seen = iter(
        [
            RUNNING,
            *(DrillStatus(phase="Running", done=done, faults=faults(done)) for done in (0, 1, 1, 3, 60)),
            PASSED,
        ]
    )
    following = Following()
    assert following.run(lambda: next(seen)) == PASSED
    assert (
        following.told[:3] == ["v0", "v1", "v2"]
        and following.told[-1] == "v59"
        and len(set(following.told)) == len(following.told)
    )


def test_a_drill_that_is_deleted_meanwhile_is_over() -> None:
    def look() -> DrillStatus:
        if following.now > 5:
            raise UserError('Error from server (NotFound): flamestreamdrills "d" not found')
        return RUNNING

    following = Following()
    assert following.run(look).reason == "DrillDeleted"


def test_an_operator_that_writes_nothing_more_is_not_waited_for_for_ever() -> None:
    following = Following()
    status = following.run(lambda: RUNNING)
    assert (status.phase, status.reason, following.removed) == ("Inconclusive", "Stalled", False)
    assert LONGEST < following.now < LONGEST + 5


def test_a_cluster_that_does_not_answer_for_a_while_changes_nothing() -> None:
    def look() -> DrillStatus:
        if 5 < following.now < 100:
            raise Retryable("the cluster does not answer")
        return RUNNING if following.now < 110 else PASSED

    following = Following()
    assert following.run(look) == PASSED


def test_a_cluster_that_never_answers_again_is_given_up() -> None:
    def look() -> DrillStatus:
        if following.now > 5:
            raise Retryable("the cluster does not answer")
        return RUNNING

    following = Following()
    assert following.run(look).reason == "Stalled"


def test_what_is_no_answer_of_the_drill_is_an_error() -> None:
    def look() -> DrillStatus:
        raise UserError("forbidden")

    with pytest.raises(UserError, match="forbidden"):
        Following().run(look)


# --- the whole command, with a kubectl of the test's --------------------------------------------------------

KUBECTL = """\
#!{python}
import json, pathlib, sys
place, words = pathlib.Path(__file__).parent, [word for word in sys.argv[1:] if word not in ("-n", "space")]
with (place / "said").open("a") as said:
    said.write(json.dumps(words) + "\\n")
if words[:2] == ["get", "flamestreamjobs.flamestream.dev"]:
    if not (place / "job").exists():
        sys.exit('Error from server (NotFound): flamestreamjobs.flamestream.dev "j" not found')
    print('{{"metadata": {{"name": "j"}}}}')
elif words[0] == "create":
    spec = json.load(sys.stdin)
    (place / "made").write_text(json.dumps(spec))
    print('{{"metadata": {{"name": "j-drill-1"}}}}')
elif words[:2] == ["get", "flamestreamdrills.flamestream.dev"]:
    print((place / "drill").read_text())
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "job").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(drill, "POLL", 0.0)
    return tmp_path


def ended(kubectl: Path, *words: str, status: dict[str, Any] | None = None) -> int:
    (kubectl / "drill").write_text(
        json.dumps({"metadata": {"name": "j-drill-1"}, **({"status": status} if status else {})})
    )
    with pytest.raises(SystemExit) as caught:
        main(["drill", "j", "-n", "space", *words])
    return int(caught.value.code or 0)


VERDICTS = [
    ("Passed", "Clean", ExitCode.OK),
    ("Failed", "NotClean", ExitCode.DIFFERENCE),
    ("Failed", "OutputStopped", ExitCode.DIFFERENCE),
    ("Inconclusive", "Idle", ExitCode.UNPROVEN),
    ("Inconclusive", "Completed", ExitCode.UNPROVEN),
    ("Inconclusive", "JobDeleted", ExitCode.UNAVAILABLE),
]


@pytest.mark.parametrize(("phase", "reason", "code"), VERDICTS)
def test_a_verdict_is_said_with_its_reason_and_its_code(
    kubectl: Path, capsys: pytest.CaptureFixture[str], phase: str, reason: str, code: ExitCode
) -> None:
    assert ended(kubectl, status={"phase": phase, "reason": reason, "message": "why", "done": 0}) == code
    shown = "Passed: why" if reason == "Clean" else f"{phase} ({reason}): why"
    assert shown in capsys.readouterr().out
    assert ended(kubectl, "--json", status={"phase": phase, "reason": reason, "message": "why"}) == code
    assert json.loads(capsys.readouterr().out)["reason"] == reason


def test_a_job_that_is_not_there_is_said_before_anything_is_made(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kubectl / "job").unlink()
    assert ended(kubectl) == ExitCode.USAGE
    assert "JobNotFound" in capsys.readouterr().out and not (kubectl / "made").exists()


def test_drills_that_are_switched_off_are_noticed(
    kubectl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drill, "TAKEN_UP_WITHIN", 0.0)
    assert ended(kubectl) == ExitCode.UNAVAILABLE
    assert "operator.drills=true" in capsys.readouterr().out
    assert json.loads((kubectl / "said").read_text().splitlines()[-1])[:3] == [
        "delete",
        drill.KIND,
        "j-drill-1",
    ]


FAULTS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {"target": "worker", "action": "kill"}),
    (["--kill", "executor"], {"target": "executor", "action": "kill"}),
    (["--delete", "driver"], {"target": "driver", "action": "delete"}),
    (["--pause", "node", "--for", "5s"], {"target": "node", "action": "pause", "pauseFor": "5s"}),
    (
        ["--cut", "store", "--selector", "app=s3", "--in", "system"],
        {"target": "store", "action": "cut", "targetSelector": {"app": "s3"}, "targetNamespace": "system"},
    ),
]


@pytest.mark.parametrize(("words", "fault"), FAULTS)
def test_every_fault_can_be_asked_for(kubectl: Path, words: list[str], fault: dict[str, Any]) -> None:
    given = {"phase": "Passed", "reason": "Clean", "message": ""}
    assert (
        ended(kubectl, *words, "--times", "3", "--timeout", "1m", "--no-audit", status=given) == ExitCode.OK
    )
    made = json.loads((kubectl / "made").read_text())
    assert made["spec"] == {"job": "j", "fault": fault, "times": 3, "timeout": "1m", "audit": False}


MEANINGLESS = [
    (["--kill", "worker", "--cut", "node"], "one of"),
    (["--selector", "app"], "LABEL=VALUE"),
    (["--kill", "worker", "--for", "5s"], "gone at once"),
]


@pytest.mark.parametrize(("words", "said"), MEANINGLESS)
def test_a_command_line_that_means_nothing_is_refused(
    kubectl: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:  # fmt: skip
    assert ended(kubectl, *words) == ExitCode.USAGE
    assert said in capsys.readouterr().err and not (kubectl / "made").exists()
