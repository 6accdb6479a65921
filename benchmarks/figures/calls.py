"""What a call costs: the same bids as they are, through an echo over TCP on this machine, and beside calls
that take two seconds, all exactly once on one worker between two sockets; and Flink's asynchronous operator
with the same echo.

    python benchmarks calls                             # all of it: some three minutes
    python benchmarks calls --jobs plain,echo           # a part
    python benchmarks calls --table                     # what is there so far

A latency is from when an event was due to the receipt of its row, at one rate for all. Those that ask the echo
run once more with as many events as they take: how many answers come a second.
The difference between `echo` and `plain` is what a call adds, the echo's own time included.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from harness import BENCHMARKS, JOBS, PATHS
from harness.drive import noise, where
from harness.job_file import manifest_of, run_command
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.calls import calls_table
from nexmark.causes import cause_of
from nexmark.figure import PACED, events_file
from nexmark.outside import Phase
from nexmark.paced import paced
from nexmark.sides import FOR_LATENCY, Side
from systems.base import Command, Failed
from systems.flink import Flink, in_java
from systems.flink_sql import SETTINGS

OUT: Final = CACHE / "calls.jsonl"
RATE: Final = 1_000.0
JOBS_MEASURED: Final = ("plain", "echo", "batched", "beside", "flink")
NOWHERE: Final = {"connector": {"class": "nexmark.blackhole:Blackhole"}}
EVENTS: Final = 100_000
UNDER_WAY: Final = 256
"""Requests of Flink's operator at once: as many as the concurrency of `echo`."""
FIXED: Final = Phase("fixed", 10.0, 90_000, rate=RATE)
LATENCY: Final = [Phase("full", 1.0, 2_000), FIXED]
"""A few first, so that everything is warm."""
RATE_AT_MOST: Final = [Phase("full", 10.0, 90_000), Phase("fixed", 3.0, 5_000, rate=RATE)]
"""Many more than may be under way (`pending`)."""


class Asking:
    """`nexmark.sides.Side` of one of the jobs."""

    name = "flamestream"
    form: Literal["wire", "lines"] = "wire"
    queries: Iterable[str] = JOBS_MEASURED

    def __init__(self, echo: int) -> None:
        self._echo = echo

    def versions(self) -> dict[str, str]:
        return {}

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        raise Failed("it is measured between sockets")

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        # the slow calls' sink is for nobody, and fences nothing
        beside = query == "beside"
        other = {"sinks": {"slow": NOWHERE}, "guarantee": "at-least-once"} if beside else {}
        command = between_sockets("call_graphs.py", query, (source, sink), folder, other)
        return replace(command, environment={**command.environment, "ECHO": str(self._echo)})


def between_sockets(
    file: str, graph: str, ports: tuple[int, int], folder: Path, other: Mapping[str, Any]
) -> Command:
    """A job of one worker, exactly once with a checkpoint a second unless `other` fields of its spec say else."""
    begin, end = ({"socket": {"address": f"127.0.0.1:{port}"}} for port in ports)
    spec = {
        "application": {"file": str(JOBS / file), "graph": graph},
        "sources": {"events": begin},
        "guarantee": "exactly-once",
        "workers": {"replicas": 1}, "journal": {"folder": str(folder / "journal")},
        "checkpoint": {"interval": "1s", "store": str(folder / "store")},
        **other,
        "sinks": {"results": end, **other.get("sinks", {})},
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH")]))
    argv = [*run_command(folder, manifest_of(graph, spec)), "--no-spark"]
    return Command(argv, {"PYTHONPATH": path})


class AskingFlink:
    """`nexmark.sides.Side` of Flink's asynchronous operator, ordered, in a virtual machine with one slot."""

    name = "flink"
    form: Literal["wire", "lines"] = "lines"
    queries: Iterable[str] = ("flink",)

    def __init__(self, echo: int) -> None:
        self._echo = echo

    def versions(self) -> dict[str, str]:
        return Flink().versions()

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        raise Failed("it is measured between sockets")

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        ends = [f"127.0.0.1:{port}" for port in (source, sink)]
        settings = {**SETTINGS, **FOR_LATENCY, "execution.checkpointing.dir": f"file://{folder}/checkpoints"}
        given = [f"{name}={value}" for name, value in settings.items()]
        job = [*ends, str(self._echo), str(folder / "pending"), str(UNDER_WAY)]
        return Command(in_java("AsyncCalls", *job, *given))


@contextmanager
def echo() -> Iterator[int]:
    """A process that sends back each line; its port."""
    command = [sys.executable, str(BENCHMARKS), "calls", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None, "it was asked for"
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def serve() -> None:
    """The echo itself."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)

    server = await asyncio.start_server(answered, "127.0.0.1")
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measured(job: str, port: int) -> dict[str, Any]:
    """Rate and latencies. Raises Failed."""
    events = events_file(EVENTS, PACED)
    side: Side = AskingFlink(port) if job == "flink" else Asking(port)
    if job == "flink":
        Flink().prepare()

    def run(phases: list[Phase]) -> dict[str, Any]:
        return paced(side, job, events, RATE, lambda _, each: cause_of("q0", each), phases)

    found = run(LATENCY)
    asks = job not in ("plain", "beside")
    if not asks:
        return found
    if (most := run(RATE_AT_MOST).get("rows_per_s")) is None:
        raise Failed("its results came at once, so they say no rate: run it again")
    return found | {"calls_per_s": most}


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--jobs", default=",".join(JOBS_MEASURED))
    parser.add_argument("--serve", action="store_true", help="be the echo that calls ask")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    rows = rows_of(options.jobs.split(","))
    tell(options, rows, calls_table, lambda row: f"{row['measure']} {row['result']}")


def rows_of(jobs: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A row of each job, beside one echo."""
    with echo() as port:
        for job in jobs:
            about = {"noise": noise()} | where()
            yield {"measure": job, "result": measured(job, port)} | about


if __name__ == "__main__":
    main()
