"""Type checkers infer what a graph's streams carry, and find a wrong field or type where it is written."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INFERRED, REFUSED = HERE / "inferred.py", HERE / "refused.py"
PYRIGHT = Path(sys.executable).with_name("basedpyright")

Errors = set[tuple[str, int]]


def of_mypy(tmp_path: Path) -> Errors:
    words = [
        "--strict",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
        "--no-error-summary",
    ]
    output, trouble, _ = api.run([*words, str(INFERRED), str(REFUSED)])
    assert not trouble, trouble
    return {
        (Path(name).name, int(line))
        for name, line in re.findall(r"^(.*?):(\d+): error", output, re.MULTILINE)
    }


def of_pyright(tmp_path: Path) -> Errors:
    if not PYRIGHT.exists():
        pytest.skip("basedpyright is not installed")
    settings = {
        "include": [str(INFERRED), str(REFUSED)],
        "extraPaths": [str(ROOT / "runtime")],
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, "pythonVersion": "3.11"}))
    words = [str(PYRIGHT), "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in found
        if each["severity"] == "error"
    }


@pytest.fixture(params=[of_mypy, of_pyright], ids=["mypy", "pyright"], scope="module")
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    found: Errors = request.param(tmp_path_factory.mktemp("types"))
    return found


def wrong(file: Path) -> Iterator[int]:
    return (number for number, line in enumerate(file.read_text().splitlines(), 1) if "  # wrong:" in line)


def test_what_streams_carry_is_inferred(errors: Errors) -> None:
    assert sorted(line for name, line in errors if name == INFERRED.name) == []


def test_a_wrong_field_or_type_is_an_error_where_it_is_written(errors: Errors) -> None:
    assert sorted(line for name, line in errors if name == REFUSED.name) == list(wrong(REFUSED))
