"""Latency of the inverted index at a fixed rate, by guarantee and checkpoint interval, and the output gap of a killed worker.

    python benchmarks/latency.py                               # the table of docs/performance.md
    python benchmarks/latency.py --intervals 50ms,1s --documents 600 --guarantees exactly-once
    python benchmarks/latency.py --kill worker --standby 1

A document's latency is from its sending by an outside process to the receipt of its last change by another, on one clock. Rounds
rotate the order of the systems, so that a busy machine is busy for all. Results go to standard output as a table, or as JSON.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from job import Settings, noise, run


def main() -> None:
    options = _options()
    cells = [(g, i) for g in options.guarantees.split(",") for i in (options.intervals.split(",") if g != "none" else ["1s"])]
    rows: list[dict[str, Any]] = []
    for turn in range(options.rounds):
        for guarantee, interval in cells[turn % len(cells) :] + cells[: turn % len(cells)]:
            rows.append(_measure(options, guarantee, interval))
            print(json.dumps(rows[-1]) if options.json else _line(rows[-1]), flush=True)


def _measure(options: argparse.Namespace, guarantee: str, interval: str) -> dict[str, Any]:
    settings = Settings(guarantee, interval, options.documents, options.rate, options.warm_up, options.workers, options.standby)
    settings.spark = not options.no_spark
    settings.master = options.master
    before = noise()
    kill = (lambda folder: _kill(folder, options.kill, options.kill_after)) if options.kill else None
    outcome = run(settings, kill)
    return {"guarantee": guarantee, "interval": interval} | outcome.row() | before


def _kill(folder: Path, role: str, after: float) -> None:
    """Kill one process of `role` with SIGKILL, `after` seconds after the job runs."""
    status = folder / "status.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if status.exists() and json.loads(status.read_text()).get("phase") == "running":
            break
        time.sleep(0.05)
    time.sleep(after)
    found = json.loads(status.read_text())
    pid = {"worker": lambda: _worker_pid(found)}[role]()
    print(f"killing {role} {pid}", file=sys.stderr)
    os.kill(pid, signal.SIGKILL)


def _worker_pid(status: dict[str, Any]) -> int:
    """The last worker that has slots: not the acker's, whose loss would also cost the front."""
    return int(status["workers"][-1]["pid"])


def _line(row: dict[str, Any]) -> str:
    return "  ".join(f"{key}={value}" for key, value in row.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantees", default="exactly-once,none")
    parser.add_argument("--intervals", default="50ms,500ms,1s")
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--warm-up", type=int, default=250)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--standby", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--master", default="", help="a Spark master, e.g. local-cluster[2,1,1024]")
    parser.add_argument("--no-spark", action="store_true", help="workers as plain processes")
    parser.add_argument("--kill", choices=["worker"], default="")
    parser.add_argument("--kill-after", type=float, default=10.0, help="seconds after the job runs")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
