"""Make the checkout runnable: `.venv` with everything in requirements/test.txt and the project itself,
editable.

Needs a Python >= 3.11 and nothing else that is not in the standard library. Idempotent: a stamp in `.venv`
holds a hash of all that the environment is made from, and an equal stamp ends this script in some
milliseconds. Two set-ups at once take turns.

Order: the installer (uv: from PATH, or pinned by hash into `.venv-tools`), the environment, the pinned
packages, the project with its native kernel, and an archive of Java classes that halves Spark's start. Does
not: touch anything outside the checkout (but Debian's python3-venv and Rust compiler, only where they are
missing and only as root, and it says so).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import page

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".venv-tools"
STAMP = VENV / ".flamestream-setup"
REQUIREMENTS = ROOT / "requirements"
OLDEST = (3, 11)


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def main() -> int:
    """Exit code of the script: 0 when `.venv` is ready."""
    if sys.version_info < OLDEST:
        print(
            f"setup: Python {sys.version.split()[0]} at {sys.executable} is too old: "
            "FlameStream needs 3.11 or newer.",
            file=sys.stderr,
        )
        print("setup: name another one with `make PYTHON=/path/to/python3.11 ...`", file=sys.stderr)
        return 2
    with (ROOT / ".setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (STAMP.exists() and STAMP.read_text() == fingerprint()):
            try:
                build()
            except SetupError as error:
                print(f"setup: {error}", file=sys.stderr)
                return 1
            STAMP.write_text(fingerprint())  # not of before: the compiler may have come meanwhile
        build_page()
    return 0


def fingerprint() -> str:
    """A hash of all that the environment depends on: pins, this script, the project's metadata, its place,
    the interpreter."""
    digest = hashlib.sha256(
        f"{ROOT} {os.path.realpath(sys.executable)} {sys.version} {shutil.which('cargo')}".encode()
    )
    native = [
        ROOT / "native" / "Cargo.toml",
        ROOT / "native" / "Cargo.lock",
        *sorted((ROOT / "native" / "src").rglob("*.rs")),
    ]
    others = ("docs", "wheels")  # of environments of their own
    pins = [file for file in sorted(REQUIREMENTS.glob("*.txt")) if not file.name.startswith(others)]
    for file in [*pins, ROOT / "pyproject.toml", Path(__file__), *native]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def build() -> None:
    """Install everything; an environment of another interpreter is made anew."""
    uv = find_uv()
    STAMP.unlink(missing_ok=True)
    python = str(VENV / "bin" / "python")
    if not made_by_this_interpreter():
        say("creating .venv")
        run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV))
    say("installing the pinned packages (about 600 MB with Spark; a minute or two the first time)")
    pinned = ["--require-hashes", "--build-constraints", str(REQUIREMENTS / "build.txt")]
    run(
        uv,
        "pip",
        "sync",
        "--quiet",
        "--compile-bytecode",
        "--python",
        python,
        *pinned,
        str(REQUIREMENTS / "test.txt"),
    )
    editable = ["--no-deps", "--build-constraints", str(REQUIREMENTS / "build.txt"), "--editable", str(ROOT)]
    without = why_no_compiler()
    if without:
        say(without)
    else:
        say("building the native kernel")
        # or it would pass for the new one where that cannot be built
        for old in (ROOT / "runtime" / "flamestream").glob("_kernel*.so"):
            old.unlink()
    run(uv, "pip", "install", "--quiet", "--python", python, *editable)
    why_not = without or why_no_kernel(python)
    if why_not:
        say(
            "the native kernel was not built: everything works without it, with half as much work again a "
            "record, and what tests"
        )
        say(f"say of it is then not proven.{'' if without else f' Why: {why_not}'}")
    say("making class archives of Spark and ZooKeeper (they then start in half the time)")
    archive = subprocess.run(
        [python, "-m", "flamestream.spark.streaming.make_class_archives"],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if archive.returncode:
        say("not all class archives were made, and none is needed: only starts are slower")


def build_page() -> None:
    """Build the page of `flamestream ui`, if it has changed. Without it only that command does not work."""
    try:
        why_not = page.built()
    except page.PageError as error:
        why_not = str(error)
    if why_not:
        say(f"the page of `flamestream ui`: {why_not}")


def made_by_this_interpreter() -> bool:
    """Whether `.venv` is there, whole, and on the Python that runs this."""
    python = VENV / "bin" / "python"
    return (
        python.exists()
        and (VENV / "pyvenv.cfg").exists()
        and os.path.realpath(python) == os.path.realpath(sys.executable)
    )


def find_uv() -> str:
    """The uv on PATH, or our own, installed first if absent."""
    own = TOOLS / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.exists() else None)
    if found:
        return found
    say("fetching the installer (uv)")
    if not has_ensurepip():
        install_venv_package()
    run(sys.executable, "-m", "venv", "--clear", str(TOOLS))
    run(
        str(TOOLS / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "-r",
        str(REQUIREMENTS / "tools.txt"),
    )
    return str(own)


def pinned_environment(folder: Path, pins: Path) -> Path:
    """The interpreter of an environment of its own, with what `pins` lists; made again when they or our own
    interpreter change."""
    python, stamp = folder / "bin" / "python", folder / ".made-from"
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        uv = find_uv()
        print(f"setup: making the environment {folder} from {pins.name}", file=sys.stderr)
        run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        hashed = ["--require-hashes", "--build-constraints", str(REQUIREMENTS / "build.txt")]
        run(uv, "pip", "sync", "--quiet", "--python", str(python), *hashed, str(pins))
        stamp.write_text(wanted)
    return python


def has_ensurepip() -> bool:
    """Debian's and Ubuntu's python3 comes without it: it is in the package python3-venv."""
    return (
        subprocess.run(
            [sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False
        ).returncode
        == 0
    )


def why_no_compiler() -> str:
    """Why no Rust compiler runs here; "" if one does. As root on Debian or Ubuntu one is installed first
    where there is none."""
    if not shutil.which("cargo") and may_install():
        try:
            run_apt("update")
            # Debian 12 has two: cargo is too old for the kernel, cargo-web is what its browsers are built
            # with. Others have the first only.
            package = "cargo-web" if has_candidate("cargo-web") else "cargo"
            say(f"installing Debian's {package}: there is no Rust compiler")
            run_apt("install", "-y", "--no-install-recommends", package)
        except SetupError as error:  # the kernel is a matter of speed: everything works without it
            say(str(error))
    cargo = shutil.which("cargo")
    if cargo is None:
        return (
            "there is no Rust compiler (cargo): install one (rustup, "
            "or Debian's cargo of 1.83 or newer) and set up again"
        )
    tried = subprocess.run(
        [cargo, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if tried.returncode:  # rustup's stand-in without a toolchain behind it
        return (
            f"{cargo} is there, and no compiler behind it (`rustup default stable` gets one). It "
            f"says:\n{indented(tried.stderr)}"
        )
    return ""


def why_no_kernel(python: str) -> str:
    """Why the kernel that was to be built is not there, in the compiler's own words; "" if it is there."""
    looked = "import sys; from flamestream.model.kernel import WHY_NOT; sys.exit(WHY_NOT or 0)"
    imported = subprocess.run([python, "-c", looked], capture_output=True, text=True, check=False)
    if imported.returncode == 0:
        return ""
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        str(ROOT / "native" / "Cargo.toml"),
    ]
    environment = {**os.environ, "PYO3_PYTHON": python, "PYO3_BUILD_EXTENSION_MODULE": "1"}
    built = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, stdin=subprocess.DEVNULL
    )
    if built.returncode:
        return f"`{' '.join(command)}` says:\n{indented(built.stderr)}"
    return f"it is built, and cannot be loaded:\n{indented(imported.stderr)}"


def indented(said: str, most: int = 30) -> str:
    """The end of what a program has said: that is where a compiler says why."""
    return "\n".join(f"    {line}" for line in said.strip().splitlines()[-most:])


def has_candidate(package: str) -> bool:
    told = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False)
    return any("Candidate:" in line and "(none)" not in line for line in told.stdout.splitlines())


def may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def run_apt(*words: str) -> None:
    run("apt-get", "-qq", *words, environment={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def install_venv_package() -> None:
    """As root on Debian or Ubuntu: install it. Else: say which command does."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not may_install():
        raise SetupError(
            f"{sys.executable} has no ensurepip, and uv is not on PATH. Do one of these, then try again:\n"
            f"  sudo apt-get install {package}\n  install uv and put it on PATH"
        )
    say(f"installing Debian's {package}: {sys.executable} has no ensurepip")
    run_apt("update")
    run_apt("install", "-y", "--no-install-recommends", package)


def run(*command: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a step; its output stays visible. A failure ends the set-up and names the step."""
    result = subprocess.run(
        command, env=environment or installer_environment(), cwd=cwd, stdin=subprocess.DEVNULL, check=False
    )
    if result.returncode:
        raise SetupError(
            f"`{' '.join(command)}` failed with exit code {result.returncode}; what it printed is above."
        )


def installer_environment() -> dict[str, str]:
    """uv must use the interpreter we run on and trust the certificates the system trusts, and needs a cache
    even without a HOME."""
    environment = {
        **os.environ,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "1",
        "UV_NO_PROGRESS": "1",
    }
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"  # its advice is not for who types `make demo`
    environment.pop("VIRTUAL_ENV", None)
    if not environment.get("HOME") and not environment.get("UV_CACHE_DIR"):
        environment["UV_CACHE_DIR"] = str(ROOT / ".cache" / "uv")
    return environment


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
