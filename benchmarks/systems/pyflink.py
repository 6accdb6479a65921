"""PyFlink: Flink with the functions in Python (peers/pyflink_job.py); the rest as systems/flink.py."""

import os

from systems import environments
from systems.base import NONE, Cell, Command, Places, Setting, System
from systems.flink import BUILT, Flink
from systems.plain import PEERS

JAR = BUILT / "flink-peer-1.jar"


class PyFlink(System):
    """The same local cluster, with an interpreter in its JVM."""

    name = "pyflink"
    form = "lines"
    guarantees = Flink.guarantees
    pace = 50.0
    settles = 0.0

    def prepare(self) -> None:
        """Its packages, and the Java job's source and sinks."""
        Flink().prepare()
        environments.make("pyflink")

    def versions(self) -> dict[str, str]:
        return {"apache-flink": environments.pinned("pyflink", "apache-flink")}

    def settings(self, cell: Cell) -> list[Setting]:
        bundle = "1" if cell.rate else "100"
        return [
            *Flink().settings(cell),
            Setting(
                "python.fn-execution.bundle.time",
                bundle,
                "a bundle to Python waits so many ms at most; 1000 by default",
            ),
            Setting(
                "python.execution-mode",
                "thread",
                "in the JVM; a process of its own is called for each access to state: 100 records a second",
            ),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        given = [f"{setting.name}={setting.value}" for setting in self.settings(cell) if "." in setting.name]
        if cell.guarantee != NONE:
            given.append(f"execution.checkpointing.dir=file://{places.folder}/checkpoints")
        interpreter = environments.python_of("pyflink")
        given += [f"python.executable={interpreter}", f"python.client.executable={interpreter}"]
        ends = [
            places.source,
            places.sink,
            cell.guarantee,
            str(cell.workers),
            "0" if cell.rate else "5",
            str(places.folder / "pending"),
        ]
        job = [interpreter, str(PEERS / "pyflink_job.py"), str(JAR), *ends, *given]
        return Command(
            job, {"PYTHONPATH": os.pathsep.join([str(PEERS), environments.packages_of("pyflink")])}
        )
