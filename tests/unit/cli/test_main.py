"""The command line as a whole: help, JSON, errors and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flamestream.cli import snapshots
from flamestream.cli.main import command_line, main
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.job.exit_codes import AlreadyRunning, ExitCode, code_of
from flamestream.job.status import JobStatus
from flamestream.job.validation import checked
from flamestream.model import errors
from flamestream.model.time import START, FrontId, Time, Timestamp, time_of
from flamestream.node.kept_code import keep
from flamestream.node.run_folder import RunFolder
from flamestream.store.folder import LocalStore
from support.runs.job_folder import APPLICATION, JobFolder
from support.runs.past_run import going_on

COMMANDS = [
    "run",
    "validate",
    "plan",
    "upgrade",
    "status",
    "ui",
    "query",
    "watch",
    "cat",
    "trace",
    "audit",
    "history",
    "drill",
    "simulate",
    "papers",
    "bootstrap",
    "reset",
    "doctor",
    "ticks",
]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(caught.value.code or 0)


@pytest.mark.parametrize("command", [*COMMANDS, "snapshots list", "snapshots show", "snapshots verify"])
def test_every_command_has_help_with_an_example_and_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command.split(), "--help") == ExitCode.OK
    said = capsys.readouterr().out
    assert "Example" in said
    assert "--json" in said


def test_every_command_is_registered() -> None:
    line = command_line()
    assert [command.name for command in line.registered_commands] == COMMANDS
    assert snapshots.app in [group.typer_instance for group in line.registered_groups]


@pytest.mark.parametrize("command", ["run", "status", "cat", "validate"])
def test_a_command_does_not_wait_for_what_others_need(command: str) -> None:
    of_others = {
        "flamestream.simulation",
        "flamestream.audit.job_audit",
        "pyarrow",
        "pyspark",
        "cryptography",
    }
    code = f"""
import sys
from flamestream.cli.main import main
try:
    main(["{command}", "no-such-job"])
finally:
    print(*sys.modules)
"""
    python = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert python.returncode == ExitCode.USAGE, python.stderr
    assert of_others & set(python.stdout.split()) == set()


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["validate", "--no-such-option", "x"], ["simulate", "--seed", "x"], ["cat", "one"]],
)
def test_a_wrong_command_line_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == ExitCode.USAGE
    assert capsys.readouterr().err


# which need none
@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in ("doctor", "papers", "ui")])
def test_a_command_without_arguments_shows_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == ExitCode.USAGE
    assert "Example" in capsys.readouterr().out


def test_a_status_that_cannot_be_read_is_named(
    job: JobFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "status.json").write_text('{"phase": ')
    assert run("status", job.write(), "--run-folder", tmp_path / "run") == ExitCode.CORRUPT
    assert "status.json is not a status file" in capsys.readouterr().err


def test_a_snapshot_that_goes_while_they_are_listed_is_no_damage(
    job: JobFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "snapshots").mkdir()
    manifest, names = job.write(), [["indexes/000000000001-gone"], []]
    monkeypatch.setattr(LocalStore, "names", lambda *_: names.pop(0))
    assert run("snapshots", "list", manifest) == ExitCode.OK
    assert "no snapshots" in capsys.readouterr().out


def test_an_error_goes_to_stderr_with_its_exit_code(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(workers="{replica: 2}")
    assert run("validate", job.manifest) == ExitCode.USAGE
    said = capsys.readouterr()
    assert not said.out
    assert "job.yaml:9: spec.workers.replica: unknown field, did you mean 'replicas'?" in said.err


def test_with_json_an_error_is_json_on_stdout(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write(workers="{replica: 2}")
    assert run("validate", job.manifest, "--json") == ExitCode.USAGE
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"]["category"] == "user"
    assert "spec.workers.replica" in answer["error"]["message"]


def test_validate_and_plan_say_what_the_job_is(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    assert run("validate", job.manifest) == ExitCode.OK
    assert (
        "job 'upper' can run: lines -> upper (3 operations) -> shouts, exactly-once, 2 workers"
        in capsys.readouterr().out
    )
    assert run("plan", job.manifest) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "0 lines      -> 1",
        "1 map upper  >> 2",
        "2 shouts     sink",
        "1 function runs in Python: ?.str.upper: it has no code that could be looked at",
    ]
    assert run("plan", job.manifest, "--format", "mermaid") == ExitCode.OK
    assert capsys.readouterr().out.startswith("flowchart LR\n")
    assert run("plan", job.manifest, "--json") == ExitCode.OK
    assert [vertex["kind"] for vertex in json.loads(capsys.readouterr().out)["vertices"]] == [
        "source",
        "map",
        "sink",
    ]


def test_validate_and_plan_say_what_calls_ask_with(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    asks = APPLICATION.replace(".map(", ".call(")
    job.write(
        asks, journal="{folder: journal}",
        clients='{stock: {postgres: {dsn: "postgresql://me@db/shop"}}, cache: {redis: {url: "redis://cache"}}}',
    )  # fmt: skip
    for command, says in (("validate", ":"), ("plan", " is")):
        assert run(command, job.manifest) == ExitCode.OK
        assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("client ")] == [
            f"client 'cache'{says} Redis cache:6379/0",
            f"client 'stock'{says} PostgreSQL me@db:5432/shop",
        ]


@pytest.mark.parametrize(
    ("patience", "said"),
    [
        ("", "are decided when they come, or wait, by what is measured: status says which"),
        ("{patience: 0}", "wait until nothing can come before them, and are decided once"),
        ("{patience: 3}", "are decided when they come, 3 times at most before they wait"),
    ],
)
def test_plan_says_when_transactions_are_decided(
    job: JobFolder, capsys: pytest.CaptureFixture[str], patience: str, said: str
) -> None:
    lines, made = 'graph.source("lines")', 'seen = graph.table("seen", initial=int)'
    decided = f"{made}\n{lines}.transact(lambda state, line: state[seen, line]).committed"
    moves = APPLICATION.replace(f"{lines}.map(str.upper)", decided)
    job.write(moves, transactions=patience, journal="{folder: journal}")
    assert run("plan", job.manifest) == ExitCode.OK
    assert f"transactions {said}" in capsys.readouterr().out.splitlines()


def test_status_of_a_job_that_was_never_run(
    job: JobFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.path)
    assert run("status", job.write(), "--json") == ExitCode.UNAVAILABLE
    answer = json.loads(capsys.readouterr().out)
    assert (answer["running"], answer["state"]) == (False, "this job was never run here")


def test_simulate_says_what_the_seeds_showed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--seeds", "0:3", "--json") == ExitCode.OK
    assert sum(json.loads(capsys.readouterr().out)["outcomes"].values()) == 3


def test_other_guarantees_are_simulated_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--seed", "3", "--guarantee", "exactly-once-2pc", "--json") == ExitCode.OK
    assert run("simulate", "--seed", "3", "--guarantee", "at-most-twice") == ExitCode.USAGE
    assert "exactly-once-2pc, at-most-once" in capsys.readouterr().err


def test_a_trace_has_a_line_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--seed", "1", "--trace") == ExitCode.OK
    first = capsys.readouterr().out
    assert run("simulate", "--seed", "1", "--trace") == ExitCode.OK
    again = capsys.readouterr().out
    assert first.splitlines()[:-1] == again.splitlines()[:-1]
    assert len(first.splitlines()) > 100


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ManifestError("x"), 2),
        (errors.GraphError("x"), 2),
        (errors.UserError("x"), 1),
        (AlreadyRunning("x"), 4),
        (errors.Fenced("x"), 4),
        (errors.StoreUnavailable("x"), 5),
        (errors.ClusterStateUnavailable("x"), 5),
        (errors.Corrupt("x"), 6),
        (errors.Bug("x"), 70),
    ],
)
def test_each_category_of_errors_has_its_exit_code(error: errors.FlameStreamError, code: int) -> None:
    assert code_of(error) == code


def test_ticks_say_since_when_each_code_makes_the_results(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, folder = job.write(), RunFolder(job.path / ".flamestream" / "upper").made()
    monkeypatch.chdir(job.path)
    now = checked(manifest)
    keep(folder.code, now.application, now.code)
    tick = time_of(Timestamp(1_764_208_800_000_000), FrontId(3))
    index = going_on().index()
    assert index is not None
    spans = (CodeSpan(START, "a" * 64), CodeSpan(Time(9 << 12), "b" * 64))
    committed = msgspec.structs.replace(index, job="upper", cut=tick, code=spans)
    LocalStore(job.path / "snapshots", create=True).put_new(
        "indexes/000000000007-1-x", msgspec.json.encode(committed)
    )
    folder.write("status.json", JobStatus(job="upper", pid=1, updated=0, phase="finished", code=now.code))
    assert run("ticks", manifest) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "code aaaaaaaaaaaa from the beginning on  no copy is kept",
        "code bbbbbbbbbbbb from cut 36864 on  no copy is kept",
        f"code {now.code[:12]} from cut {tick} on  2025-11-27T02:00:00.000Z  kept",
    ], "code that has committed nothing yet goes on from the cut"
    assert run("ticks", manifest, "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)[2] == {
        "cut": tick, "when": "2025-11-27T02:00:00.000Z", "code": now.code, "kept": True, "runs": False,
    }  # fmt: skip
