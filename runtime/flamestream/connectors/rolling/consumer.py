"""A rolling sink as a port: deliveries one after the other, parts beside them, both retried while the outside
is away.

Keeps: at most one delivery each `segmentSeconds`; what is told is of the newest fence. Does not: write
(writing.py).
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from flamestream.connectors.kit.blocking import Answers
from flamestream.connectors.rolling.connector import Rolling
from flamestream.connectors.rolling.opening import FORMAT, Owner
from flamestream.connectors.rolling.parts import part_format
from flamestream.connectors.rolling.writing import Log
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFenced, SinkOpened
from flamestream.loop.background import Queue
from flamestream.model.errors import FlameStreamError, Retryable, UserError
from flamestream.model.ids import SinkName, WorkerId
from flamestream.ports import ObjectStore, Post, Reactor, Timer
from flamestream.store.places import store_from
from flamestream.store.s3_answers import StoreRefused

T = TypeVar("T")
FINISH_SECONDS: Final = 30.0
PART_SECONDS: Final = 60.0
"""Making one may well take a while."""


class RollingConsumer:
    """`ports.Consumer`."""

    def __init__(
        self,
        settings: Rolling,
        where: str,
        sink: SinkName,
        writer: WorkerId,
        job: str,
        post: Post,
        reactor: Reactor,
    ) -> None:
        self._settings, self._where, self._sink, self._writer = settings, where, sink, writer
        self._mine = Owner(FORMAT, job, sink, settings.format, settings.type)
        self._form = part_format(settings.format, settings.type, f"{where}.type")
        self._answers, self._post, self._reactor = Answers(sink, post), post, reactor
        self._deliveries, self._parts = Queue(reactor, reactor), Queue(reactor, reactor, PART_SECONDS)
        self._store: ObjectStore | None = None
        self._log: Log | None = None
        self._last = float("-inf")
        """The time at which the last delivery ended."""
        self._pause: Timer | None = None
        self._roll_timer: Timer | None = None
        self._rolling = False

    @property
    def problem(self) -> str:
        """Why a delivery or a part is being tried again; "" if none is."""
        return self._deliveries.problem or self._parts.problem

    def open(self, action: OpenSink) -> None:
        if action.fence < self._answers.fence:
            self._reactor.soon(lambda: self._post(SinkFenced(action.fence, self._sink)))
            return
        self._answers.fence = action.fence
        self._log = None
        self._deliveries.run(
            lambda: self._patiently(
                lambda: Log(
                    self._opened_store(), self._settings, self._form, self._mine, self._writer, action
                )
            ),
            lambda log: self._answers.tell(action.fence, log, lambda: self._opened(log)),
        )

    def deliver(self, action: Deliver) -> None:
        wait = self._last + self._settings.segment_seconds - time.monotonic()
        if wait > 0:
            # One timer is enough: the next delivery comes when this one is acknowledged.
            self._pause = self._reactor.later(wait, lambda: self._deliver(action))
        else:
            self._deliver(action)

    def close(self) -> None:
        """Make parts of what waits, if the outside lets us."""
        for timer in filter(None, (self._pause, self._roll_timer)):
            timer.cancel()
        self._deliveries.close()
        self._parts.close()
        log, self._log = self._log, None
        if log is not None and not self._answers.failed:
            try:
                log.finish(FINISH_SECONDS)
            except (FlameStreamError, OSError):
                return  # it is all in segments, and whoever opens next makes parts of them

    # --- deliveries -----------------------------------------------------------------------------------------

    def _opened(self, log: Log) -> SinkOpened:
        self._log = log
        if log.closes_older:
            self._run_parts(log.close_older)
        return SinkOpened(log.fence, self._sink, log.last)

    def _deliver(self, action: Deliver) -> None:
        log = self._log
        if log is None or action.fence != self._answers.fence:
            return  # a newer opening overtook it

        def acknowledged() -> BundlesAcknowledged:
            self._last = time.monotonic()
            self._roll_when_due()
            return BundlesAcknowledged(action.fence, self._sink, action.number)

        self._deliveries.run(
            lambda: self._patiently(lambda: log.deliver(action)),
            lambda result: self._answers.tell(action.fence, result, acknowledged),
        )

    def _opened_store(self) -> ObjectStore:
        if self._store is None:
            self._store = store_from(self._settings.path, create=True, setting=f"{self._where}.path")
        return self._store

    def _patiently(self, work: Callable[[], T]) -> T:
        """Leave what is away for now to whoever runs it, who tries again; what is refused is the user's to
        mend."""
        try:
            return work()
        except StoreRefused as error:
            raise UserError(f"{self._where}.path: {error}") from error
        except Retryable as error:
            raise OSError(str(error)) from error

    # --- parts ----------------------------------------------------------------------------------------------

    def _roll_when_due(self) -> None:
        log = self._log
        due = log.due() if log is not None else None
        if log is None or due is None or self._rolling:
            return
        if self._roll_timer is not None:
            self._roll_timer.cancel()
            self._roll_timer = None
        if due > 0:
            self._roll_timer = self._reactor.later(due, self._roll_when_due)
        else:
            self._run_parts(log.roll)

    def _run_parts(self, work: Callable[[], None]) -> None:
        fence = self._answers.fence
        self._rolling = True

        def done(result: object) -> None:
            self._rolling = False
            self._answers.tell(fence, result, lambda: None)
            if not isinstance(result, Exception):
                self._roll_when_due()

        self._parts.run(lambda: self._patiently(work), done)
