"""FlameStream: the job of workload.py, as a user would run it."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import PATHS, job
from harness.job_file import run_command

from systems.base import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    NONE,
    PRODUCTIONS,
    TWO_PHASES,
    Cell,
    Command,
    Places,
    Setting,
    System,
)


class Ours(System):
    """Two workers in Spark's executors, local mode."""

    form = "wire"
    guarantees = (NONE, AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE, PRODUCTIONS, TWO_PHASES)
    pace = None
    settles = 0.0

    def __init__(self, functions: str = "rows", *, fsync: bool = True) -> None:
        self.name = (
            "flamestream" + ("" if functions == "rows" else f" {functions}") + ("" if fsync else " no fsync")
        )
        self._functions, self._fsync = functions, fsync

    def prepare(self) -> None:
        """`make setup` did it."""

    def versions(self) -> dict[str, str]:
        from flamestream.core.dataflow.native import FASTEST
        from flamestream.core.dataflow.parts import REFERENCE

        kernel = "Python" if FASTEST is REFERENCE else "native"
        return {
            "flamestream": version("flamestream"),
            "python": platform.python_version(),
            "spark": version("pyspark"),
            "kernel": kernel,
        }

    def settings(self, cell: Cell) -> list[Setting]:
        file, graph = job.FUNCTIONS[self._functions]
        return [
            Setting("application", f"{file}: {graph}", "the functions that the system's name says"),
            Setting("workers.replicas", str(cell.workers), "the machine's cores"),
            Setting("checkpoint.interval", f"{cell.interval_ms}ms", "asked for by the cell"),
            Setting("checkpoint.store", "a folder", "on the disk that the peers use"),
            self._journal(),
        ]

    def _journal(self) -> Setting:
        if self._fsync:
            return Setting(
                "journal.fsync",
                "true",
                "its default: what has entered survives the machine; no peer syncs what it reads",
            )
        return Setting(
            "journal.fsync",
            "false",
            "as the peers, which sync nothing: what has entered survives processes only",
        )

    def command(self, cell: Cell, places: Places) -> Command:
        argv = run_command(places.folder, self.manifest(cell, places))
        path = [*PATHS, os.environ.get("PYTHONPATH", "")]
        return Command(argv, {"PYTHONPATH": os.pathsep.join(filter(None, path))})

    def manifest(self, cell: Cell, places: Places) -> dict[str, Any]:
        """The job as in job.py, which the other commands of this folder use."""
        settings = job.Settings(
            cell.guarantee,
            f"{cell.interval_ms}ms",
            workers=cell.workers,
            functions=self._functions,
            fsync=self._fsync,
        )
        source, sink = (int(place.rpartition(":")[2]) for place in (places.source, places.sink))
        return job.manifest(settings, Path(places.folder), source, sink)
