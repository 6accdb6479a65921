"""Build the packages: wheels of `flamestream` with its kernel, an sdist, and the wheel of
`flamestream-operator`.

A wheel of `flamestream` is for every CPython from 3.11 on (the stable ABI) and every Linux with glibc 2.17 or
newer, one a processor. maturin makes it, with zig's C compiler and linker: they know the old glibc, and other
processors. Rust's own library for the other processor must be there (`rustup target add
aarch64-unknown-linux-gnu`); a wheel that is not asked for by name is left out without it.

Everything is built from a copy of what is tracked, so nothing of the checkout gets into a package that git
does not know, but the page, which is built before (page.py).

    python scripts/wheels.py                          # into dist/
    python scripts/wheels.py --targets x86_64 --out /elsewhere

Keeps: each wheel is looked into: a `flamestream` without a kernel or a page ends this with an error. Does not: publish
anything.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import page
from setup import REQUIREMENTS, ROOT, SetupError, find_uv, pinned_environment, run

TOOLS = ROOT / ".cache" / "wheels-env"
"""maturin and zig, in an environment of their own."""
TARGETS = ("x86_64", "aarch64")
GLIBC = "manylinux2014"
"""glibc 2.17: every Linux since CentOS 7."""


class WheelError(SetupError):
    """No wheel; the message says what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets",
        nargs="+",
        choices=TARGETS,
        help="processors; default: those that Rust has its library for",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    try:
        built = build(given.targets, given.out.absolute())
    except SetupError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    for file in built:
        print(f"wheels: {file.name}  {file.stat().st_size / 1e6:.1f} MB")
    return 0


def build(asked: list[str] | None, out: Path) -> list[Path]:
    """The files that were made."""
    uv, targets = find_uv(), chosen(asked)
    pinned_environment(TOOLS, REQUIREMENTS / "wheels.txt")
    out.mkdir(parents=True, exist_ok=True)
    source = copied(ROOT / ".cache" / "wheels-source")
    constraints = ["--build-constraints", str(REQUIREMENTS / "build.txt"), "--require-hashes"]
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    for target in targets:
        maturin(source, f"{target}-unknown-linux-gnu", out)
    run(uv, "build", "--quiet", "--sdist", *constraints, "--out-dir", str(out), str(source), cwd=ROOT)
    run(
        uv,
        "build",
        "--quiet",
        "--wheel",
        *constraints,
        "--out-dir",
        str(out),
        str(source / "operator"),
        cwd=ROOT,
    )
    shutil.rmtree(source)
    built = sorted(file for file in out.glob("flamestream*") if before.get(file) != file.stat().st_mtime_ns)
    for wheel in (file for file in built if file.name.startswith("flamestream-") and file.suffix == ".whl"):
        look_into(wheel)
    return built


def chosen(asked: list[str] | None) -> list[str]:
    """The processors to build for; one that was asked for by name must be possible."""
    if not shutil.which("rustc"):
        raise WheelError("there is no Rust compiler on PATH: install one (rustup), then try again")
    lacking = [target for target in asked or TARGETS if not has_library(f"{target}-unknown-linux-gnu")]
    how = "".join(f"\n  rustup target add {target}-unknown-linux-gnu" for target in lacking)
    if lacking and asked:
        raise WheelError(f"Rust has no library for {', '.join(lacking)} here:{how}")
    if lacking:
        print(
            f"wheels: left out: {', '.join(lacking)}, for which Rust has no library here. "
            f"It gets one by:{how}",
            flush=True,
        )
    return [target for target in asked or TARGETS if target not in lacking]


def has_library(target: str) -> bool:
    """Whether rustc can link for `target`."""
    said = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", target], capture_output=True, text=True, check=False
    )
    return said.returncode == 0 and any(Path(said.stdout.strip()).glob("libstd-*"))


def copied(folder: Path) -> Path:
    """What git knows of the packages, as it is in the checkout; and the page, as it is built now."""
    try:
        why_not = page.built()
    except page.PageError as error:
        why_not = str(error)
    if why_not:
        raise WheelError(f"the page: {why_not}")
    shutil.rmtree(folder, ignore_errors=True)
    parts = ["pyproject.toml", "MANIFEST.in", "LICENSE", "README.md", "runtime", "native", "operator"]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z", *parts],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copy2(ROOT / "LICENSE", folder / "operator" / "LICENSE")
    shutil.copytree(page.STATIC, folder / page.STATIC.relative_to(ROOT))  # which git does not know
    return folder


def maturin(source: Path, target: str, out: Path) -> None:
    """One wheel. Cargo's own folder is the checkout's, so a second build is quick."""
    environment = {
        "CARGO_TARGET_DIR": str(ROOT / "native" / "target"),
        **os.environ,
        "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(TOOLS),
    }
    options = [
        "--release",
        "--locked",
        "--zig",
        "--target",
        target,
        "--compatibility",
        GLIBC,
        "--out",
        str(out),
    ]
    run(str(TOOLS / "bin" / "maturin"), "build", "--quiet", *options, cwd=source, environment=environment)


def look_into(wheel: Path) -> None:
    """A wheel without the kernel would be installed without a word, and be slow."""
    names = zipfile.ZipFile(wheel).namelist()
    if "flamestream/_kernel.abi3.so" not in names or "flamestream/py.typed" not in names:
        raise WheelError(f"{wheel.name} has no kernel: {[name for name in names if name.endswith('.so')]}")
    if "flamestream/ui/static/index.html" not in names:
        raise WheelError(f"{wheel.name} has no page (flamestream/ui/static)")


if __name__ == "__main__":
    sys.exit(main())
