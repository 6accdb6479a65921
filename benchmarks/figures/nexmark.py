"""Nexmark: what an event costs each query, ours beside Flink SQL, as events a second of one core.

    make bench BENCH_ARGS=nexmark                                        # all queries, two sizes of input, both systems: hours
    python benchmarks nexmark --queries q0,q5 --systems flamestream      # a part

Both read the same file of JSON lines and drop what comes out; both are exactly once, with a checkpoint a second, on one worker or slot.
Counted is the CPU time of the whole process tree for two sizes of input: what a start costs, and what a virtual machine compiles,
drops out of their difference. A clock would measure this machine's other users too.

Does not: measure latency, or compare rows (tests/unit/benchmarks/nexmark/ does, for ours).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from harness import BENCHMARKS, JOBS, PATHS
from harness.drive import machine, noise
from nexmark.flink_sql import FLINK_SQL, script
from nexmark.generator import generated
from nexmark.queries import MEASURED as QUERIES
from systems.base import Failed, NotHere
from systems.environments import CACHE
from systems.flink_sql import FlinkSql

OUT = BENCHMARKS.parent / ".cache" / "bench" / "nexmark.jsonl"
DEADLINE = 3600.0
"""Seconds of a run."""


def events_file(count: int) -> Path:
    """The first `count` events as JSON lines, made once."""
    file = CACHE / "nexmark" / f"events-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        encoder, part = msgspec.json.Encoder(), file.with_suffix(".part")
        with part.open("wb") as lines:
            lines.writelines(encoder.encode(event) + b"\n" for event in generated(count))
        part.rename(file)
    return file


def ours(query: str, events: Path, folder: Path) -> float:
    """CPU seconds of a job of ours from start to end: a plain worker process without Spark."""
    spec = {
        "application": {"file": str(JOBS / "nexmark_graphs.py"), "graph": query},
        "sources": {"events": {"files": {"path": str(events), "records": "lines"}}},
        "sinks": {"results": {"connector": {"class": "nexmark.blackhole:Blackhole"}}},
        "guarantee": "exactly-once",
        "workers": {"replicas": 1},
        "checkpoint": {"interval": "1s", "store": str(folder / "store")},
    }
    manifest = {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": {"name": query}, "spec": spec}
    (folder / "job.yaml").write_text(json.dumps(manifest))
    command = [sys.executable, "-m", "flamestream.cli.main", "run", str(folder / "job.yaml"), "--run-folder", str(folder / "run")]
    path = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH", "")]))
    return cpu_seconds([*command, "--no-spark"], {"PYTHONPATH": path})


def flink(query: str, events: Path, folder: Path) -> float:
    """CPU seconds of a Flink SQL script from start to end, in one virtual machine."""
    statements = folder / "query.sql"
    statements.write_text(script(query, events))
    return cpu_seconds(FlinkSql.command(statements, folder), {})


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Of a process and all that it waited for. Raises Failed with its last words if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise Failed(f"it ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


SYSTEMS: dict[str, Callable[[str, Path, Path], float]] = {"flamestream": ours, "flink-sql": flink}


def measured(system: str, query: str, sizes: tuple[int, int]) -> dict[str, Any]:
    """A line of results: CPU seconds of both sizes, and the events a second of one core that their difference says."""
    before, seconds = noise(), []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name:
            seconds.append(round(SYSTEMS[system](query, events_file(size), Path(name)), 2))
    more = seconds[1] - seconds[0]
    rate = round((sizes[1] - sizes[0]) / more) if more > 0 else None
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    found = {"kind": "nexmark", "system": system, "query": query, "sizes": sizes, "cpu_seconds": seconds, "events_per_core_second": rate}
    return found | {"machine": machine(), "noise": before, "when": when}


def runs(queries: list[str], systems: list[str]) -> list[tuple[str, str]]:
    """System and query of each, by turns, so that a busy hour meets both. Flink SQL has no q6 and no q13."""
    return [(system, query) for query in queries for system in systems if query in (QUERIES if system == "flamestream" else FLINK_SQL)]


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a query a line, events a second of one core of each system, and ours divided by the other's."""
    rates = {(row["query"], row["system"]): row["events_per_core_second"] for row in rows}
    lines = ["| query | flamestream | flink-sql | share |", "|---|---|---|---|"]
    for query in dict.fromkeys(row["query"] for row in rows):
        mine, other = (rates.get((query, system)) for system in SYSTEMS)
        share = f"{mine / other:.2f}" if mine and other else ""
        lines.append(f"| {query} | {mine or ''} | {other or ''} | {share} |")
    return "\n".join(lines)


def ready(systems: list[str]) -> list[str]:
    """Those that can run here."""
    if "flink-sql" in systems:
        try:
            FlinkSql.prepare()
        except NotHere as reason:
            print(f"flink-sql is left out: {reason}", file=sys.stderr)
            return [system for system in systems if system != "flink-sql"]
    return systems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default=",".join(sorted(QUERIES, key=lambda name: int(name[1:]))))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--events", type=int, default=1_000_000, help="of the larger input")
    parser.add_argument("--base", type=int, default=200_000, help="of the smaller one")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, added to")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for system, query in runs(options.queries.split(","), ready(options.systems.split(","))):
        try:
            rows.append(measured(system, query, (options.base, options.events)))
        except Failed as reason:
            print(f"{system}, {query}: no result: {reason}", file=sys.stderr)
            continue
        with options.out.open("a") as out:
            out.write(json.dumps(rows[-1]) + "\n")
        print(f"{system}, {query}: {rows[-1]['cpu_seconds']} s, {rows[-1]['events_per_core_second']} events/s a core", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
