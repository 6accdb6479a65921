"""The packages, as somebody gets them who has no compiler: both wheels in an empty environment, and a job
that runs on the kernel."""

import json
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.runs.job_folder import APPLICATION, MANIFEST

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("cargo") is None, reason="there is no Rust compiler to make a wheel with"
    ),
]
UV = shutil.which("uv") or str(ROOT / ".venv-tools" / "bin" / "uv")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "scripts/wheels.py", "--targets", platform.machine(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def installed(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what the wheels ask for, as it is pinned, and the two wheels."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    uv("venv", "--quiet", "--python", sys.executable, str(place))
    to = ["--quiet", "--python", str(place / "bin" / "python")]
    build = ["--build-constraints", str(ROOT / "requirements" / "build.txt")]
    uv("pip", "install", *to, *build, "--require-hashes", "-r", str(ROOT / "requirements" / "test.txt"))
    uv("pip", "install", *to, "--no-deps", "--no-index", *map(str, packages.glob("*.whl")))
    return place


def uv(*words: str) -> None:
    done = subprocess.run([UV, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def said(venv: Path, *command: str, folder: Path) -> str:
    """What a command prints where PATH has the environment and the system's shell, and no compiler."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "bash", "ps", "dirname", "readlink", "uname"):
        found = shutil.which(name)
        if found and not (tools / name).exists():
            (tools / name).symlink_to(Path(found).resolve())
    environment = {"PATH": f"{venv / 'bin'}:{tools}", "HOME": str(folder)}
    assert not any(
        shutil.which(name, path=environment["PATH"])
        for name in ("cargo", "rustc", "cc", "gcc", "clang", "zig")
    )
    line = [str(venv / "bin" / command[0]), *command[1:]]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no native kernel" not in done.stderr
    return done.stdout


def test_a_job_runs_on_the_kernel_where_there_is_no_compiler(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST.replace("APPLICATION.py", "upper.py"))
    (tmp_path / "upper.py").write_text(APPLICATION)
    (tmp_path / "lines.txt").write_text("to be\nor not\n")
    said(installed, "flamestream", "run", "job.yaml", folder=tmp_path)
    delivered = said(installed, "flamestream", "cat", "shouts", "job.yaml", folder=tmp_path)
    assert "TO BE" in delivered and "OR NOT" in delivered
    assert (
        json.loads(said(installed, "flamestream", "status", "job.yaml", "--json", folder=tmp_path))["kernel"]
        == "native"
    )
    findings = json.loads(said(installed, "flamestream", "doctor", "--json", folder=tmp_path))["findings"]
    (kernel,) = [each for each in findings if each["what"] == "kernel"]
    assert kernel["found"].startswith("native ") and kernel["state"] == "good"


def test_the_operator_is_installed_beside_it(installed: Path, tmp_path: Path) -> None:
    where = (
        "import flamestream_operator.operator as it, operator; assert operator.add(1, 1) == 2; "
        "print(it.__file__)"
    )
    assert str(installed) in said(installed, "python", "-c", where, folder=tmp_path)


def test_a_wheel_is_for_every_python_and_an_old_glibc(packages: Path) -> None:
    (wheel,) = packages.glob("flamestream-*.whl")
    assert f"-cp311-abi3-manylinux2014_{platform.machine()}" in wheel.name
    assert [each.name for each in packages.glob("flamestream_operator-*")] == [
        "flamestream_operator-0.1.0-py3-none-any.whl"
    ]


def test_the_sdist_has_what_builds_the_kernel_and_nothing_that_was_built(packages: Path) -> None:
    (archive,) = packages.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"native/Cargo.lock", "native/src/lib.rs", "runtime/flamestream/cli/main.py", "LICENSE"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "/target/" in name]
