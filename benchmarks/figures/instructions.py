"""Instructions a record of the core's hot paths, counted by valgrind: a slowdown is seen where a busy machine
hides it from clocks.

    python benchmarks instructions                  # count again, beside instructions.json; 1 if a path got dearer
    python benchmarks instructions --keep           # after a change that is meant: write the file
    python benchmarks instructions --paths native

Each path is core.py, run for some documents and for twice as many; the difference is what the second half
cost, without the start of the interpreter. Transfers are those of bank/alone.py, in epochs. Some minutes in all. Needs
valgrind; the machine's load does not matter, the interpreter's version does, so it is kept too.

Keeps: the same work in every count (the corpus is seeded, hashes are fixed). Does not: see waiting, sockets
or caches.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from harness import PATHS as MODULES
from harness.corpus import documents

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "results" / "instructions.json"
DOCUMENTS = 40
TOLERANCE = 1.02
"""A path may cost this much more before it counts: counts of the same code differ by less than 1%."""
TRANSFERS = 20_000, 100_000
"""An epoch, and five: less, and what two processes differ by would be more than 1% of it."""
PATHS = {
    "native": ["--epoch", "1000000"],
    "native, an epoch every 10 documents": ["--epoch", "10"],
    "native, one run in 20 traced": ["--epoch", "1000000", "--traced", "20"],
    "native, counting words": ["--epoch", "1000000", "--job", "counts"],
    "python": ["--epoch", "1000000", "--reference"],
    "native, transfers": [],
}


def count(arguments: list[str]) -> int:
    """Of a whole process."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(MODULES),
    }
    done = subprocess.run(
        [*valgrind, sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return total(done.stderr)


def total(said: str) -> int:
    """What cachegrind says at its end."""
    found = re.search(r"I\s+refs:\s+([\d,]+)", said)
    if found is None:
        raise SystemExit(f"no count in what valgrind said:\n{said[-2000:]}")
    return int(found[1].replace(",", ""))


def a_record(path: str) -> int:
    """Instructions of one."""
    if path == "native, transfers":
        few, many = (count(["-m", "bank.alone", str(each)]) for each in TRANSFERS)
        return round((many - few) / (TRANSFERS[1] - TRANSFERS[0]))
    command = ["-m", "figures.core", *PATHS[path]]
    some, twice = (
        count([*command, "--documents", str(each), "--step", str(each)])
        for each in (DOCUMENTS, 2 * DOCUMENTS)
    )
    records = sum(
        len(set(line.partition("\t")[2].split()))
        for line in islice(documents(2 * DOCUMENTS), DOCUMENTS, None)
    )
    return round((twice - some) / records)


def dearer(kept: dict[str, int], found: dict[str, int]) -> dict[str, float]:
    """Paths that cost more than they may, with the ratio."""
    ratios = {path: instructions / kept[path] for path, instructions in found.items() if path in kept}
    return {path: ratio for path, ratio in ratios.items() if ratio > TOLERANCE}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="write the file")
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=list(PATHS))
    options = parser.parse_args()
    before: dict[str, Any] = (
        json.loads(KEPT.read_text()) if KEPT.exists() else {"python": "", "instructions_a_record": {}}
    )
    if before["python"] not in ("", platform.python_version()):
        print(
            f"the file is of Python {before['python']}, this is {platform.python_version()}: "
            "ratios mean little",
            file=sys.stderr,
        )
    kept: dict[str, int] = before["instructions_a_record"]
    found: dict[str, int] = {}
    for path in options.paths:
        found[path] = a_record(path)
        beside = f"  {found[path] / kept[path]:.3f} of what is kept" if path in kept else ""
        print(f"{path}: {found[path]:,} instructions a record{beside}", flush=True)
    if options.keep:
        rows = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "instructions_a_record": kept | found,
        }
        KEPT.write_text(json.dumps(rows, indent=2) + "\n")
        return 0
    for path, ratio in (bad := dearer(kept, found)).items():
        print(f"{path} costs {ratio:.3f} of what is kept; if that is meant: --keep", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
