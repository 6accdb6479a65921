"""Build the page of `flamestream ui`: `page/` becomes a few files in the package, which its wheel has.

    python scripts/page.py

Cached by content: a stamp beside the files holds a hash of all that they are made from. Needs Node >= 20 with npm,
which takes what `page/package-lock.json` pins by hash from the registry that is configured. Without them nothing is
built, and `flamestream ui` says so; everything else works.

Keeps: the files are at most MOST bytes as a browser gets them. Does not: run what packages would run when they are
installed (`page/.npmrc`).
"""

import gzip
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "page"
STATIC = ROOT / "runtime" / "flamestream" / "ui" / "static"
STAMP = STATIC / "built-from"
OLDEST = 20
MOST = 300_000


class PageError(Exception):
    """The page cannot be built; the message says why."""


def main() -> int:
    """Exit code of the script: 0 if the page is there, as it would be built now."""
    try:
        why_not = built()
    except PageError as error:
        print(f"page: {error}", file=sys.stderr)
        return 1
    if why_not:
        print(f"page: {why_not}", file=sys.stderr)
    return 1 if why_not else 0


def built() -> str:
    """Build it if it is not there as it would be now. Why it is not; "" if it is."""
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return ""
    if why_not := without_node():
        return why_not
    print("page: building (npm, vite)", flush=True)
    run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    run("npm", "run", "--silent", "check")
    run("npm", "run", "--silent", "build")
    if (size := packed()) > MOST:
        raise PageError(f"it is {size:,} bytes as gzip, and {MOST:,} are allowed")
    STAMP.write_text(wanted)
    return ""


def fingerprint() -> str:
    """A hash of all that it is made from."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(PAGE.rglob("*")):
        if file.is_file() and "node_modules" not in file.parts:
            digest.update(f"{file.relative_to(PAGE)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def without_node() -> str:
    """Why it cannot be built here; "" if it can."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return f"not built: there is no Node >= {OLDEST} with npm; only `flamestream ui` needs it"
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = said.strip().lstrip("v").partition(".")[0]
    if not version.isdecimal() or int(version) < OLDEST:
        return f"not built: {node} is {said.strip() or 'broken'}, and Node >= {OLDEST} is needed"
    return ""


def packed() -> int:
    """The bytes of all its files, as gzip."""
    return sum(len(gzip.compress(file.read_bytes())) for file in STATIC.rglob("*") if file.is_file())


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=PAGE, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise PageError(f"`{' '.join(command)}` in {PAGE} failed with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
