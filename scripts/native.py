"""What is checked of the native kernel with Rust's own tools, where they are there; a line says what is not
looked at.

    python scripts/native.py lint        # rustfmt and clippy, every `unsafe` with its reason
    python scripts/native.py test        # unit tests of codec, metas, vectors and tables
    python scripts/native.py sanitize    # the same under AddressSanitizer, with Python's own objects under
                                         its eyes (needs a nightly Rust)
    python scripts/native.py miri        # those that need no Python, interpreted: undefined behaviour ends
                                         them (needs a nightly Rust)

The tests run in a program that embeds the Python of `.venv`, so they need its shared library.

Does not: build the kernel (setup.py).
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
SANITIZED = "x86_64-unknown-linux-gnu"


def main(arguments: list[str]) -> int:
    """The exit code of the tool; 0 where there is none."""
    steps = {"lint": lint, "test": test, "sanitize": sanitize, "miri": miri}
    if len(arguments) != 1 or arguments[0] not in steps:
        print(__doc__, file=sys.stderr)
        return 2
    if not works("cargo", "--version"):
        return passed_over("there is no cargo that runs")
    return steps[arguments[0]]()


def lint() -> int:
    if not (works("cargo", "fmt", "--version") and works("cargo", "clippy", "--version")):
        return passed_over("there is no rustfmt and clippy")
    return run("cargo", "fmt", "--check") or run(
        "cargo", "clippy", "--quiet", "--locked", "--all-targets", "--", "-D", "warnings"
    )


def test() -> int:
    if not (library_folder() / str(sysconfig.get_config_var("LDLIBRARY"))).exists():
        return passed_over(f"{sys.executable} has no shared library to embed (on Debian: libpython3-dev)")
    return run("cargo", "test", "--quiet", "--locked")


def sanitize() -> int:
    """Asked for by name, so what is lacking is an error."""
    if not works("cargo", "+nightly", "--version"):
        print("native: a sanitizer needs a nightly Rust: rustup toolchain install nightly", file=sys.stderr)
        return 1
    # Python's small objects come from malloc, so that each is watched; what Python never frees is no leak of
    # ours.
    watched = {"RUSTFLAGS": "-Zsanitizer=address", "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"}
    return run("cargo", "+nightly", "test", "--quiet", "--locked", "--target", SANITIZED, **watched)


def miri() -> int:
    """Asked for by name too. Metas, keyed state and its buckets: what calls Python's library cannot be
    interpreted."""
    if not works("cargo", "+nightly", "miri", "--version"):
        print(
            "native: miri needs a nightly Rust: rustup toolchain install nightly --component miri rust-src",
            file=sys.stderr,
        )
        return 1
    return run("cargo", "+nightly", "miri", "test", "--quiet", "--locked", "--", "meta::", "state::")


def library_folder() -> Path:
    return Path(str(sysconfig.get_config_var("LIBDIR")))


def works(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, cwd=NATIVE, capture_output=True, check=False).returncode == 0
    )


def run(*command: str, **variables: str) -> int:
    libraries = [str(library_folder()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {"PYO3_PYTHON": sys.executable, "LD_LIBRARY_PATH": ":".join(libraries), **variables}
    return subprocess.run(command, cwd=NATIVE, env={**os.environ, **environment}, check=False).returncode


def passed_over(why: str) -> int:
    print(f"native/ was not looked at: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
