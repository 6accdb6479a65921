"""The two systems that run Nexmark's queries, exactly once, with a checkpoint a second, on one worker or
slot: ours and Flink SQL.

Does not: measure anything (figure.py), or know what leaves and comes (outside.py).
"""

import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from harness import JOBS, PATHS
from harness.job_file import manifest_of, run_command
from systems.base import Command
from systems.flink import Flink
from systems.flink_sql import FlinkSql

from nexmark.flink_sql import FLINK_SQL, TABLES, from_file, into, outside, script, to_consumer
from nexmark.queries import MEASURED

FOR_LATENCY: Final = {
    "pipeline.auto-watermark-interval": "10 ms",  # its default of 200 would be in the latency of windows
    "execution.buffer-timeout.interval": "1 ms",  # the best for its tail (docs/authors/benchmarks.md)
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "0 ms",  # its default of a second would be in the gap
}


class Side(Protocol):
    """A system with the queries that it has."""

    name: str
    form: Literal["wire", "lines"]
    """What it speaks outside."""
    queries: Iterable[str]

    def versions(self) -> dict[str, str]:
        """Of what it is made of."""

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        """A run over the events of a file, to its end, whose results are dropped."""

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        """A run from a producer's port to a consumer's, without end."""


class Ours:
    """Workers are plain processes, without Spark: its virtual machine has no part in a query."""

    name = "flamestream"
    form: Literal["wire", "lines"] = "wire"
    queries: Iterable[str] = MEASURED

    def versions(self) -> dict[str, str]:
        return {"flamestream": version("flamestream")}

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        sink = {"connector": {"class": "nexmark.blackhole:Blackhole"}}
        return self._run(query, {"files": {"path": str(events), "records": "lines"}}, sink, folder)

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        ends = [{"socket": {"address": f"127.0.0.1:{port}"}} for port in (source, sink)]
        return self._run(query, ends[0], ends[1], folder, folder / "journal")

    def _run(self, query: str, source: Any, sink: Any, folder: Path, journal: Path | None = None) -> Command:
        spec: dict[str, Any] = {
            "application": {"file": str(JOBS / "nexmark_graphs.py"), "graph": query},
            "sources": {"events": source},
            "sinks": {"results": sink},
            "guarantee": "exactly-once",
            "workers": {"replicas": 1},
            "checkpoint": {"interval": "1s", "store": str(folder / "store")},
        }
        if journal:
            spec["journal"] = {"folder": str(journal)}
        command = run_command(folder, manifest_of(query, spec))
        path = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH")]))
        return Command([*command, "--no-spark"], {"PYTHONPATH": path})


class OfFlink:
    """One virtual machine with one slot."""

    name = "flink-sql"
    form: Literal["wire", "lines"] = "lines"
    queries: Iterable[str] = FLINK_SQL

    def versions(self) -> dict[str, str]:
        return Flink().versions()

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        return self._run(script(query, from_file(events)), folder, {})

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        to = to_consumer(f"127.0.0.1:{sink}", folder / "pending")
        return self._run(script(query, outside(f"127.0.0.1:{source}"), to), folder, FOR_LATENCY)

    def into_files(self, queries: Iterable[str], events: Path, folder: Path) -> Command:
        """All queries, one after the other, each over the events of a file into a file of its name: changes
        as of `to_consumer`."""
        statements = [into(query, to_consumer(str(folder / query), folder / "pending")) for query in queries]
        return self._run(TABLES.format(source=from_file(events)) + "".join(statements), folder, {})

    def _run(self, statements: str, folder: Path, settings: dict[str, str]) -> Command:
        file = folder / "query.sql"
        file.write_text(statements)
        return Command(FlinkSql.command(file, folder, settings))


SIDES: Final[dict[str, Side]] = {side.name: side for side in (Ours(), OfFlink())}
