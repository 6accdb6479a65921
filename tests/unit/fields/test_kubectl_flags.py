"""Every argument and option of every command of `kubectl flamestream` reaches kubectl, or changes what is
said, or is refused."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flamestream.cli.kubectl.main import app, main
from flamestream.job.exit_codes import ExitCode
from support.fields import parameters
from support.runs.command_lines import Said, Terminal

STAND_IN = Path(__file__).parents[2] / "support" / "operator" / "stand_in_kubectl.py"


@dataclass(frozen=True, slots=True)
class Line:
    """A command, and what is added to it."""

    parameter: str
    before: str
    after: str
    refused: str = ""

    def __str__(self) -> str:
        return self.after


COMMANDS = {
    "list": "list", "status": "status j", "suspend": "suspend j", "resume": "resume j",
    "savepoint": "savepoint j", "drill": "drill j", "audit": "audit j", "cat": "cat index j",
    "logs": "logs j", "upgrade": "upgrade j", "query": "query j seen[7]",
    "trace": "trace j north",
}  # fmt: skip
EVERYWHERE = [
    Line(f"{command} {option}", line, f"{line} {option} elsewhere")
    for command, line in COMMANDS.items()
    for option in ("--namespace", "--context")
]
LINES = [
    *EVERYWHERE,
    *(
        Line(f"{command} JOB", line, line.replace(" j", " absent"))
        for command, line in COMMANDS.items()
        if command != "list"
    ),
    Line("list --all-namespaces", "list", "list --all-namespaces"),
    Line("suspend --wait", "suspend j", "suspend j --no-wait"),
    Line("resume --wait", "resume j", "resume j --wait"),
    Line("savepoint --wait", "savepoint j", "savepoint j --no-wait"),
    Line("savepoint --name", "savepoint j", "savepoint j --name before"),
    Line("drill --kill", "drill j", "drill j --kill executor"),
    Line("drill --cut", "drill j", "drill j --cut network"),
    Line("drill --cut", "", "drill j --cut network --kill executor", refused="choose one of --kill, --cut"),
    Line("drill --delete", "drill j", "drill j --delete executor"),
    Line("drill --pause", "drill j", "drill j --pause worker"),
    Line("drill --for", "drill j --pause worker", "drill j --pause worker --for 3s"),
    Line("drill --for", "", "drill j --kill worker --for 3s", refused="--for is of --pause and --cut"),
    Line("drill --selector", "drill j --kill pod", "drill j --kill pod --selector app=x"),
    Line(
        "drill --in", "drill j --kill pod --selector app=x", "drill j --kill pod --selector app=x --in space"
    ),
    Line("drill --timeout", "drill j", "drill j --timeout 7s"),
    Line("audit --changed", "audit j", "audit j --changed"),
    Line("audit --definitions", "audit j", "audit j --definitions"),
    Line("drill --audit", "drill j", "drill j --no-audit"),
    Line("drill --times", "drill j", "drill j --times 3"),
    Line("upgrade --diff", "upgrade j", "upgrade j --diff"),
    Line("cat SINK", "cat index j", "cat other j"),
    Line("cat --limit", "cat index j", "cat index j --limit 3"),
    Line("trace TEXT", "trace j north", "trace j south"),
    Line("trace --sink", "trace j north", "trace j north --sink index"),
    Line("trace --limit", "trace j north", "trace j north --limit 3"),
    Line("query ROWS", "query j seen[7]", "query j seen[8]"),
    Line("query --at", "query j seen[7]", "query j seen[7] --at strict"),
    Line("query --at-least", "query j seen[7]", "query j seen[7] --at-least 5"),
    Line(
        "query --token-file",
        "",
        "query j seen[7] --at committed --token-file t",
        refused="is for a job's port",
    ),
    Line("query --prefix", "query j seen", "query j seen --prefix a"),
    Line("query --limit", "query j seen", "query j seen --limit 3"),
    Line("query --cursor", "query j seen", "query j seen --cursor YQ=="),
    Line("query --cursor", "", "query j seen[7] --cursor YQ==", refused="are of a page: give a name alone"),
    Line(
        "query --ca-file",
        "",
        "query j seen[7] --at committed --ca-file t",
        refused="is for a job's port",
    ),
    Line("logs --follow", "logs j", "logs j --follow"),
    Line("logs --tail", "logs j", "logs j --tail 3"),
]


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """With a kubectl that notes what it is asked."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return Terminal(main, capsys)


def run(terminal: Terminal, line: str, folder: Path) -> tuple[Said, Any]:
    """What was said, and what kubectl was asked; names made up by chance, and moments, are all alike."""
    calls = folder / "calls"
    calls.unlink(missing_ok=True)
    said = terminal.run(*line.split())
    asked = [json.loads(call) for call in calls.read_text().splitlines()] if calls.exists() else []
    alike = re.sub(r"look-[0-9a-f]+", "look-x", json.dumps(asked))
    return said, json.loads(re.sub(r"\b\d{16}\b", "0", alike))


def test_every_parameter_of_every_command_has_a_line() -> None:
    found = {
        f"{command} {each}"
        for command, names in parameters(app).items()
        for each in names
        if each not in ("--json", "--help") and command != "watch"  # a port is needed: test_kubectl_query.py
    }
    assert {line.parameter for line in LINES} == found


@pytest.mark.parametrize("line", [line for line in LINES if not line.refused], ids=str)
def test_a_parameter_makes_a_difference(line: Line, terminal: Terminal, tmp_path: Path) -> None:
    (before, asked), (_, again), (after, then) = (
        run(terminal, given, tmp_path) for given in (line.before, line.before, line.after)
    )
    assert before.code == ExitCode.OK, before.err
    assert asked == again, "what is compared must not differ by itself"
    assert (asked, before.out, before.code) != (then, after.out, after.code)


@pytest.mark.parametrize("line", [line for line in LINES if line.refused], ids=str)
def test_what_would_have_no_effect_is_refused_with_what_to_do(
    line: Line, terminal: Terminal, tmp_path: Path
) -> None:
    said, asked = run(terminal, line.after, tmp_path)
    assert (said.code, line.refused in said.err, asked) == (ExitCode.USAGE, True, [])
