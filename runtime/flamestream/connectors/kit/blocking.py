"""A consumer whose outside is reached by blocking calls, in a thread of its own.

`Blocking` does the work; this queues its calls, retries them while the outside is away, and turns what they
give into events (`Answers`, for every sink with calls in threads).

Keeps: answers to an older fence are dropped; a close waits for nobody. Does not: know what is written where.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    Event,
    LastBundle,
    SinkFailed,
    SinkFenced,
    SinkOpened,
)
from flamestream.loop.background import Queue, Threads
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot
from flamestream.ports import Post, Reactor

T = TypeVar("T")


class Blocking(Protocol):
    """The blocking half. Each raises Fenced, another FlameStreamError, or OSError after which the same call
    may be made again."""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        """Refuse everything older than the action's fence for these slots; the last bundle of each that has
        one."""

    def deliver(self, action: Deliver) -> None:
        """Durable when it returns."""

    def close(self) -> None:
        """Called last, in the same thread."""


class Answers:
    """The events that follow from what a sink's calls return or raise, under the newest fence alone."""

    def __init__(self, sink: SinkName, post: Post) -> None:
        self._sink, self._post = sink, post
        self.fence: Fence = NO_FENCE
        """The newest that was asked for."""
        self.failed = False

    def tell(self, fence: Fence, result: object, success: Callable[[], Event | None]) -> None:
        """Post `success()` for a result, SinkFenced or SinkFailed for an error of ours. Raises every other
        exception: it is a bug."""
        event: Event | None
        if fence < self.fence:
            return
        if isinstance(result, Fenced):
            event = SinkFenced(fence, self._sink)
        elif isinstance(result, FlameStreamError):
            self.failed = True
            event = SinkFailed(fence, self._sink, result.category, f"sink {self._sink}: {result}")
        elif isinstance(result, Exception):
            raise result
        else:
            event = success()
        if event is not None:
            self._post(event)


class BlockingConsumer:
    """`ports.Consumer` over a `Blocking`."""

    def __init__(self, blocking: Blocking, sink: SinkName, post: Post, reactor: Reactor) -> None:
        self._blocking = blocking
        self._sink = sink
        self._answers = Answers(sink, post)
        self._thread = Threads(1, reactor.soon)
        self._calls = Queue(self._thread, reactor)

    @property
    def problem(self) -> str:
        """Why a call is being tried again, or that none is answered; "" if all is well."""
        return self._calls.problem

    def open(self, action: OpenSink) -> None:
        self._answers.fence = max(self._answers.fence, action.fence)
        self._run(
            action.fence, lambda: self._blocking.open(action), lambda last: self._opened(action.fence, last)
        )

    def deliver(self, action: Deliver) -> None:
        self._run(action.fence, lambda: self._blocking.deliver(action), lambda _: self._delivered(action))

    def close(self) -> None:
        self._calls.close()
        self._thread.close(self._blocking.close)

    def _opened(self, fence: Fence, last: dict[Slot, LastBundle]) -> SinkOpened:
        return SinkOpened(fence, self._sink, last)

    def _delivered(self, action: Deliver) -> BundlesAcknowledged:
        return BundlesAcknowledged(action.fence, self._sink, action.number)

    def _run(
        self,
        fence: Fence,
        call: Callable[[], T],
        success: Callable[[T], Event | None],
        calls: Queue | None = None,
    ) -> None:
        """Queue a call, in `calls` if it may be made beside the others."""

        def unless_outdated() -> T:
            # What is tried again while the outside is away need not be tried once a newer fence waits behind
            # it.
            if fence < self._answers.fence:
                raise Fenced(f"{fence} is older than {self._answers.fence}")
            return call()

        (calls or self._calls).run(
            unless_outdated, lambda result: self._answers.tell(fence, result, lambda: success(result))
        )
