"""`python -m flamestream.spark.streaming.make_class_archives` makes the archives that class_archive.py describes,
once for every set-up: of Spark's classes and of ZooKeeper's.

Does not: put anything of ours into them.
"""

import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from pyspark.sql import SparkSession

from flamestream.machine import class_archive
from flamestream.machine.java import Java, find_java
from flamestream.model.errors import Retryable
from flamestream.spark.streaming import jvm
from flamestream.spark.streaming.session import SparkDriver, SparkSettings
from flamestream.store import zookeeper_server
from flamestream.store.zookeeper import ClusterState, SingleInstance


def spark_archive(java: Java) -> Path:
    """The archive for the driver's JVM, made if it is not there. Raises Retryable if the JVM cannot."""

    def session(options: list[str]) -> None:
        """A driver, a task, and a query with a function in Python."""
        conf = {"spark.driver.extraJavaOptions": " ".join(options)}
        with tempfile.TemporaryDirectory() as folder:
            settings = SparkSettings(workers=1, scratch=Path(folder) / "spark", conf=conf)
            with SparkDriver(settings, java) as driver:
                driver.context.parallelize(range(1), 1).foreachPartition(_nothing)
                rows = SparkSession(driver.context).range(8).mapInArrow(_same, "id long")
                rows.groupBy("id").count().orderBy("id").collect()

    return class_archive.make_archive(java, jvm.class_path(), session)


def zookeeper_archive(java: Java) -> Path:
    """The archive for an embedded ZooKeeper's, the same way."""

    def session(options: list[str]) -> None:
        """A server, and a client that writes."""
        with (
            tempfile.TemporaryDirectory() as folder,
            zookeeper_server.EmbeddedZooKeeper(Path(folder) / "zk", java, options) as server,
        ):
            with ClusterState(server.access) as state:
                claim = SingleInstance(state, "job")
                claim.claim()
                claim.release()
            server.close(signal.SIGTERM)  # killed, it would write nothing

    return class_archive.make_archive(java, zookeeper_server.class_path(), session)


def _nothing(_: object) -> None:
    """A task that is there to load the classes of a task."""


def _same(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """A function over rows, for the same."""
    return batches


if __name__ == "__main__":
    try:
        java = find_java()
        spark_archive(java)
        zookeeper_archive(java)
    except Retryable as error:
        sys.exit(f"not all class archives, so Spark or ZooKeeper start slower: {error}")
