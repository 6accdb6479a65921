"""The process that Spark asks for Python workers: PySpark's own, with everything imported before it forks.

Spark starts `python -m flamestream.spark.streaming.daemon` once an executor (`spark.python.daemon.module`)
and asks it for a fork whenever a task needs a Python. What is imported here is there at once in every fork; a
relaunched worker does not import anything again. So whatever is imported must not leave a thread behind (a
fork would have its locks and not the thread), and must not print (the JVM reads stdout).

Keeps: one thread at the time of every fork; what was imported stays out of the garbage collector's reach in
every fork. Does not: import the user's application (it may start threads).
"""

import gc
import importlib
import os
from typing import Final

PID_VARIABLE: Final = "FLAMESTREAM_DAEMON_PID"
"""How a fork knows its parent even if that died before it could look (task.py)."""
MODULES_VARIABLE: Final = "FLAMESTREAM_PREIMPORT"
"""Further modules to import, separated by commas (SparkSettings.preimport)."""
ALWAYS: Final = (
    "pyspark.worker",
    "msgspec",
    "immutables",
    "pyarrow.parquet",
    "pyarrow.compute",
    "flamestream.spark.streaming.task",
)


def preimport() -> None:
    """Import what workers need, and keep it from being copied page by page when a fork collects garbage."""
    # else pyarrow's allocator starts a thread
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    chosen = os.environ.get(MODULES_VARIABLE, "").split(",")
    for module in filter(None, [*ALWAYS, *chosen]):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Never returns while the executor lives."""
    from pyspark import daemon

    os.environ[PID_VARIABLE] = str(os.getpid())
    preimport()
    daemon.manager()


if __name__ == "__main__":
    main()
