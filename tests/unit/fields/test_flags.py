"""Every argument and option of every command of `flamestream` has an effect, or is refused; and every command
answers as JSON."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flamestream.audit.job_audit import audited_here
from flamestream.audit.report import Report
from flamestream.audit.topic_history import Written
from flamestream.cli import bootstrap, drill, history
from flamestream.cli.main import command_line, main
from flamestream.job.drills.status import DrillStatus
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest import Job
from flamestream.live import client
from flamestream.live.kept_changes import Change
from flamestream.model.errors import Bug
from flamestream.ui import serving
from support.fields import parameters
from support.runs.cli_job import ENVIRONMENT
from support.runs.command_lines import Said, StandInLauncher, Terminal, without

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("upper")
graph.source("lines").map(str.upper).reduce(
    name="last", key=str, initial=str, combine=lambda before, line: line
).sink("shouts")
"""
SPEC = """\
  sources: {lines: {files: {path: lines.txt, records: lines}}}
  sinks: {shouts: {files: {path: out, fsync: false}}}
  workers: {replicas: 1, slots: 4}
  checkpoint: {interval: 20ms, store: snapshots}
"""
HEAD = "apiVersion: flamestream.dev/v1alpha1\nkind: FlameStreamJob\n"


@dataclass(frozen=True, slots=True)
class Line:
    """A command, and what is added to it; `sees` says where the difference is: out, calls, code or a file
    that appears."""

    parameter: str
    before: str
    after: str
    sees: str = "out"
    refused: str = ""

    def __str__(self) -> str:
        return self.after


APP = command_line()
LINES = [
    Line("run MANIFEST", "run job.yaml", "run other.yaml", "calls"),
    Line("run --drain", "run job.yaml", "run job.yaml --drain", "calls"),
    Line(
        "run --drain",
        "",
        "run job.yaml --drain --runner batch",
        refused="--drain is not of the batch runner",
    ),
    Line(
        "run --drain",
        "run job.yaml --runner micro-batch",
        "run job.yaml --runner micro-batch --drain",
        "calls",
    ),
    Line("run --run-folder", "run job.yaml", "run job.yaml --run-folder elsewhere", "calls"),
    Line("run --changed", "run job.yaml", "run job.yaml --changed", "calls"),
    Line("run --debug", "run job.yaml", "run job.yaml --debug", "calls"),
    Line("run --runner", "run job.yaml", "run job.yaml --runner batch", "calls"),
    Line("run --runner", "run job.yaml", "run job.yaml --runner micro-batch", "calls"),
    Line("run --runner", "run micro.yaml", "run micro.yaml --runner streaming", "calls"),
    Line("run --no-spark", "run job.yaml", "run job.yaml --no-spark", "calls"),
    Line(
        "run --no-spark",
        "",
        "run job.yaml --no-spark --runner batch",
        refused="--no-spark is not of the batch runner",
    ),
    Line("reset JOB", "reset job.yaml", "reset micro.yaml"),
    Line("reset --run-folder", "reset job.yaml", "reset job.yaml --run-folder nowhere"),
    Line("reset --yes", "reset other.yaml", "reset other.yaml --yes"),
    Line("reset --yes", "", "reset other.yaml --json", refused="say --yes too"),
    Line("validate MANIFEST", "validate job.yaml", "validate other.yaml"),
    Line("plan MANIFEST", "plan job.yaml", "plan other.yaml"),
    Line("plan --format", "plan job.yaml", "plan job.yaml --format mermaid"),
    Line("plan --format", "", "plan job.yaml --format text --json", refused="leave one of them out"),
    Line("upgrade MANIFEST", "upgrade job.yaml --json", "upgrade other.yaml --json"),
    Line("upgrade --run-folder", "upgrade job.yaml --json", "upgrade job.yaml --json --run-folder elsewhere"),
    Line("ticks JOB", "ticks job.yaml", "ticks other.yaml", "code"),
    Line("ticks --run-folder", "ticks job.yaml --json", "ticks job.yaml --json --run-folder elsewhere"),
    Line("upgrade --diff", "upgrade job.yaml --json", "upgrade job.yaml --json --diff"),
    Line("upgrade --plan", "upgrade job.yaml --json", "upgrade job.yaml --json --plan"),
    Line(
        "upgrade --timeout",
        "",
        "upgrade job.yaml --timeout 0",
        refused="Input should be greater than or equal to 1",
    ),
    Line("status JOB", "status job.yaml", "status other.yaml"),
    Line("status --run-folder", "status job.yaml", "status job.yaml --run-folder elsewhere"),
    Line(
        "status --run-folder",
        "",
        "status .flamestream/upper --run-folder elsewhere",
        refused="is a run folder already",
    ),
    Line("doctor FOLDER", "doctor", "doctor nowhere", "code"),
    Line("query JOB", "query job.yaml last['A']", "query other.yaml last['A']"),
    Line("query ROWS", "query job.yaml last['A']", "query job.yaml last['B']"),
    Line("query ROWS", "", "query job.yaml first['A']", refused="keeps nothing named 'first'"),
    Line("query --at", "query job.yaml last['A']", "query job.yaml last['A'] --at strict"),
    Line(
        "query --at",
        "",
        "query job.yaml last['A'] --at strict",
        refused="has no port for queries: add queries:",
    ),
    Line(
        "query --at",
        "",
        "query micro.yaml last['A'] --at stale",
        refused='micro-batches, which have no worker that could be asked: ask at="committed"',
    ),
    Line("query --at-least", "query job.yaml last['A']", f"query job.yaml last['A'] --at-least {2**64}"),
    Line("query --prefix", "query job.yaml last", "query job.yaml last --prefix B"),
    Line("query --limit", "query job.yaml last", "query job.yaml last --limit 1"),
    Line("query --cursor", "query job.yaml last", "query job.yaml last --cursor oUE="),
    Line(
        "query --prefix",
        "",
        "query job.yaml last['A'] --prefix B",
        refused="are of a page: give a name alone",
    ),
    Line("query --run-folder", "query job.yaml last['A']", "query job.yaml last['A'] --run-folder elsewhere"),
    Line("watch JOB", "watch job.yaml last['A']", "watch other.yaml last['A']", "calls"),
    Line("watch ROW", "watch job.yaml last['A']", "watch job.yaml last['B']", "calls"),
    Line("watch ROW", "", "watch job.yaml last", refused="is no row: write NAME[KEY]"),
    Line("watch --after", "watch job.yaml last['A']", "watch job.yaml last['A'] --after 3", "calls"),
    Line("watch --limit", "watch job.yaml last['A']", "watch job.yaml last['A'] --limit 1"),
    Line(
        "watch --run-folder",
        "watch job.yaml last['A']",
        "watch job.yaml last['A'] --run-folder elsewhere",
        "calls",
    ),
    Line("ui JOB", "ui", "ui job.yaml", "calls"),
    Line("ui --listen", "ui", "ui --listen 127.0.0.1:0", "calls"),
    Line("ui --actions", "ui", "ui --actions", "calls"),
    Line("ui --run-folder", "ui job.yaml", "ui job.yaml --run-folder elsewhere", "calls"),
    Line("ui --run-folder", "", "ui --run-folder elsewhere", refused="--run-folder is of a manifest's job"),
    Line("cat SINK", "cat shouts job.yaml", "cat nothing job.yaml", "code"),
    Line("cat JOB", "cat shouts job.yaml", "cat shouts other.yaml"),
    Line("cat --limit", "cat shouts job.yaml", "cat shouts job.yaml --limit 1"),
    Line("trace JOB", "trace job.yaml A", "trace other.yaml A", "code"),
    Line("trace TEXT", "trace job.yaml A", "trace job.yaml B"),
    Line("trace --sink", "trace job.yaml A", "trace job.yaml A --sink nothing", "code"),
    Line("trace --limit", 'trace job.yaml "', 'trace job.yaml " --limit 1'),
    Line("trace --run-folder", "trace job.yaml A", "trace job.yaml A --run-folder elsewhere", "code"),
    Line("audit JOB", "audit job.yaml", "audit other.yaml"),
    Line("audit --changed", "audit edited.yaml", "audit edited.yaml --changed"),
    Line("audit --spark", "audit job.yaml", "audit job.yaml --spark", "calls"),
    Line("audit --run-folder", "audit job.yaml", "audit job.yaml --run-folder elsewhere"),
    Line(
        "audit --run-folder",
        "",
        "audit job.yaml --history seen.jsonl --run-folder elsewhere",
        refused="a history is judged by the job alone: leave out --run-folder",
    ),
    Line("audit --definitions", "audit job.yaml", "audit job.yaml --definitions"),
    Line(
        "audit --definitions",
        "",
        "audit job.yaml --definitions --spark",
        refused="definitions are judged in one process: leave out --spark",
    ),
    Line("audit --history", "audit job.yaml", "audit job.yaml --history seen.jsonl"),
    Line(
        "audit --history",
        "",
        "audit job.yaml --history seen.jsonl --changed",
        refused="a history is judged by the code of now: leave out --changed",
    ),
    Line("history JOB", "history job.yaml seen.jsonl", "history other.yaml seen.jsonl", "calls"),
    Line("history FILE", "history job.yaml seen.jsonl", "history job.yaml other.jsonl", "calls"),
    Line("drill JOB", "drill job.yaml", "drill other.yaml", "calls"),
    Line("drill --kill", "drill job.yaml", "drill job.yaml --kill driver", "calls"),
    Line("drill --times", "drill job.yaml", "drill job.yaml --times 2", "calls"),
    Line("drill --after", "drill job.yaml", "drill job.yaml --after 2.5", "calls"),
    Line("drill --seed", "drill job.yaml", "drill job.yaml --seed 7", "calls"),
    Line("drill --timeout", "drill job.yaml", "drill job.yaml --timeout 7", "calls"),
    Line("drill --audit", "drill job.yaml", "drill job.yaml --no-audit", "calls"),
    Line("drill --run-folder", "drill job.yaml", "drill job.yaml --run-folder elsewhere", "calls"),
    Line("simulate --seed", "simulate --seed 3 --json", "simulate --seed 4 --json"),
    Line("simulate --seeds", "simulate --seeds 0:2 --json", "simulate --seeds 0:3 --json"),
    Line(
        "simulate --seeds", "", "simulate --seeds 0:2 --seed 3", refused="give either --seed N or --seeds A:B"
    ),
    Line("simulate --trace", "simulate --seed 3", "simulate --seed 3 --trace"),
    Line("simulate --trace", "", "simulate --seed 3 --trace --json", refused="--trace is for people"),
    Line("simulate --kind", "simulate --seed 3 --json", "simulate --seed 3 --json --kind transactions"),
    Line("simulate --kind", "", "simulate --seed 3 --kind nothing", refused="upgrades: the code changes"),
    Line("simulate --calls", "simulate --seed 3 --json", "simulate --seed 3 --json --calls"),
    Line("simulate --calls", "", "simulate --seed 3 --calls --kind any", refused="one of the two"),
    Line(
        "simulate --calls",
        "",
        "simulate --seed 3 --calls --guarantee at-most-once",
        refused="--kind calls under at-most-once",
    ),
    Line(
        "simulate --guarantee",
        "simulate --seed 3 --json",
        "simulate --seed 3 --json --guarantee strong-productions",
    ),
    Line("papers EXPERIMENT", "papers acker", "papers bucket"),
    Line("papers EXPERIMENT", "papers fig9", "papers poster7"),
    Line("papers EXPERIMENT", "", "papers ackre", refused="there is no experiment 'ackre'"),
    Line("papers --svg", "papers acker", "papers acker --svg absent/acker.svg", "code"),
    Line("papers --svg", "", "papers --svg acker.svg", refused="--svg is the picture of one experiment"),
    Line("bootstrap MANIFEST", "bootstrap job.yaml lines=in", "bootstrap other.yaml lines=in", "calls"),
    Line("bootstrap HISTORY", "bootstrap job.yaml lines=in", "bootstrap job.yaml lines=other", "calls"),
    Line(
        "bootstrap --run-folder",
        "bootstrap job.yaml lines=in",
        "bootstrap job.yaml lines=in --run-folder elsewhere",
        "calls",
    ),
    Line("snapshots list MANIFEST", "snapshots list job.yaml", "snapshots list other.yaml"),
    Line("snapshots show MANIFEST", "snapshots show job.yaml", "snapshots show other.yaml", "code"),
    Line("snapshots show EPOCH", "snapshots show job.yaml", "snapshots show job.yaml 9999", "code"),
    Line("snapshots verify MANIFEST", "snapshots verify job.yaml", "snapshots verify other.yaml", "code"),
    Line("snapshots verify EPOCH", "snapshots verify job.yaml", "snapshots verify job.yaml 9999", "code"),
]
JSON = {
    "run": "run job.yaml",
    "validate": "validate job.yaml",
    "plan": "plan job.yaml",
    "upgrade": "upgrade job.yaml",
    "ticks": "ticks job.yaml",
    "status": "status job.yaml",
    "ui": "ui job.yaml",
    "query": "query job.yaml last['A']",
    "watch": "watch job.yaml last['A'] --limit 1",
    "cat": "cat shouts job.yaml --limit 1",
    "trace": "trace job.yaml A",
    "audit": "audit job.yaml",
    "history": "history job.yaml seen.jsonl",
    "drill": "drill job.yaml",
    "simulate": "simulate --seed 3",
    "papers": "papers acker",
    "doctor": "doctor",
    "bootstrap": "bootstrap job.yaml lines=in",
    "reset": "reset other.yaml --yes",
    "snapshots list": "snapshots list job.yaml",
    "snapshots show": "snapshots show job.yaml",
    "snapshots verify": "snapshots verify job.yaml",
}
"""A line of each command that works."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job that has completed, the same with other code, and two that never ran."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "flags_application.py").write_text(APPLICATION)
    (folder / "lines.txt").write_text("a\nb\nc\n")
    application = "  application: {file: flags_application.py, graph: graph}\n"
    for file, name, spec in (
        ("job", "upper", SPEC),
        (
            "other",
            "other",
            SPEC.replace("out,", "elsewhere,")
            .replace("snapshots", "others")
            .replace("lines.txt", "none.txt"),
        ),
        ("micro", "micro", SPEC.replace("snapshots", "micros") + "  guarantee: micro-batch\n"),
    ):
        (folder / f"{file}.yaml").write_text(f"{HEAD}metadata: {{name: {name}}}\nspec:\n{application}{spec}")
    (folder / "other.yaml").write_text(
        (folder / "other.yaml").read_text().replace("flags_application", "flags_other")
    )
    (folder / "flags_other.py").write_text(APPLICATION.replace(".map(str.upper)", ""))
    (folder / "edited.yaml").write_text(
        (folder / "job.yaml").read_text().replace("flags_application", "flags_edited")
    )
    (folder / "flags_edited.py").write_text(f"# edited\n{APPLICATION}")
    for name in ("elsewhere", "others", "none.txt"):
        (folder / name).mkdir() if "." not in name else (folder / name).write_text("")
    (folder / "seen.jsonl").write_text('{"out": "shouts", "value": "A"}\n')
    command = [sys.executable, "-m", "flamestream.cli.main", "run", "job.yaml", "--no-spark", "--json"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def terminal(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    """In that folder, with stand-ins for what starts processes."""
    monkeypatch.chdir(site)
    made = Terminal(main, capsys)
    launcher = type("Launcher", (StandInLauncher,), {"calls": made.calls})
    monkeypatch.setattr("flamestream.local.launcher.Launcher", launcher)
    for module in ("batch", "microbatch"):
        without(f"flamestream.cli.spark.{module}", monkeypatch, run=made.noted(module, 0))

    def with_spark(*given: Any, **options: Any) -> Report:
        made.calls.append("audit with Spark")
        return audited_here(*given, **options)

    without("flamestream.cli.spark.audit", monkeypatch, audited_with_spark=with_spark)
    monkeypatch.setattr(bootstrap, "_bootstrapped", made.noted("bootstrap", 5))
    monkeypatch.setattr(
        drill, "drilled", made.noted("drill", DrillStatus(phase="Passed", reason="Clean", message="clean"))
    )

    def served(*_: Any, told: Callable[[str], None], **__: Any) -> None:
        told("http://127.0.0.1:7878/#token=secret")

    monkeypatch.setattr(serving, "serve", made.noted("ui", served))

    def of_topics(job: Job, file: Path) -> Written:
        made.calls.append(f"history of {job.name} in {file}")
        return Written(3, 3)

    monkeypatch.setattr(history, "written", of_topics)

    def watched(job: Any, *asked: str) -> Iterator[Change]:
        made.calls.append(f"watch of {asked} of {job._port._manifest.name} in {job._port._folder.path}")
        return iter([Change("1", "A", "", "A"), Change("2", "A", "A", "B")])

    monkeypatch.setattr(client.Job, "watch", watched)
    path, modules = list(sys.path), set(sys.modules)
    yield made
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("flags_"):
            del sys.modules[name]


def without_json(found: dict[str, list[str]]) -> set[str]:
    """Every parameter of every command, but `--json`, which has its own test."""
    return {
        f"{command} {each}"
        for command, names in found.items()
        for each in names
        if each not in ("--json", "--help")
    }


def test_every_parameter_of_every_command_has_a_line() -> None:
    assert {line.parameter for line in LINES} == without_json(parameters(APP))


def seen(line: Line, said: Said) -> Any:
    out = re.sub(r'[\d.]+(?= s$)|(?<="seconds":)[\d.]+', "N", said.out, flags=re.MULTILINE)  # what it took
    return {"out": (out, said.code), "code": said.code, "calls": said.calls}[line.sees]


@pytest.mark.parametrize("line", [line for line in LINES if not line.refused], ids=str)
def test_a_parameter_makes_a_difference(line: Line, terminal: Terminal) -> None:
    before, again, after = (terminal.run(*given.split()) for given in (line.before, line.before, line.after))
    assert seen(line, before) == seen(line, again), "what is compared must not differ by itself"
    assert seen(line, before) != seen(line, after)


@pytest.mark.parametrize("line", [line for line in LINES if line.refused], ids=str)
def test_what_would_have_no_effect_is_refused_with_what_to_do(line: Line, terminal: Terminal) -> None:
    said = terminal.run(*line.after.split())
    assert (said.code, line.refused in said.err) == (ExitCode.USAGE, True), said.err


def test_every_command_has_json() -> None:
    assert [command for command, names in parameters(APP).items() if "--json" not in names] == []
    assert set(JSON) == set(parameters(APP))


@pytest.mark.parametrize("line", JSON.values())
def test_json_is_one_document_on_stdout(line: str, terminal: Terminal) -> None:
    people, said = terminal.run(*line.split()), terminal.run(*line.split(), "--json")
    assert said.code == people.code
    assert isinstance(said.document, dict | list)
    assert said.out != people.out


@pytest.mark.parametrize("command", parameters(APP))
def test_an_error_is_json_too_wherever_it_is_found(command: str, terminal: Terminal) -> None:
    wrong_line = terminal.run(*command.split(), "--no-such-option", "--json")
    assert (wrong_line.code, wrong_line.document["error"]["category"]) == (ExitCode.USAGE, "user")
    assert "No such option" in wrong_line.document["error"]["message"]
    assert "No such option" in wrong_line.err
    if "simulate" in command:
        return
    arguments = {
        "cat": ["shouts", "absent.yaml"],
        "bootstrap": ["absent.yaml", "lines=in"],
        "history": ["absent.yaml", "seen.jsonl"],
        "query": ["absent.yaml", "last['A']"],
        "watch": ["absent.yaml", "last['A']"],
        "reset": ["absent.yaml", "--yes"],
        "trace": ["absent.yaml", "A"],
    }.get(command, ["absent.yaml"])
    absent = terminal.run(*command.split(), *arguments, "--json")
    assert absent.code == ExitCode.USAGE
    assert "absent.yaml" in absent.document["error"]["message"]


def test_a_bug_is_told_as_one(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr("flamestream.cli.plan.described", broken)
    said = terminal.run("plan", "job.yaml", "--json")
    assert (said.code, said.document["error"]["category"]) == (ExitCode.BUG, Bug("").category)
    assert "please report it" in said.document["error"]["message"]
    assert "ZeroDivisionError" in said.err
