"""The systems that run the three jobs between topics: Spark in real-time mode, Spark in micro-batches, and
ours in both forms of its sink.

Spark is Java (peers/spark_real_time): real-time mode takes no Python beside transformWithState. Its jars are
those of the pinned pyspark, and its Kafka connector is Maven's.

Does not: measure anything (run.py).
"""

import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, Literal, Protocol

from harness import BENCHMARKS, JOBS, PATHS
from harness.job_file import manifest_of, run_command
from systems.base import Command, NotHere, Places, Setting
from systems.environments import CACHE
from systems.flink import fetch

from flamestream.machine.java import find_java, spark_jars

SOURCE: Final = BENCHMARKS / "peers" / "spark_real_time"
BUILT: Final = CACHE / "spark-real-time"
ROCKS: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""As Spark's own launcher for Java 17."""
Isolation = Literal["read_committed", "read_uncommitted"]


class Side(Protocol):
    """A system with the three jobs."""

    @property
    def name(self) -> str: ...

    @property
    def guarantee(self) -> str: ...

    @property
    def isolation(self) -> Isolation:
        """What a consumer of its results has to read with."""

    def prepare(self) -> None:
        """Fetch and build what it needs; quick when that is done. Raises NotHere."""

    def versions(self) -> dict[str, str]:
        """Of what it is made of."""

    def settings(self) -> list[Setting]:
        """For people, and for the record."""

    def command(self, job: str, places: Places) -> Command:
        """The job between two topics, in the foreground, without end."""


@dataclass(frozen=True, slots=True)
class Spark:
    """In one JVM, with a slot for each task: those of all stages run at once in real-time mode."""

    name: str
    trigger: str
    """How long a batch of real-time mode lasts, or `micro-batch`."""
    guarantee: str = "at-least-once"
    """Of its Kafka sink, whatever the trigger."""
    isolation: Isolation = "read_uncommitted"

    def prepare(self) -> None:
        fetch(SOURCE, BUILT, "dependency:copy-dependencies")
        sources = map(str, SOURCE.rglob("*.java"))
        compiled = ["javac", "-proc:none", "-cp", _class_path(), "-d", str(BUILT / "classes"), *sources]
        done = subprocess.run(compiled, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotHere(f"javac failed:\n{done.stderr[-2000:]}")

    def versions(self) -> dict[str, str]:
        found = re.search("<connector.version>(.*)<", (SOURCE / "pom.xml").read_text())
        connector = found[1] if found else "?"
        return {"spark": version("pyspark"), "connector": connector, "java": str(find_java().version)}

    def settings(self) -> list[Setting]:
        batches = self.trigger == "micro-batch"
        trigger = "the next batch begins when one ends" if batches else "the default of a batch's length"
        return [
            Setting("trigger", "default" if batches else f"realTime {self.trigger}", trigger),
            Setting("spark.master", "local[4]", "a slot for each task of both stages, and two to spare"),
            Setting("spark.sql.shuffle.partitions", "1", "a topic's partition: a task less on two cores"),
            Setting("spark.sql.streaming.stateStore.providerClass", ROCKS, "what transformWithState needs"),
            Setting(
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true",
                "a batch then writes what changed, as the tuning guide advises",
            ),
            Setting("spark.sql.streaming.noDataMicroBatches.enabled", "false", "no batch without input"),
            Setting("spark.sql.session.timeZone", "UTC", "windows as all others"),
            Setting("spark.ui.enabled", "false", "its server would take of the two cores"),
            Setting("spark.driver.host", "127.0.0.1", "one machine"),
        ]  # fmt: skip

    def command(self, job: str, places: Places) -> Command:
        opened = [word for name in OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        given = [f"{each.name}={each.value}" for each in self.settings() if each.name.startswith("spark.")]
        java = ["java", "-Xmx2g", *opened, "-Djdk.reflect.useDirectMethodHandle=false", "-cp", _class_path()]
        checkpoint = str(places.folder / "checkpoint")
        ends = [places.brokers, places.source, places.sink, checkpoint]
        return Command([*java, "peer.RealTime", job, self.trigger, *ends, *given])


@dataclass(frozen=True, slots=True)
class Ours:
    """One worker, a plain process without Spark."""

    name: str
    form: Literal["low-latency", "transactional"]
    isolation: Isolation
    guarantee: str = "exactly-once"

    def prepare(self) -> None:
        """It is there."""

    def versions(self) -> dict[str, str]:
        return {"flamestream": version("flamestream")}

    def settings(self) -> list[Setting]:
        return [
            Setting("form", self.form, "of its sink: when readers see a result"),
            Setting("checkpoint.interval", "1s", "a second, as in the other figures"),
            Setting("workers.replicas", "1", "a topic's partition"),
        ]

    def command(self, job: str, places: Places) -> Command:
        source = {"brokers": places.brokers, "topic": places.source}
        sink = {"brokers": places.brokers, "topic": places.sink, "form": self.form}
        spec = {
            "application": {"file": str(JOBS / "rtm_graphs.py"), "graph": job},
            "sources": {"records": {"kafka": source}}, "sinks": {"results": {"kafka": sink}},
            "guarantee": self.guarantee, "workers": {"replicas": 1},
            "checkpoint": {"interval": "1s", "store": str(places.folder / "store")},
            "journal": {"folder": str(places.folder / "journal")},
        }  # fmt: skip
        argv = [*run_command(places.folder, manifest_of(f"rtm-{places.sink}", spec)), "--no-spark"]
        return Command(argv, {"PYTHONPATH": ":".join(PATHS)})


def _class_path() -> str:
    return f"{BUILT / 'classes'}:{BUILT}/*:{spark_jars()}/*"


SIDES: Final[dict[str, Side]] = {
    side.name: side
    for side in (
        Spark("spark real-time", "5 minutes"),
        Spark("spark micro-batch", "micro-batch"),
        Ours("flamestream", "low-latency", "read_uncommitted"),
        Ours("flamestream transactional", "transactional", "read_committed"),
    )
}
