"""A peer's Python packages: an environment of its own in `.cache/bench/environments`, made from pins, made again
when the pins change."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
PLACE = CACHE / "environments"
"""Beside what is built and reported there: no tool clears a folder that is no environment."""


def python_of(name: str) -> str:
    """The interpreter of that environment, there or not."""
    return str(PLACE / name / "bin" / "python")


def make(name: str) -> str:
    """The environment `name` with what requirements/bench/NAME.txt pins; its interpreter."""
    sys.path.append(str(ROOT / "scripts"))
    import setup  # of scripts/: makes environments as the project's own set-up does

    return str(setup.pinned_environment(PLACE / name, ROOT / "requirements" / "bench" / f"{name}.txt"))


def packages_of(name: str) -> str:
    """The folder of its packages, for an interpreter that is embedded elsewhere."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(PLACE / name / "lib" / version / "site-packages")


def pinned(name: str, package: str) -> str:
    """The version of a package that the environment `name` gets."""
    for line in (ROOT / "requirements" / "bench" / f"{name}.txt").read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.partition("==")[2].split()[0]
    raise KeyError(package)
