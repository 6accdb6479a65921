"""`make setup` says why there is no native kernel: no compiler, one without a toolchain behind it, or the
compiler's own words."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "scripts"))

import setup as set_up  # noqa: E402

from flamestream.model.kernel import WHY_NOT  # noqa: E402


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Program":
    """PATH has what the test puts there, and nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Program(tmp_path)


class Program:
    """Puts stand-ins on PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "log"

    def put(self, name: str, script: str) -> None:
        file = self._folder / name
        file.write_text(f"#!/bin/sh\necho {name} $* >>{self.log}\n{script}\n")
        file.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def test_no_cargo_is_said(program: Program) -> None:
    assert "no Rust compiler" in set_up.why_no_compiler()


def test_a_cargo_without_a_toolchain_is_told_apart_from_none(program: Program) -> None:
    program.put("cargo", "echo 'error: rustup could not choose a version of cargo to run' >&2; exit 1")
    said = set_up.why_no_compiler()
    assert "no compiler behind it" in said and "rustup default stable" in said
    assert "    error: rustup could not choose a version of cargo to run" in said


def test_a_cargo_that_runs_will_do(program: Program) -> None:
    program.put("cargo", "echo cargo 1.95.0")
    assert not set_up.why_no_compiler()


@pytest.mark.parametrize(("has", "installed"), [("cargo-web", "cargo-web"), ("cargo", "cargo")])
def test_root_on_debian_gets_the_newest_compiler_that_debian_has(
    program: Program, monkeypatch: pytest.MonkeyPatch, has: str, installed: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    makes = (
        f'printf "#!/bin/sh\\nexit 0\\n" >{program.log.parent}/cargo; /bin/chmod 755 '
        f"{program.log.parent}/cargo"
    )
    program.put("apt-get", f'case "$*" in *install*) {makes} ;; esac')
    program.put("apt-cache", f'[ "$2" = {has} ] && echo "  Candidate: 1.85" || echo "  Candidate: (none)"')
    assert not set_up.why_no_compiler()
    assert program.calls[-1] == f"apt-get -qq install -y --no-install-recommends {installed}"


def test_what_cannot_be_installed_is_said_and_ends_nothing(
    program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program.put("apt-get", "exit 100")
    assert "no Rust compiler" in set_up.why_no_compiler()
    assert "`apt-get -qq update` failed with exit code 100" in capsys.readouterr().out


def test_a_kernel_that_was_not_built_is_explained_by_the_compiler(program: Program) -> None:
    program.put("python", "exit 1")
    program.put("cargo", "echo 'error[E0308]: mismatched types' >&2; exit 101")
    said = set_up.why_no_kernel(str(program.log.parent / "python"))
    assert "    error[E0308]: mismatched types" in said
    assert "build --release --locked" in said


def test_a_kernel_that_is_there_needs_no_word(program: Program) -> None:
    """Asked of the Python that runs this, in the set-up's own words."""
    program.put("cargo", "exit 101")
    assert bool(set_up.why_no_kernel(sys.executable)) == bool(WHY_NOT)


def test_a_kernel_that_is_built_and_does_not_load_says_what_python_says(program: Program) -> None:
    program.put("python", "echo 'the one that is here does not fit this machine' >&2; exit 1")
    program.put("cargo", "exit 0")
    said = set_up.why_no_kernel(str(program.log.parent / "python"))
    assert "cannot be loaded" in said and "does not fit this machine" in said
