"""The process of a batch worker: a started Spark, the control link to the job's coordinator, and the pure
worker between them.

Spark's work is one call at a time in a thread beside the loop, so that the coordinator hears of this process
however long a batch takes.

Keeps: what is asked under a new fence begins when the call of the old one has ended. Does not: start Spark
(streaming/driver_main.py), or restart anything: whoever made this process makes another.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Exit, ToldCoordinator
from flamestream.core.protocol.events import FromCoordinator
from flamestream.core.protocol.vocabulary import vocabulary
from flamestream.core.worker.batch_worker import (
    Action,
    BatchWorker,
    Beat,
    ComputeBatch,
    Event,
    LookAhead,
    OpenSinks,
    OutsideFailed,
)
from flamestream.job.settings import PYTHON, inventory
from flamestream.job.validation import CheckedJob
from flamestream.loop.background import Threads
from flamestream.loop.reactor import EpollReactor
from flamestream.machine import process_shell
from flamestream.machine.process_identity import resident_bytes
from flamestream.model.errors import FlameStreamError, Retryable
from flamestream.model.ids import NO_FENCE, Fence, WorkerId
from flamestream.net.control_link import ControlClient
from flamestream.node.discretion import Discretion
from flamestream.node.worker_host import HEARTBEAT_SECONDS
from flamestream.spark.batches.batches import Batches
from flamestream.spark.batches.frame_job import frame_job
from flamestream.spark.frames.session import session_of
from flamestream.spark.frames.stages import stages_of
from flamestream.spark.streaming.session import SparkDriver
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where a batch worker and its coordinator meet."""

    job: str
    """Its identity."""
    coordinator: str
    """host:port"""
    token: str
    address: str
    """host:port of this process."""
    private: bool = False
    """Others read what the coordinator is told than who may see users' data."""


class BatchProcess:
    """A life of a batch worker."""

    def __init__(
        self, batches: Batches, hello: msg.Hello, meeting: Meeting, alive: Callable[[], bool]
    ) -> None:
        """`alive`: whether Spark's driver is."""
        self._batches, self._worker, self._alive = batches, BatchWorker(hello), alive
        self._reactor = EpollReactor()
        self._thread = Threads(1, self._reactor.soon)
        self._inbox: list[Event] = []
        self._discretion = Discretion(meeting.private)
        self._exit: Exit | None = None
        self._control = ControlClient(
            self._reactor, self._heard, meeting.job, meeting.coordinator, meeting.token, self._worker.hello
        )

    def run(self) -> Exit:
        """Until the coordinator has told it to stop."""
        self._beat()
        self._reactor.run(self._turn)
        self._control.close()
        self._thread.close()
        self._reactor.close()
        assert self._exit is not None, "the loop ends by Exit"
        log.info("worker exits", extra={"reason": self._exit.reason})
        return self._exit

    def _heard(self, event: Any) -> None:
        assert isinstance(event, FromCoordinator), "a control link posts what a coordinator says"
        self._inbox.append(event)

    def _beat(self) -> None:
        if not self._alive():
            raise Retryable("Spark's driver JVM was lost; what it printed is above")
        self._inbox.append(Beat(self._reactor.now(), resident_bytes()))
        self._reactor.later(HEARTBEAT_SECONDS, self._beat)

    def _turn(self) -> None:
        events, self._inbox[:] = [*self._inbox], []
        for action in self._worker.step(events):
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case ToldCoordinator(message):
                self._control.tell(ToldCoordinator(self._discretion.about(message)))
            case OpenSinks(fence, index):
                self._batches.cancel()
                self._ask(fence, lambda: self._batches.open(fence, index))
            case LookAhead():
                self._ask(action.fence, lambda: self._batches.look(action))
            case ComputeBatch():
                self._ask(action.fence, lambda: self._batches.compute(action))
            case Exit():
                self._exit = action
                self._batches.cancel()
                self._reactor.stop()

    def _ask(self, fence: Fence, work: Callable[[], Event]) -> None:
        self._thread.background(work, lambda answer: self._answered(fence, answer))

    def _answered(self, fence: Fence, answer: Event | Exception) -> None:
        self._inbox.append(_failed(fence, answer) if isinstance(answer, Exception) else answer)


def run_batches(
    spark: SparkDriver,
    checked: CheckedJob,
    worker: str,
    meeting: Meeting,
    zookeeper: ZooKeeperAccess = NOWHERE,
) -> Exit:
    """Be the batch worker `worker` of a job until its coordinator has told it to stop. Raises GraphError or
    UserError for a job that cannot be run like this, Retryable if Spark is lost."""
    stages_of(checked.graph)
    frames = frame_job(checked, job=meeting.job, zookeeper=zookeeper)
    spec = checked.job.spec
    batches = Batches(session_of(spark), frames, checked.job.store, spec.limits.runs, spec.workers.least)
    hello = msg.Hello(
        WorkerId(worker), meeting.address, NO_FENCE, False, PYTHON, checked.graph.identity, checked.code,
        clocks=len(checked.graph.clocks), inventory=inventory(checked), vocabulary=vocabulary(),
    )  # fmt: skip
    return BatchProcess(batches, hello, meeting, spark.jvm.alive).run()


def _failed(fence: Fence, error: Exception) -> OutsideFailed:
    if isinstance(error, FlameStreamError):
        return OutsideFailed(fence, error.category, str(error))
    return OutsideFailed(fence, "bug", process_shell.described(error))
