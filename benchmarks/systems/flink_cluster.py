"""A Flink of its own processes: a job manager with one job, and a task manager that may be killed.

Keeps: ports, files and logs in a folder. Does not: know what the job does.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.flink_parts import JOB_MANAGER, PARTS, TASK_MANAGER

from support.ports import free_port
from systems.flink import java

HERE: Final = "127.0.0.1"
SETTINGS: Final = {
    **PARTS,
    "jobmanager.rpc.address": HERE, "jobmanager.bind-host": HERE, "rest.bind-address": HERE,
    "taskmanager.host": HERE, "taskmanager.bind-host": HERE,
    "taskmanager.memory.task.heap.size": "256m", "restart-strategy.fixed-delay.delay": "1 s",
    "heartbeat.interval": "1 s", "heartbeat.timeout": "30 s",  # a killed one is noticed by its connections
}  # fmt: skip


class FlinkCluster:
    """Runs `peer.JOB`, which is given `arguments`, until `stop`."""

    def __init__(self, folder: Path, job: str, arguments: Sequence[str], more: Mapping[str, str]) -> None:
        self._folder = folder
        folder.mkdir()
        settings = {
            **SETTINGS, **more, "jobmanager.rpc.port": free_port(), "rest.port": free_port(),
            "execution.checkpointing.dir": f"file://{folder}/checkpoints", "io.tmp.dirs": folder / "tmp",
        }  # fmt: skip
        (folder / "config.yaml").write_text(
            "".join(f'{name}: "{value}"\n' for name, value in settings.items())
        )
        self._manager = self._started(JOB_MANAGER, "--job-classname", f"peer.{job}", *arguments)
        self._tasks = self._started(TASK_MANAGER)
        self._spares: list[subprocess.Popen[bytes]] = []

    def stand_by(self) -> None:
        """Another task manager, whose slots wait for the end of the first one: once that has the job."""
        self._spares.append(self._started(TASK_MANAGER))

    def kill(self) -> None:
        """SIGKILL to the task manager; a spare takes over, or a new one, which comes in any case."""
        self._tasks.kill()
        self._tasks.wait()
        self.stand_by()
        self._tasks = self._spares.pop(0)

    @property
    def up(self) -> bool:
        """Whether the two that work are."""
        return self._manager.poll() is None and self._tasks.poll() is None

    @property
    def log(self) -> str:
        """What the job manager said last."""
        return (self._folder / "log").read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """All of them."""
        for process in (self._manager, self._tasks, *self._spares):
            process.kill()
            process.wait()

    def _started(self, name: str, *more: str) -> "subprocess.Popen[bytes]":
        with (self._folder / "log").open("ab") as log:
            command = java(name, "--configDir", str(self._folder), *more, least="64m", most="512m")
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
