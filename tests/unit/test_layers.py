"""Layering is a test: who may import whom is in pyproject.toml, [tool.importlinter]; here is the proof that it is looked at."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = (sys.executable, "-c", "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, to be spoiled."""
    shutil.copytree(ROOT / "runtime" / "flamestream", tmp_path / "runtime" / "flamestream", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(root: Path) -> tuple[int, str]:
    """Exit code and output of the import linter for the package under `root`."""
    environment = {"PYTHONPATH": str(root / "runtime"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    done = subprocess.run(LINT, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_package_keeps_its_layers() -> None:
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
        ("local/__init__.py", "import flamestream.cli"),
        ("core/protocol/__init__.py", "import flamestream.core.dataflow"),
        ("core/dataflow/__init__.py", "import flamestream.core.worker"),
        ("core/worker/__init__.py", "import flamestream.core.coordinator"),
        ("spark/__init__.py", "import flamestream.testing"),
        ("testing/__init__.py", "import flamestream.cli"),
    ],
)
def test_a_forbidden_import_is_found(copy: Path, module: str, statement: str) -> None:
    spoiled = copy / "runtime" / "flamestream" / module
    spoiled.write_text(f"{spoiled.read_text()}\n{statement}\n")
    code, output = lint(copy)
    assert code != 0, f"{statement} in {module} was not found:\n{output}"
    assert "broken" in output.lower()
