"""Programs in event time, ours alone: what an event costs, what keys that expire leave behind, how soon a
count is there, how long a test waits.

    python benchmarks time                              # all of it: some ten minutes
    python benchmarks time --measures count,join        # a part

    count, join, process   a tumbling count, an interval join with functions of one's own, sessions by
                           `process`: JSON lines of a file, one worker, results dropped. Counted is the CPU
                           time of the worker's process for two sizes of input, so that starting drops out
    ttl                    keys that are forgotten an hour after their last touch: the memory of the worker's
                           process and the bytes of the committed snapshot, by hour of event time
    latency                a tumbling count between sockets, from when the event that closes a window was due
    run                    importing the library, and `graph.run` of a small test, in a process of its own

A line of results is written as soon as it is there. Other users of the machine disturb CPU time less than a
clock's.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from harness import JOBS, PATHS
from harness.drive import noise, where
from harness.job_file import manifest_of, run_command
from harness.report import CACHE
from harness.rows import keep, set_aside
from harness.tables.time import time_table
from nexmark.causes import by_end
from nexmark.figure import PACED, events_file
from nexmark.paced import paced
from systems.base import Command, Failed, start, stop

from flamestream.node.run_folder import RunFolder

OUT: Final = CACHE / "time.jsonl"
HOUR: Final = 3_600_000_000
"""Microseconds."""
POLL: Final = 0.1
"""Seconds between two looks at a run."""
FEW, MANY = 1_000, 10_000
"""Users: each has ten clicks, or one, in ten seconds."""
RATE: Final = 5_000.0
"""Events a second of `latency`."""
NOWHERE: Final = {"connector": {"class": "nexmark.blackhole:Blackhole"}}
IMPORTS: Final = 9
"""Processes that import the library."""
TEST: Final = """
import time
began = time.perf_counter()
import flamestream as fs
imported = time.perf_counter()

@fs.event
class Click:
    user: str
    at: int

def tested():
    began = time.perf_counter()
    graph = fs.Graph("clicks")
    clicks = graph.source("clicks", Click, at="at", unit="s", late="5s")
    counts = clicks.window(fs.tumbling("1m"), key="user").count()
    counts.sink("counts")
    counts.late.sink("late")
    found = graph.run(clicks=[Click("ann", 3), Click("ann", 70), Click("bob", 8), Click("ann", 75)])
    assert [(window.key, window.value) for window in found["counts"]] == [("ann", 1), ("ann", 2)]
    assert found["late"] == [Click("bob", 8)]
    return (time.perf_counter() - began) * 1000

print(imported - began, tested(), min(tested() for _ in range(9)))
"""


def command(graph: str, sources: dict[str, Any], folder: Path, sink: Any = NOWHERE, **more: Any) -> Command:
    """A run of ours, exactly once, on one worker without Spark."""
    spec = {
        "application": {"file": str(JOBS / "time_graphs.py"), "graph": graph},
        "sources": sources, "sinks": {"results": sink}, "guarantee": "exactly-once",
        "workers": {"replicas": 1},
        "checkpoint": {"interval": "1s", "store": str(folder / "store")},
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH")]))
    argv = [*run_command(folder, manifest_of(graph.replace("_", "-"), spec | more)), "--no-spark"]
    return Command(argv, {"PYTHONPATH": path})


class Look(NamedTuple):
    """One look at a run."""

    at: int
    """How far event time has come, in microseconds."""
    memory: int
    """Bytes of the worker's process."""
    snapshot: int
    """Bytes of the committed snapshot."""
    spent: float
    """CPU seconds of the worker's process so far."""


def looks(graph: str, source: dict[str, Any]) -> Iterator[Look]:
    """Looks at a run until its end. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        running = start(command(graph, source, folder), folder)
        try:
            while running.process.poll() is None:
                time.sleep(POLL)
                if (found := look(RunFolder(folder / "run"))) is not None:
                    yield found
        finally:
            stop(running)
        if running.process.returncode:
            raise Failed(running.tail())


def look(run: RunFolder) -> Look | None:
    """None if the worker has told nothing yet, or has just ended."""
    status = run.status()
    worker = run.worker(status.workers[0].worker) if status and status.workers else None
    at = next(iter(status.event_times.values()), None) if status else None
    if status is None or worker is None or at is None:
        return None
    try:
        pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
        times = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except (FileNotFoundError, ProcessLookupError):
        return None
    spent = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return Look(at, pages * os.sysconf("SC_PAGE_SIZE"), status.snapshot_size, spent)


# --- what an event costs ------------------------------------------------------------------------------------


def clicks_file(count: int, users: int) -> Path:
    """Clicks of random users, a millisecond apart, as JSON lines; made once."""
    file = CACHE / "time" / f"clicks-{users}-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        with part.open("w") as lines:
            lines.writelines(json.dumps(click) + "\n" for click in _clicks(count, users))
        part.rename(file)
    return file


def _clicks(count: int, users: int) -> Iterator[dict[str, str]]:
    draw, begin = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(count):
        at, user = begin + timedelta(milliseconds=number), f"u{draw.randrange(users)}"
        yield {"id": f"c{number}", "user": user, "page": f"/{number % 100}", "at": at.isoformat()}


def cost(graph: str, users: int, sizes: tuple[int, int]) -> dict[str, Any]:
    """Microseconds of the worker's CPU time an event, from two sizes of input. Raises Failed."""
    seconds = []
    for size in sizes:
        source = {"clicks": {"files": {"path": str(clicks_file(size, users)), "records": "lines"}}}
        seconds.append(max(each.spent for each in looks(graph, source)))
    spent = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    rate = {"us_an_event": round(spent * 1e6, 2), "events_per_core_second": round(1 / spent)}
    return {"sizes": sizes, "cpu_seconds": seconds} | rate


# --- keys that expire ---------------------------------------------------------------------------------------


def expiring(an_hour: int, hours: int) -> dict[str, Any]:
    """What the worker's process and the committed snapshot hold in each hour of event time. Raises Failed."""
    events, seen, spent = an_hour * hours * 5 // 4, dict[int, list[Look]](), 0.0
    generator = {"count": events, "function": f"time_graphs:touch_{an_hour}"}
    for each in looks("expiring", {"touches": {"generator": generator}}):
        if each.at < HOUR * hours:
            seen.setdefault(each.at // HOUR + 1, []).append(each)
            spent = each.spent
    rows = [{"hour": hour, **held(its)} for hour, its in sorted(seen.items())]
    cost_of_one = round(spent / events * 1e6, 2)
    return {"keys": an_hour * hours, "events": events, "us_an_event": cost_of_one, "hours": rows}


def held(looks: list[Look]) -> dict[str, Any]:
    """The least, the median and the most of an hour, in MB. Medians also say where in an hour the snapshot was
    made anew, by which its size swings between one and two times what lives: the least does not."""
    memory, snapshot = ([each.memory >> 20 for each in looks], [each.snapshot >> 20 for each in looks])
    return {
        "memory_least": min(memory), "memory": round(statistics.median(memory)), "memory_most": max(memory),
        "snapshot_least": min(snapshot), "snapshot": round(statistics.median(snapshot)),
        "snapshot_most": max(snapshot),
    }  # fmt: skip


# --- how soon, and how long ---------------------------------------------------------------------------------


class Counting:
    """`nexmark.sides.Side` of a tumbling count of bids."""

    name = "flamestream"
    form: Literal["wire", "lines"] = "wire"
    queries: Iterable[str] = ("bid_counts",)

    def versions(self) -> dict[str, str]:
        return {}

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        return command(query, {"events": {"files": {"path": str(events), "records": "lines"}}}, folder)

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        begin, end = ({"socket": {"address": f"127.0.0.1:{port}"}} for port in (source, sink))
        return command(query, {"events": begin}, folder, end, journal={"folder": str(folder / "journal")})


def latency(events: int) -> dict[str, Any]:
    """p50 and p99 of a count's receipt, and the rate. Raises Failed."""
    of_end = by_end(lambda row: row[2])
    found = paced(Counting(), "bid_counts", events_file(events, PACED), RATE, lambda _, each: of_end(each))
    return dict(found["fixed"])


def tested() -> dict[str, Any]:
    """Medians over processes: seconds to import the library, and ms to build and run a test's graph the first
    time and when what it needs is there. Its modules are compiled before, as installing does it."""
    compiled = {"PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    environment = os.environ | {"PYTHONPATH": PATHS[0]} | compiled
    _, *runs = [
        subprocess.run(
            [sys.executable, "-c", TEST], env=environment, capture_output=True, check=True
        ).stdout.split()
        for _ in range(IMPORTS + 1)
    ]
    imported, first, again = (statistics.median(map(float, column)) for column in zip(*runs, strict=True))
    return {"import_s": round(imported, 3), "first_ms": round(first, 1), "again_ms": round(again, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measures", default="count,join,process,ttl,latency,run")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="of the larger input of what an event costs"
    )
    parser.add_argument("--base", type=int, default=200_000, help="of the smaller one")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of `ttl` that are new in an hour")
    parser.add_argument("--hours", type=int, default=10, help="of event time of `ttl`")
    parser.add_argument("--paced-events", type=int, default=1_300_000, help="that latency has at most")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    parser.add_argument("--again", action="store_true", help="set an older file aside")
    options = parser.parse_args()
    sizes = options.base, options.events
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "count": partial(cost, "counts", FEW, sizes),
        "join": partial(cost, "joined", MANY, sizes),
        "process": partial(cost, "sessions", MANY, sizes),
        "ttl": partial(expiring, options.keys, options.hours),
        "latency": partial(latency, options.paced_events),
        "run": tested,
    }  # fmt: skip
    if options.again:
        set_aside(options.out)
    rows = []
    for name in options.measures.split(","):
        before = noise()
        found = measures[name]()
        rows.append({"measure": name, "result": found, "noise": before} | where())
        keep(options.out, rows[-1])
        print(f"{name}: {json.dumps(found)}  load={before['load']}", flush=True)
    print(time_table(rows))


if __name__ == "__main__":
    main()
