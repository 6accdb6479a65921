"""What the verdict on a history takes: `python benchmarks definitions [ITEMS ...]`.

| row | measures |
|---|---|
| comparison | the witness alone: a run's results beside what came out, both at hand |
| history | `audit --history` on a file, with reading it and interpreting its records |
| two partitions | the same of a file whose order explains nothing, so that each key is searched |

CPU time, for other processes are about, and the most memory. Each row is a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from flamestream.audit.definitions.witness import Witness
from flamestream.audit.judged_history import judged_history
from flamestream.job.manifest import read
from flamestream.job.validation import checked_job

KEYS: Final = 10_000
APPLICATION: Final = """\
import flamestream as fs

graph = fs.Graph("sums")
graph.source("orders").reduce(
    key=lambda order: order[0],
    initial=int,
    combine=lambda total, order: total + order[1],
    emit=lambda total, order: (order[0], total),
).sink("totals", key=lambda pair: pair[0])
"""
MANIFEST: Final = """\
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: sums}
spec:
  application: {file: sums_of_a_history.py, graph: graph}
  sources: {orders: {files: {path: orders, format: jsonl}}}
  sinks: {totals: {files: {path: totals}}}
  workers: {replicas: 1}
  checkpoint: {interval: 1s, store: snapshots}
"""


def comparison(items: int, folder: Path) -> None:
    """Results come in runs of 64, which are seen together."""
    witness = Witness()
    for first in range(0, items, 64):
        for place in range(first, min(items, first + 64)):
            witness.made(("totals", place % KEYS), place)
        for place in range(first, min(items, first + 64)):
            assert witness.left(("totals", place % KEYS), place), place
    assert not witness.waits


def history(items: int, folder: Path) -> None:
    """Each record, and its result."""
    _judged(folder, _lines(items))


def two_partitions(items: int, folder: Path) -> None:
    """The records of each pair were taken in the other order."""
    _judged(folder, _pairs(items))


ROWS: Final[dict[str, Callable[[int, Path], None]]] = {
    "comparison": comparison,
    "history": history,
    "two partitions": two_partitions,
}


def _lines(items: int) -> Iterator[str]:
    totals = [0] * KEYS
    for place in range(items):
        key, amount = place % KEYS, place % 97
        totals[key] += amount
        yield json.dumps({"in": "orders", "value": [key, amount]})
        yield json.dumps({"out": "totals", "key": key, "value": [key, totals[key]]})


def _pairs(items: int) -> Iterator[str]:
    totals = [0] * KEYS
    for place in range(0, items, 2):
        key, amounts = place % KEYS, (place % 97, place % 97 + 1)
        for partition, amount in enumerate(amounts):
            yield json.dumps({"in": "orders", "partition": partition, "value": [key, amount]})
        for amount in reversed(amounts):
            totals[key] += amount
            yield json.dumps({"out": "totals", "key": key, "value": [key, totals[key]]})


def _judged(folder: Path, lines: Iterator[str]) -> None:
    (folder / "sums_of_a_history.py").write_text(APPLICATION)
    (folder / "sums.yaml").write_text(MANIFEST)
    with (folder / "seen.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.write('{"end": true}\n')
    begin = time.process_time()
    report = judged_history(checked_job(read(folder / "sums.yaml")), folder / "seen.jsonl")
    assert report.verdict == "holds", report.reason
    _say(begin)


def _say(begin: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{time.process_time() - begin:.1f} s of CPU, {peak:,} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("items", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--row", choices=ROWS, help="this row alone, in this process")
    asked = parser.parse_args()
    for items in asked.items:
        for row in ROWS if asked.row is None else ():
            print(f"{row}, {items:,} items: ", end="", flush=True)
            subprocess.run([sys.executable, *_again(), str(items), "--row", row], check=True)
        if asked.row is not None:
            with tempfile.TemporaryDirectory() as folder:
                begin = time.process_time()
                ROWS[asked.row](items, Path(folder))
                if asked.row == "comparison":
                    _say(begin)


def _again() -> list[str]:
    return [str(Path(__file__).resolve().parent.parent), "definitions"]


if __name__ == "__main__":
    main()
