"""Executors of a driver that starts beside a stream: they come a few at a time.

An executor that starts takes all of a processor for some seconds: its JVM, its Python, the application. Where those
of all workers start at once on the node of a stream, its workers have a small share of the processors for as long,
and its results wait (seconds, on a node of two processors). Nobody waits for the ones that start. The coordinator makes
the cut when those that the job needs are there, standbys or not: these come behind it, and not in its way.

Keeps: in the end there are all, whatever becomes of one. Does not: replace an executor that is lost (Spark does, at
once).
"""

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)
ROUNDS: Final = 8
"""In which all come, at most: a large job has many nodes."""
WITHIN: Final = 15.0
"""Seconds for which those of a round are waited for: one may find no node."""
REST: Final = 2.0
"""Seconds behind the start of an executor's JVM, for its Python."""
SETTLED: Final = 8.0
"""The same behind the last that the job needs: the cut is made then, within two seconds where the node is free."""
LOOK: Final = 0.2


class Executors(Protocol):
    """The executors of an application."""

    def there(self) -> int:
        """How many have registered."""
        ...

    def want(self, count: int) -> None:
        """Have Spark ask for so many in all."""
        ...


def at_once(tasks: int) -> int:
    """How many of them start at the same time."""
    return -(-tasks // ROUNDS)


def grow(
    executors: Executors, tasks: int, needed: int, *, look: float = LOOK, rest: float = REST,
    settled: float = SETTLED, within: float = WITHIN,
) -> None:  # fmt: skip
    """Returns when all were asked for; the first ones were already. `needed`: those that are no standbys."""
    wanted = at_once(tasks)
    while wanted < tasks:
        until = time.monotonic() + within
        while executors.there() < wanted and time.monotonic() < until:
            time.sleep(look)
        time.sleep(settled if wanted == needed else rest)
        wanted = min(needed if wanted < needed else tasks, wanted + at_once(tasks))
        executors.want(wanted)


class SparkExecutors:
    """Those of a SparkContext, by what its JVM offers for allocation from outside."""

    def __init__(self, context: "SparkContext") -> None:
        self._jvm: Any = context._jvm
        self._spark = context._jsc.sc()

    def there(self) -> int:
        return int(self._spark.getExecutorMemoryStatus().size()) - 1  # the driver is one of them

    def want(self, count: int) -> None:
        self._spark.requestTotalExecutors(count, 0, self._jvm.PythonUtils.toScalaMap({}))


def grow_beside(context: "SparkContext", tasks: int, needed: int) -> None:
    """Ask for the rest of the executors, in a thread of its own."""

    def work() -> None:
        try:
            grow(SparkExecutors(context), tasks, needed)
        except (Py4JError, OSError) as error:  # Spark ends, or has: whoever runs its tasks says why
            log.warning("executors are not asked for any more", extra={"reason": str(error)[:300]})

    threading.Thread(target=work, name="executors", daemon=True).start()
