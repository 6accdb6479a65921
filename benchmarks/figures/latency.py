"""Latency of the inverted index at a fixed rate, by guarantee and checkpoint interval. (What a kill costs:
recovery.py.)

    python benchmarks latency                               # the table of docs/explanation/performance.md
    python benchmarks latency --intervals 50ms,1s --documents 600 --guarantees exactly-once

A document's latency is from when it was due to be sent by an outside process to the receipt of its last
change by another, on one clock. Rounds rotate the order of the systems, so that a busy machine is busy for
all. Results go to standard output as a table, or as JSON.
"""

import argparse
import json
import uuid
from typing import Any

from harness.job import FUNCTIONS, Settings, noise, run


def main() -> None:
    options = _options()
    cells = [
        (g, i)
        for g in options.guarantees.split(",")
        for i in (options.intervals.split(",") if g != "none" else ["1s"])
    ]
    rows: list[dict[str, Any]] = []
    for turn in range(options.rounds):
        for guarantee, interval in cells[turn % len(cells) :] + cells[: turn % len(cells)]:
            rows.append(_measure(options, guarantee, interval))
            print(json.dumps(rows[-1]) if options.json else _line(rows[-1]), flush=True)


def _measure(options: argparse.Namespace, guarantee: str, interval: str) -> dict[str, Any]:
    settings = Settings(
        guarantee,
        interval,
        options.documents,
        options.rate,
        options.warm_up,
        options.workers,
        options.standby,
    )
    settings.spark = not options.no_spark
    settings.functions = options.functions
    settings.master = options.master
    settings.mean = options.mean
    settings.fsync = not options.no_fsync
    place, mark, query = options.store.partition("?")
    settings.store = f"{place}/{uuid.uuid4().hex}{mark}{query}" if place else ""
    before = noise()
    return {"guarantee": guarantee, "interval": interval} | run(settings).row() | before


def _line(row: dict[str, Any]) -> str:
    return "  ".join(f"{key}={value}" for key, value in row.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--guarantees", default="exactly-once,none")
    parser.add_argument("--intervals", default="50ms,500ms,1s")
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--warm-up", type=int, default=250)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--standby", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--master", default="", help="a Spark master, e.g. local-cluster[2,1,1024]")
    parser.add_argument("--functions", choices=list(FUNCTIONS), default="rows")
    parser.add_argument("--mean", type=int, default=Settings().mean, help="words of a document")
    parser.add_argument(
        "--store", default="", help="s3://BUCKET?endpoint=URL, keys in the environment; else a folder"
    )
    parser.add_argument("--no-spark", action="store_true", help="workers as plain processes")
    parser.add_argument(
        "--no-fsync", action="store_true", help="a journal that survives processes and not the machine"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
