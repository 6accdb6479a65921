"""Two whole jobs under one operator's coordinators, with an honest client each: the one is attacked, the
other is its neighbour.

Everything is a process of this machine: the coordinators, ZooKeeper, two workers a job, two clients. What a
client's report says is read when the stage has ended.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from attacks import honest, leader
from attacks.feeds import APPLICATION
from attacks.site import Site
from flamestream.connectors import sinks
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.eventually import eventually
from support.operator.hosted_job import TOKEN, HostedJob
from support.ports import free_port

SECRET = "the-clients-own"
ATTACKED, NEIGHBOUR = "attacked", "neighbour"
CALM = 0.5
"""Seconds that a job may be behind and an attack begin."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def ours(module: str, *words: object, **streams: Any) -> "subprocess.Popen[bytes]":
    """A module of this package as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", f"attacks.{module}", *map(str, words)], env=ENVIRONMENT, **streams
    )


@dataclass(frozen=True, slots=True)
class Report:
    """Of an honest client: what became of every post."""

    points: list[tuple[float, float | None]]
    """When each was due on this machine's monotonic clock, and its latency in ms; None: it never came."""
    doubled: int
    disorder: int
    wrong: int
    """Posts that were answered, and are not once in the job's output: the audit, whatever the client saw."""


class Job:
    """One of the two."""

    def __init__(self, name: str, folder: Path, coordinators: int) -> None:
        self.name, self.folder = name, folder
        self.inlet, self.outlet = free_port(), free_port()
        self.lines, self.tables = folder / "lines", folder / "tables"
        for each in (self.lines, self.tables):
            each.mkdir(parents=True)
        (folder / "token").write_text(SECRET)
        self.hosted = HostedJob(
            name, folder / "job", coordinators, application=APPLICATION, spec=self._spec()
        )
        self.client: subprocess.Popen[bytes] | None = None

    def _spec(self) -> dict[str, Any]:
        keys, token = str(self.folder / "keys"), str(self.folder / "token")
        http = {"listen": f"127.0.0.1:{self.inlet}", "keys": keys, "fsync": False, "token_file": token}
        out = {
            name: {"files": {"path": str(self.folder / name), "fsync": False}}
            for name in ("sizes", "widths", "dead")
        }
        live = {
            "path": str(self.folder / "live"),
            "listen": f"127.0.0.1:{self.outlet}",
            "fsync": False,
            "poll_ms": 1,
        }
        return {
            "sources": {
                "docs": {"http": http},
                "lines": {"files": {"path": str(self.lines), "format": "jsonl", "follow": True}},
                "tables": {"files": {"path": str(self.tables), "format": "parquet", "follow": True}},
            },
            "sinks": {"live": {"events": live}, **out},
            "journal": {"folder": str(self.folder / "journal"), "fsync": False},
            "onError": {"deadLetter": "dead"},
        }

    def begin(self) -> None:
        """Its client's posts."""
        self.client = ours("honest", self.inlet, self.outlet, SECRET, self.folder / "report")

    @property
    def behind(self) -> float:
        """Seconds, as its client says; none before it has posted."""
        file = honest.behind_of(self.folder / "report")
        text = file.read_text() if file.exists() else ""
        return float(text) if text.endswith("\n") else float("inf")

    def end(self) -> None:
        if self.client is not None:
            self.client.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.client.wait(60)
            self.client.kill()
            self.client.wait()
        self.hosted.end()

    def report(self) -> Report:
        """When its client has ended."""
        *points, last = [json.loads(line) for line in (self.folder / "report").read_text().splitlines()]
        output = Counter(
            payload
            for _, _, _, payload in sinks.read({"files": {"path": str(self.folder / "live")}})
            if isinstance(payload, int)
        )
        wrong = sum(output[point["number"]] != 1 for point in points)
        return Report(
            [(point["due"], point["ms"]) for point in points], last["doubled"], last["disorder"], wrong
        )


class Stage:
    """Started by `with`; its jobs run and are answered then."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack, self._port = folder, contextlib.ExitStack(), free_port()
        folder.mkdir()
        self.attacked, self.neighbour = (
            Job(name, folder / name, self._port) for name in (ATTACKED, NEIGHBOUR)
        )
        self._status = folder / "status.json"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._zookeeper = stack.enter_context(EmbeddedZooKeeper(self._folder / "zookeeper"))
            arguments = (msgspec.json.encode(self._zookeeper.access).decode(), self._port, self._status)
            coordinators = stack.enter_context(ours("leader", *arguments, stdin=subprocess.PIPE))
            stack.callback(coordinators.kill)
            assert coordinators.stdin is not None
            for job in (self.attacked, self.neighbour):
                stack.callback(job.end)
                coordinators.stdin.write(leader.line_of(job.hosted.told))
                coordinators.stdin.flush()
                for _ in range(2):
                    job.hosted.start_worker()
            for job in (self.attacked, self.neighbour):
                eventually(lambda job=job: self.runs(job), f"{job.name} runs: see {self._folder}", within=120)  # type: ignore[misc]
                job.begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def calm(self) -> bool:
        """Both jobs have caught up with their clients."""
        return all(job.behind < CALM for job in (self.attacked, self.neighbour))

    def attempt(self, job: Job) -> int:
        """How often it has begun or recovered; 0: not seen yet."""
        seen = leader.read(self._status).get(job.name)
        return seen.status.attempt if seen else 0

    def runs(self, job: Job) -> bool:
        """Whole, behind an epoch of this attempt."""
        seen = leader.read(self._status).get(job.name)
        return seen is not None and seen.status.phase == "running" and seen.status.epoch > 0

    @property
    def site(self) -> Site:
        """Of the attacked job, as it is now."""
        job, seen = self.attacked, leader.read(self._status)[ATTACKED]
        return Site(
            job=job.name, inlet=job.inlet, outlet=job.outlet, token=SECRET,
            coordinator=f"127.0.0.1:{self._port}", workers_token=TOKEN,
            worker_ports=tuple(int(link.rpartition(":")[2]) for link in seen.links), lines=str(job.lines),
            tables=str(job.tables), zookeeper=self._zookeeper.access.hosts,
        )  # fmt: skip
