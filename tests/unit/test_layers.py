"""Layering is a test: who may import whom is in pyproject.toml, [tool.importlinter]; here is the proof that
it is looked at."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = (
    sys.executable,
    "-c",
    "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()",
    "--no-cache",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of both packages and their contracts, to be spoiled."""
    for package in ("runtime/flamestream", "operator/flamestream_operator"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(root: Path) -> tuple[int, str]:
    """Exit code and output of the import linter for the packages under `root`."""
    environment = {
        "PYTHONPATH": f"{root / 'runtime'}:{root / 'operator'}",
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "200",
    }
    done = subprocess.run(LINT, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_packages_keep_their_layers() -> None:
    code, output = lint(ROOT)
    assert code == 0, output


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("model/slot.py", "import flamestream.core.protocol.events"),
        ("core/protocol/messages.py", "import flamestream.ports"),
        ("core/protocol/messages.py", "import time"),
        ("core/protocol/events.py", "import random"),
        ("model/ids.py", "import os"),
        ("machine/__init__.py", "import flamestream.loop"),
        ("loop/__init__.py", "import flamestream.net"),
        ("net/__init__.py", "import flamestream.store"),
        ("store/__init__.py", "import flamestream.fenced"),
        ("fenced/__init__.py", "import flamestream.journal"),
        ("journal/__init__.py", "import flamestream.connectors"),
        ("connectors/__init__.py", "import flamestream.job"),
        ("connectors/files/spec.py", "import flamestream.connectors.rolling.opening"),
        ("connectors/kit/spec.py", "import flamestream.connectors.redis.server"),
        ("connectors/postgres/reading.py", "import flamestream.connectors.sinks"),
        ("job/__init__.py", "import flamestream.node"),
        ("node/__init__.py", "import flamestream.spark"),
        ("audit/__init__.py", "import flamestream.local"),
        ("papers/__init__.py", "import flamestream.audit"),
        ("reference.py", "import flamestream.lists"),
        ("audit/definitions/search.py", "import random"),
        ("audit/definitions/judge.py", "import flamestream.job.validation"),
        ("local/__init__.py", "import flamestream.cli"),
        ("core/protocol/__init__.py", "import flamestream.core.dataflow"),
        ("core/dataflow/__init__.py", "import flamestream.core.worker"),
        ("core/worker/__init__.py", "import flamestream.core.coordinator"),
        ("spark/__init__.py", "import flamestream.testing"),
        ("testing/__init__.py", "import flamestream.cli"),
        ("cli/__init__.py", "import flamestream_operator"),
    ],
)
def test_a_forbidden_import_is_found(copy: Path, module: str, statement: str) -> None:
    refused(copy, f"runtime/flamestream/{module}", statement)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("api/__init__.py", "import flamestream_operator.crd"),
        ("crd/__init__.py", "import flamestream_operator.site"),
        ("site.py", "import flamestream_operator.objects"),
        ("objects/__init__.py", "import flamestream_operator.coordination"),
        ("metrics.py", "import flamestream_operator.kube"),
        ("coordination/__init__.py", "import flamestream_operator.kube"),
        ("kube/__init__.py", "import flamestream_operator.jobs"),
        ("jobs/__init__.py", "import flamestream_operator.drills"),
        ("drills/__init__.py", "import flamestream_operator.savepoints"),
        ("tools/__init__.py", "import flamestream_operator.operator"),
        ("jobs/decide.py", "import time"),
        ("jobs/lifecycle.py", "import flamestream_operator.jobs.memory"),
        ("jobs/spec.py", "import flamestream.node.status_file"),
        ("api/drill.py", "import flamestream.testing"),
        ("objects/pods.py", "import os"),
    ],
)
def test_a_forbidden_import_of_the_operator_is_found(copy: Path, module: str, statement: str) -> None:
    refused(copy, f"operator/flamestream_operator/{module}", statement)


def test_every_module_of_the_jobs_is_either_pure_or_named_as_the_shell() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    core = next(each for each in contracts if "operator's core is pure" in each["name"])
    said = {*core["source_modules"], *core["forbidden_modules"]}
    rooms = ROOT / "operator"
    there = {
        ".".join(file.relative_to(rooms).with_suffix("").parts)
        for file in (rooms / "flamestream_operator/jobs").rglob("[!_]*.py")
    }
    assert there == {each for each in said if each.startswith("flamestream_operator.jobs.")}


def refused(root: Path, module: str, statement: str) -> None:
    """The statement in that module breaks a contract."""
    spoiled = root / module
    spoiled.write_text(f"{spoiled.read_text()}\n{statement}\n")
    code, output = lint(root)
    assert code != 0, f"{statement} in {module} was not found:\n{output}"
    assert "broken" in output.lower()
