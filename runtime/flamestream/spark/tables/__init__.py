"""`spark.read.format("flamestream")`: a job's committed state and its delivered output as tables. See
docs/reference/spark-tables.md.

>>> FlameStreamTables.name()
'flamestream'
"""

from typing import Any

from flamestream.spark.tables.source import FlameStreamTables

__all__ = ["FlameStreamTables", "register"]


def register(spark: Any) -> None:
    """Make the format known to a session, and let Spark push filters down to it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(FlameStreamTables)
