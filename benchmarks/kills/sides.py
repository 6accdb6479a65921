"""The two systems that keep accounts between topics while a process of theirs is killed: ours, and Flink.

Both are exactly once with checkpoints a second apart, and have a spare process beside those that work. So what
differs is how long either needs to notice, to recover, and to let results go.

Does not: measure anything (figure.py).
"""

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from harness import JOBS, PATHS
from harness.job_file import manifest_of, run_command
from systems.base import EXACTLY_ONCE, Command, Failed, Places, start, stop
from systems.flink_cluster import FlinkCluster

WHOLE_WITHIN: Final = 60.0
SINK: Final = {"key": "user", "form": "low-latency"}
"""Ours for the least latency: a reader sees each result once, as soon as it is in the log."""
FLINK: Final = {
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.min-pause": "0 ms",
    "execution.buffer-timeout.interval": "0 ms",
    "restart-strategy.fixed-delay.delay": "0 s",
    "heartbeat.interval": "500 ms",
}
"""Its settings for the least latency and the soonest restart: a heartbeat twenty times as often as by default."""


class Side(Protocol):
    """A system that runs."""

    @property
    def up(self) -> bool: ...

    @property
    def log(self) -> str: ...

    def stand_by(self) -> None:
        """A spare process, if it is not there from the start."""

    def kill(self) -> None:
        """SIGKILL to a process that works, and back at once. Raises Failed."""

    def stop(self) -> None: ...


class Ours:
    """Two workers and a standby, plain processes without Spark."""

    def __init__(self, places: Places) -> None:
        kafka, folder = {"brokers": places.brokers}, places.folder
        spec = {
            "application": {"file": str(JOBS / "ledger_graphs.py"), "graph": "one_topic"},
            "sources": {"records": {"kafka": {**kafka, "topic": places.source}}},
            "sinks": {"results": {"kafka": {**kafka, **SINK, "topic": places.sink}}},
            "guarantee": EXACTLY_ONCE,
            "workers": {"replicas": 2, "standby": 1},
            "checkpoint": {"interval": "1s", "store": str(folder / "store")},
            "journal": {"folder": str(folder / "journal")},
        }
        argv = [*run_command(folder, manifest_of("ledger", spec)), "--no-spark"]
        self._running = start(Command(argv, {"PYTHONPATH": ":".join(PATHS)}), folder)
        self._folder = folder / "run"

    @property
    def up(self) -> bool:
        return self._running.process.poll() is None

    @property
    def log(self) -> str:
        return self._running.tail()

    def stand_by(self) -> None:
        """It is there."""

    def kill(self) -> None:
        """The worker that reads the topic."""
        deadline = time.monotonic() + WHOLE_WITHIN
        while not _is_whole(status := self._read("status.json")):
            if time.monotonic() > deadline:
                raise Failed(f"the job is not whole: {status}")
            time.sleep(0.05)
        reader = next(worker["worker"] for worker in status["workers"] if worker["items_in"])
        os.kill(int(self._read(f"workers/{reader}.json")["pid"]), signal.SIGKILL)

    def stop(self) -> None:
        stop(self._running)

    def _read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / name).read_text())
        return found


def _is_whole(status: dict[str, Any]) -> bool:
    return (status["phase"], len(status["workers"]), len(status["standbys"])) == ("running", 2, 1)


def flink(places: Places) -> FlinkCluster:
    """One task manager that works; its spare has slots of its own."""
    arguments = [places.brokers, places.source, places.sink, EXACTLY_ONCE]
    return FlinkCluster(places.folder / "flink", "Ledger", arguments, FLINK)


SIDES: Final[dict[str, tuple[Callable[[Places], Side], str]]] = {
    "flamestream": (Ours, "read_uncommitted"),
    "flink": (flink, "read_committed"),
}
"""How each begins, and what a reader of its results has to read with."""
