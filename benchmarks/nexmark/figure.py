"""Nexmark, ours beside Flink SQL: what an event costs each query, what it takes to a row's receipt, and what
a failure costs.

    make bench BENCH_ARGS=nexmark                                        # all of it: some 40 minutes
    python benchmarks nexmark --queries q0,q5 --measures latency         # a part
    python benchmarks nexmark --table                                    # what is there so far

Both are exactly once, with a checkpoint a second, on one worker or slot.

    rows          Flink's rows for 20,000 events, beside DuckDB's
    throughput    both read one file of JSON lines and drop what comes out. Counted is the CPU time of all
                  processes for two sizes of input: what a start costs, and what a virtual machine compiles,
                  drops out of their difference. A clock would measure this machine's other users too
    latency       both read and write sockets (nexmark/paced.py): at 80% of what each one takes, at a fixed
                  rate, and through a failure

A line of results is written as soon as it is there, and what is there is not measured again; `--again` begins
anew. What cannot be measured has a reason instead.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from harness.drive import machine, noise
from harness.report import CACHE
from harness.results import load
from harness.rows import keep, set_aside
from systems.base import Command, Failed, NotHere
from systems.flink_sql import FlinkSql

from nexmark.changes import change, left
from nexmark.events import Event
from nexmark.flink_sql import FLINK_SQL, KEYS
from nexmark.generator import Configuration, Generator, side_input
from nexmark.oracle import Oracle
from nexmark.paced import paced
from nexmark.queries import MEASURED as QUERIES
from nexmark.sides import SIDES, OfFlink, Side
from nexmark.table import nexmark_table

OUT: Final = CACHE / "nexmark.jsonl"
DEADLINE: Final = 3600.0
"""Seconds of a run over a file."""
COMPARED: Final = 20_000
"""Events that rows are compared for."""
COMPARABLE: Final = FLINK_SQL.keys() - {"q12"}
"""Not by the clock."""
PACED_EVENTS: Final = 1_300_000
"""More than the phases of a run take."""
PACED: Final = Configuration(rate=500)
"""Slower in event time than they leave, so that some windows end within seconds."""


def events_file(count: int, configuration: Configuration) -> Path:
    """The first `count` events as JSON lines, made once."""
    file = CACHE / "nexmark" / f"events-{configuration.seed}-{configuration.rate}-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        encoder, part = msgspec.json.Encoder(), file.with_suffix(".part")
        with part.open("wb") as lines:
            lines.writelines(encoder.encode(event) + b"\n" for event in _generated(count, configuration))
        part.rename(file)
    return file


def _generated(count: int, configuration: Configuration) -> Iterator[Event]:
    return map(Generator(configuration).event, range(count))


def throughput(side: Side, query: str, sizes: tuple[int, int]) -> dict[str, Any]:
    """CPU seconds of both sizes, and the events a second of one core that their difference says. Raises
    Failed."""
    seconds = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name:
            seconds.append(
                round(cpu_seconds(side.over_file(query, events_file(size, Configuration()), Path(name))), 2)
            )
    more = seconds[1] - seconds[0]
    rate = round((sizes[1] - sizes[0]) / more) if more > 0 else None
    return {"sizes": sizes, "cpu_seconds": seconds, "events_per_core_second": rate}


def cpu_seconds(command: Command) -> float:
    """Of a process and all that it waited for. Raises Failed with its last words if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | command.environment
    done = subprocess.run(
        command.argv, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise Failed(f"it ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(queries: list[str]) -> dict[str, dict[str, Any]]:
    """By query: how many rows Flink gives, and whether they are DuckDB's. Raises Failed."""
    configuration = Configuration(seed=1, rate=200)
    events = list(_generated(COMPARED, configuration))
    arrivals = [Generator(configuration).arrival(number) for number in range(COMPARED)]
    with (
        tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name,
        Oracle(events, arrivals, side_input()) as oracle,
    ):
        cpu_seconds(OfFlink().into_files(queries, events_file(COMPARED, configuration), Path(name)))
        found = {}
        for query in queries:
            rows = left(map(change, (Path(name) / query).read_bytes().splitlines()), KEYS.get(query, 0))
            found[query] = {"rows": len(rows), "equal": rows == oracle.rows(query)}
    return found


class Table:
    """A file of results, and what is still to be measured for it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rows = load(file) if file.exists() else []
        self._there = {(row["measure"], row["system"], row["query"]) for row in self.rows}

    def lacks(self, measure: str, system: str, query: str) -> bool:
        return (measure, system, query) not in self._there

    def add(self, measure: str, side: Side, query: str, call: Callable[[], dict[str, Any]]) -> None:
        """Measure, and write what came out, or why nothing did."""
        if not self.lacks(measure, side.name, query):
            return
        before = noise()
        try:
            found = call()
        except Failed as reason:
            print(f"{side.name}, {query}: no result: {reason}", file=sys.stderr)
            found = {"reason": str(reason).splitlines()[0]}
        where = {"versions": side.versions(), "machine": machine(), "noise": before}
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row = (
            {"measure": measure, "system": side.name, "query": query, "result": found}
            | where
            | {"when": when}
        )
        keep(self._file, row)
        self.rows.append(row)
        print(f"{measure}, {side.name}, {query}: {json.dumps(found)}  load={before['load']}", flush=True)


def latency(side: Side, query: str, events: int, rate: float) -> dict[str, Any]:
    """Latencies and the gap. Raises Failed."""
    return paced(side, query, events_file(events, PACED), rate)


def measure(table: Table, options: argparse.Namespace, sides: list[Side]) -> None:
    """Every query of every side, by turns, so that a busy hour meets both."""
    queries, measures = options.queries.split(","), options.measures.split(",")
    if "rows" in measures and SIDES[OfFlink.name] in sides:
        comparable = [
            query for query in queries if query in COMPARABLE and table.lacks("rows", OfFlink.name, query)
        ]
        found = compared(comparable) if comparable else {}
        for query in comparable:
            table.add("rows", SIDES[OfFlink.name], query, partial(found.__getitem__, query))
    for query in queries:
        for side in sides:
            if "throughput" in measures and query in side.queries:
                table.add(
                    "throughput",
                    side,
                    query,
                    partial(throughput, side, query, (options.base, options.events)),
                )
            if "latency" in measures and query in side.queries:
                table.add(
                    "latency", side, query, partial(latency, side, query, options.paced_events, options.rate)
                )


def ready(names: list[str]) -> list[Side]:
    """Those that can run here."""
    if OfFlink.name in names:
        try:
            FlinkSql.prepare()
        except NotHere as reason:
            print(f"{OfFlink.name} is left out: {reason}", file=sys.stderr)
            names = [name for name in names if name != OfFlink.name]
    return [SIDES[name] for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--queries",
        default=",".join(sorted(QUERIES.keys() | FLINK_SQL.keys(), key=lambda name: int(name[1:]))),
    )
    parser.add_argument("--systems", default=",".join(SIDES))
    parser.add_argument("--measures", default="rows,throughput,latency")
    parser.add_argument("--events", type=int, default=800_000, help="of the larger input of throughput")
    parser.add_argument("--base", type=int, default=200_000, help="of the smaller one")
    parser.add_argument("--paced-events", type=int, default=PACED_EVENTS, help="that latency has at most")
    parser.add_argument("--rate", type=float, default=5_000.0, help="events a second, the same for both")
    parser.add_argument(
        "--out", type=Path, default=OUT, help="lines of JSON; what is in them is not measured again"
    )
    parser.add_argument("--again", action="store_true", help="set an older file aside, and measure all")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.again:
        set_aside(options.out)
    table = Table(options.out)
    if not options.table:
        measure(table, options, ready(options.systems.split(",")))
    print(nexmark_table(table.rows))


if __name__ == "__main__":
    main()
