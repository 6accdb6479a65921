"""A Spark for DataFrame jobs: the same as for workers (spark/streaming/session.py), with what short tasks and
Arrow need instead.

Python processes are kept between tasks, so that the application is loaded once in each; a failed task is
tried again a bounded number of times, because a function that raises is no failure (errors are items) and
what is left is the machine's or ours.

Keeps: one SparkSession a process. Does not: know a graph.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flamestream.model.errors import UserError
from flamestream.spark.streaming.session import LIVES, SparkDriver, SparkSettings

TASK_LIVES: Final = 8
_REQUIRED: Final = {
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "flamestream.spark.streaming.daemon",
    "spark.python.worker.reuse": "true",
    # a second copy of a delivering task would fence the first
    "spark.speculation": "false",
    # (!) tries of tasks are counted anew in a stage's second attempt: one would have the fence of a task that
    # may still deliver somewhere. So the batch fails, and is begun anew under the next attempt.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.sql.session.timeZone": "UTC",
}
_DEFAULTS: Final = {
    "spark.driver.memory": "2g",
    "spark.executor.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",
    "spark.task.maxFailures": str(TASK_LIVES),
    "spark.executor.maxNumFailures": str(LIVES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}


def frames_settings(
    *,
    cores: int,
    scratch: Path,
    master: str = "",
    conf: Mapping[str, str] | None = None,
    python_path: tuple[Path, ...] = (),
    name: str = "",
) -> SparkSettings:
    """Settings of a session for DataFrame jobs. Raises UserError if pandas is missing, which PySpark asks
    for."""
    if importlib.util.find_spec("pandas") is None:
        raise UserError(
            "PySpark needs pandas for DataFrame jobs, and it is not installed: pip install "
            "'flamestream[frames]'"
        )
    return SparkSettings(
        workers=cores,
        scratch=scratch,
        master=master or ("" if (conf or {}).get("spark.master") else f"local[{cores},{TASK_LIVES}]"),
        conf=conf or {},
        python_path=python_path,
        preimport=("flamestream.spark.frames.tasks",),
        required=_REQUIRED,
        defaults=_DEFAULTS,  # all of the compiler: here the JVM moves the data
        name=name or "flamestream frames",
    )


def session_of(driver: SparkDriver) -> Any:
    """The SparkSession of a started Spark."""
    from pyspark.sql import SparkSession

    return SparkSession(driver.context)
