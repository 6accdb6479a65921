"""A peer's Python packages: an environment of its own in `.cache/bench`, made from pins, made again when the pins change."""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"


def python_of(name: str) -> str:
    """The interpreter of that environment, there or not."""
    return str(CACHE / name / "bin" / "python")


def make(name: str) -> str:
    """The environment `name` with what requirements/bench-NAME.txt pins; its interpreter."""
    pins, stamp = ROOT / "requirements" / f"bench-{name}.txt", CACHE / name / ".made-from"
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        uv, environment = _installer()
        print(f"benchmarks: making the environment of {name} in {CACHE / name}", file=sys.stderr)
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(CACHE / name)], check=True, env=environment)
        sync = [uv, "pip", "sync", "--quiet", "--python", python_of(name), "--require-hashes"]
        subprocess.run([*sync, "--build-constraints", str(ROOT / "requirements" / "build.txt"), str(pins)], check=True, env=environment)
        stamp.write_text(wanted)
    return python_of(name)


def packages_of(name: str) -> str:
    """The folder of its packages, for an interpreter that is embedded elsewhere."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(CACHE / name / "lib" / version / "site-packages")


def pinned(name: str, package: str) -> str:
    """The version of a package that the environment `name` gets."""
    for line in (ROOT / "requirements" / f"bench-{name}.txt").read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.partition("==")[2].split()[0]
    raise KeyError(package)


def _installer() -> tuple[str, dict[str, str]]:
    sys.path.append(str(ROOT / "scripts"))
    import setup  # of scripts/: finds or fetches uv as the project's own set-up does

    return setup.find_uv(), setup.installer_environment()
