"""A worker that only leaves a trace of each of its lives: what it is, in a file that appears whole, and then
waits to be told to stop."""

import gc
import json
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from flamestream.spark.streaming.task import Life

WATCHED = ("PYTHONHASHSEED", "TZ", "LC_ALL")


@dataclass(frozen=True, slots=True)
class Trace:
    """One life of one worker task."""

    index: int
    ordinal: int
    name: str
    pid: int
    daemon: int
    environment: dict[str, str]
    daemon_threads: int
    imported: bool
    frozen: int


def live(folder: str, life: Life) -> int:
    """The worker's main: returns when `folder` has a file `stop`; its content is the exit code."""
    pid, imported = os.getpid(), "flamestream.node.worker_process" in sys.modules
    environment = {name: os.environ.get(name, "") for name in WATCHED}
    daemon_threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    fields = (
        life.index,
        life.ordinal,
        life.name,
        pid,
        os.getppid(),
        environment,
        daemon_threads,
        imported,
        gc.get_freeze_count(),
    )
    part = Path(folder, f".{life.name}")
    part.write_text(json.dumps(fields))
    part.rename(Path(folder, f"{life.name}.life"))
    told = Path(folder, "stop")
    never = threading.Event()
    while not told.exists():
        never.wait(0.01)
    return int(told.read_text() or 0)


def lives(folder: Path) -> list[Trace]:
    """Every life there ever was."""
    return [Trace(*json.loads(file.read_text())) for file in folder.glob("*.life")]


def newest(folder: Path) -> dict[int, Trace]:
    """The last life of each task."""
    return {trace.index: trace for trace in sorted(lives(folder), key=lambda trace: trace.ordinal)}
