"""Spark Structured Streaming in Python, in micro-batches (peers/spark_job.py)."""

import os

from systems import environments
from systems.base import EXACTLY_ONCE, Cell, Command, Places, Setting, System
from systems.plain import PEERS


class Spark(System):
    """Local mode; a batch is a checkpoint, so there is no weaker guarantee to choose."""

    name = "spark"
    form = "lines"
    guarantees = (EXACTLY_ONCE,)
    pace = None
    settles = 45.0

    def prepare(self) -> None:
        """Its packages."""
        environments.make("spark")

    def versions(self) -> dict[str, str]:
        return {"spark": environments.pinned("spark", "pyspark")}

    def settings(self, cell: Cell) -> list[Setting]:
        trigger = f"{cell.interval_ms} ms" if cell.rate else "0 ms"
        return [
            Setting(
                "trigger",
                trigger,
                "a batch is Spark's checkpoint; at full rate, the next one begins when one ends",
            ),
            Setting(
                "spark.sql.shuffle.partitions",
                str(cell.workers),
                "the machine's cores: a batch costs about its number of tasks",
            ),
            Setting("stateStore.providerClass", "RocksDB", "what transformWithState needs"),
            Setting(
                "rocksdb.changelogCheckpointing.enabled",
                "true",
                "a batch then writes what changed, as the tuning guide advises",
            ),
            Setting("noDataMicroBatches.enabled", "false", "no batch without input"),
            Setting(
                "key",
                "one of 8 buckets of words",
                "an access to state asks the JVM: three a bucket and batch, not three a word",
            ),
            Setting(
                "sink",
                "foreach writer, a connection a partition and batch",
                "a real one would drop repeated batches",
            ),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        trigger = str(cell.interval_ms if cell.rate else 0)
        job = [places.source, places.sink, str(places.folder / "checkpoint"), str(cell.workers), trigger]
        interpreter = environments.python_of("spark")
        path = os.pathsep.join([str(PEERS)])
        python = {"PYSPARK_PYTHON": interpreter, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
        return Command([interpreter, str(PEERS / "spark_job.py"), *job], python)
