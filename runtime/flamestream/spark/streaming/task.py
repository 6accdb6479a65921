"""The body of a Spark task: one worker's life, from the fork to its end.

A life begins when Spark starts the task, for the first time or again after the last one died; `Life` tells
them apart. It ends when the worker's main function returns (the task is done and is not started again),
raises or is killed (Spark starts the task again), or when the daemon that forked it is gone: Spark does not
notice that, and would never stop such an orphan, so the kernel does.

Keeps: no worker outlives its daemon, and the daemon ends with its executor's JVM; so none outlives its
executor. Does not: know what a worker does (node/worker_process.py).
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from flamestream.machine.parent_death import die_with_parent
from flamestream.model.errors import Bug, Retryable
from flamestream.spark.streaming.daemon import PID_VARIABLE

SHORT_LIFE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Life:
    """A life of a worker task, which may have several."""

    index: int
    """Which of the job's workers, from 0."""
    ordinal: int
    """How often Spark has started this task before."""
    nonce: str
    """Different in every life there ever was."""

    @property
    def name(self) -> str:
        """A worker id that is never used again."""
        return f"w{self.index}.{self.ordinal}-{self.nonce}"


WorkerMain = Callable[[Life], int]
"""Blocks until the worker is told to stop; 0 means that it was. Anything else is a failure, and the task is
started again."""


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """A partition's function for Spark: pickled by reference to this module, so the executors need the
    package installed."""

    main: WorkerMain
    first: int = 0
    """The index of the first partition's worker."""

    def __call__(self, _: Iterable[int]) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise Bug("a worker task runs outside Spark")
        watch_daemon()
        live(
            self.main, Life(self.first + context.partitionId(), context.attemptNumber(), secrets.token_hex(4))
        )


def live(
    main: WorkerMain,
    life: Life,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Live one life to its end. Raises if that was a failure, so that Spark starts another.

    Spark does so at once and without end. That is right for a worker that was killed, but one that fails as
    soon as it starts would keep a core busy; so a failure in a life's first second is followed by a pause. (A
    killed worker does not come here, and none waits for it.)
    """
    began = clock()
    code = -1
    try:
        code = main(life)
    finally:
        if code != 0 and clock() - began < SHORT_LIFE:
            pause(SHORT_LIFE)
    if code != 0:
        raise Retryable(f"worker {life.name} ended with exit code {code}")


def watch_daemon() -> None:
    """End with the daemon that forked this process."""
    die_with_parent(int(os.environ.get(PID_VARIABLE) or os.getppid()))
