"""The skip list: a skip that it does not name turns CI red, and one that it names does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.skips import LIST, allowed

TESTS = """
import pytest

def test_that_passes(): ...

@pytest.mark.skip(reason="no server: install one")
def test_first(): ...

def test_second():
    pytest.skip("no cluster")
"""
CONFTEST = """
import pathlib
from support import skips

skips.LIST = pathlib.Path(__file__).parent / "skips.toml"

def pytest_configure(config):
    config.pluginmanager.register(skips.Skips(skips.allowed(skips.LIST), strict={strict}))
"""
FIRST = '[[skip]]\ntest = "test_it.py::test_first"\nreason = "no server"\nunproven = "all of it"\n'
SECOND = FIRST.replace("first", "second").replace("no server", "no cluster")


def run(folder: Path, entries: str, *arguments: str, strict: bool = True) -> tuple[int, str]:
    """Exit code and output of a run of TESTS with a list of `entries`."""
    (folder / "test_it.py").write_text(TESTS)
    (folder / "conftest.py").write_text(CONFTEST.format(strict=strict))
    (folder / "skips.toml").write_text(entries)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *arguments,
        str(folder),
    ]
    environment = os.environ | {"PYTHONPATH": str(LIST.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_skip_that_no_entry_names_fails_the_run_and_is_told(tmp_path: Path, processes: str) -> None:
    code, output = run(tmp_path, FIRST, "-n", processes)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_it.py::test_second: no cluster" in output
    assert "test_it.py::test_first: no server" not in output


def test_a_run_whose_skips_are_all_named_passes_and_counts_them(tmp_path: Path) -> None:
    code, output = run(tmp_path, FIRST + SECOND)
    assert code == 0
    assert "skipped: 1 of reason: no cluster" in output


def test_another_reason_than_the_listed_one_is_not_named(tmp_path: Path) -> None:
    code, _ = run(tmp_path, FIRST + SECOND.replace("no cluster", "no node"))
    assert code == pytest.ExitCode.TESTS_FAILED


def test_outside_of_ci_skips_are_told_and_allowed(tmp_path: Path) -> None:
    code, output = run(tmp_path, "", strict=False)
    assert code == 0
    assert "skipped: 1 of reason: no cluster" in output


def test_every_entry_of_the_list_names_a_file_that_is_there_and_says_what_is_not_proven() -> None:
    for entry in allowed():
        file = entry.test.partition("::")[0]
        assert list(LIST.parents[1].glob(file)), f"tests/skips.toml names {file}, which is not there"
        assert entry.reason and entry.unproven
