"""The streaming runner: one long-lived Spark task a worker.

A plain job of as many partitions as workers. Spark starts a partition's task again whenever it is lost, with
its worker, its daemon or its executor, and leaves the others alone (a barrier job would restart them all). So
the job lasts until every worker was told to stop, and what Spark knows of the job is only that: membership,
layout and recovery are the coordinator's.

Keeps: `ended` is called once, whatever ends the job. Does not: tell workers to stop (the coordinator does);
`stop` is for those that do not listen.
"""

import re
import threading
import uuid
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flamestream.model.errors import ManifestError, Retryable
from flamestream.spark.streaming.session import reason_of
from flamestream.spark.streaming.task import WorkerMain, WorkerTask

STOP_WITHIN: Final = 20.0
Ended = Callable[[Retryable | None], None]
"""Gets None if every worker was told to stop, or the job was stopped; else why Spark gave it up. Called in a
thread of its own."""


class WorkerTasks:
    """A running job of worker tasks."""

    def __init__(
        self, context: SparkContext, count: int, main: WorkerMain, ended: Ended, first: int = 0
    ) -> None:
        """Start `count` tasks, each of which calls `main` with its `Life`, with indexes from `first` on. `main`
        is pickled: an importable one, or a partial of it."""
        self._context = context
        self._group = f"flamestream-{uuid.uuid4().hex}"
        self._count, self._task, self._ended = count, WorkerTask(main, first), ended
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="worker-tasks", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the job has not ended yet."""
        return self._thread.is_alive()

    def wait(self, within: float) -> bool:
        """True once the job has ended; False if it has not within so many seconds."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Kill the tasks that still run. Raises Retryable if Spark does not end the job."""
        self._stopping = True
        if self.running:
            self._context.cancelJobGroup(self._group)
        if not self.wait(STOP_WITHIN):
            raise Retryable(
                f"Spark has not cancelled the worker tasks within {STOP_WITHIN:g} s: "
                "end its driver process instead"
            )

    def _run(self) -> None:
        problem = None
        try:
            # A job group is of the thread that sets it, so it is set where the job is run.
            self._context.setJobGroup(self._group, f"{self._count} workers", interruptOnCancel=True)
            self._context.parallelize(range(self._count), self._count).foreachPartition(self._task)
        except (Py4JError, OSError) as error:
            if not self._stopping:
                problem = Retryable(f"Spark gave up the worker tasks: {reason_of(error)}")
        self._ended(problem)


def run_workers(
    context: SparkContext, count: int, main: WorkerMain, ended: Ended, *, of: int = 0, first: int = 0
) -> WorkerTasks:
    """Run `count` workers in `context`, with indexes from `first` on, of so many (`of`) that run there at the
    same time; 0: no more than these. Raises ManifestError if it cannot run them all at once."""
    master, room, wanted = context.master or "", context.defaultParallelism, max(of, count)
    if re.match(r"local(\[|$)", master) and room < wanted:
        beside = f", of which {wanted - count} are to be replaced by the others" if wanted > count else ""
        raise ManifestError(
            f"Spark's master {master!r} runs {room} tasks at a time, the job has {wanted} workers{beside}: "
            "give spec.spark.master more cores; where it is left out, stop the job and start it again"
        )
    return WorkerTasks(context, count, main, ended, first)
