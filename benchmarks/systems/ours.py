"""FlameStream: the job of workload.py, as a user would run it."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import job

from systems.base import EXACTLY_ONCE, NONE, Cell, Command, Places, Setting


class Ours:
    """Two workers in Spark's executors, local mode."""

    form = "wire"
    guarantees = (NONE, EXACTLY_ONCE)
    pace = None
    settles = 0.0

    def __init__(self, functions: str = "rows") -> None:
        self.name = "flamestream" if functions == "rows" else f"flamestream {functions}"
        self._functions = functions

    def prepare(self) -> None:
        """`make setup` did it."""

    def versions(self) -> dict[str, str]:
        from flamestream.core.native import FASTEST
        from flamestream.core.parts import REFERENCE

        kernel = "Python" if FASTEST is REFERENCE else "native"
        return {"flamestream": version("flamestream"), "python": platform.python_version(), "spark": version("pyspark"), "kernel": kernel}

    def settings(self, cell: Cell) -> list[Setting]:
        file, graph = job.FUNCTIONS[self._functions]
        return [
            Setting("application", f"{file}: {graph}", "the functions that the system's name says"),
            Setting("workers.replicas", str(cell.workers), "the machine's cores"),
            Setting("checkpoint.interval", f"{cell.interval_ms}ms", "asked for by the cell"),
            Setting("checkpoint.store", "a folder", "on the disk that the peers use"),
            Setting("journal.fsync", "false", "no peer fsyncs what it reads either; a killed process loses nothing by it"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        file = places.folder / "job.yaml"
        file.write_text(json.dumps(self.manifest(cell, places)))
        argv = [sys.executable, "-m", "flamestream.cli.main", "run", str(file), "--run-folder", str(places.folder / "run")]
        path = [str(job.HERE.parent / "runtime"), os.environ.get("PYTHONPATH", "")]
        return Command(argv, {"PYTHONPATH": os.pathsep.join(filter(None, path))})

    def manifest(self, cell: Cell, places: Places) -> object:
        """The job as in job.py, which the other commands of this folder use."""
        settings = job.Settings(cell.guarantee, f"{cell.interval_ms}ms", workers=cell.workers, functions=self._functions)
        source, sink = (int(place.rpartition(":")[2]) for place in (places.source, places.sink))
        return json.loads(job.manifest(settings, Path(places.folder), source, sink))
