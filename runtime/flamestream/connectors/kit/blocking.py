"""A consumer whose outside is reached by blocking calls, in a thread of its own.

`Blocking` does the work; this queues its calls, retries them while the outside is away, and turns what they give into events.

Keeps: answers to an older fence are dropped; a close waits for nobody. Does not: know what is written where.
"""

from collections.abc import Callable
from typing import Any, Protocol

from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, Event, LastBundle, SinkFailed, SinkFenced, SinkOpened
from flamestream.loop.background import Queue, Threads
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot
from flamestream.ports import Post, Reactor


class Blocking(Protocol):
    """The blocking half. Each raises Fenced, another FlameStreamError, or OSError after which the same call may be made again."""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        """Refuse everything older than the action's fence for these slots; the last bundle of each that has one."""
        ...

    def deliver(self, action: Deliver) -> None:
        """Durable when it returns."""
        ...

    def close(self) -> None:
        """Called last, in the same thread."""
        ...


class BlockingConsumer:
    """`ports.Consumer`."""

    def __init__(self, blocking: Blocking, sink: SinkName, post: Post, reactor: Reactor) -> None:
        self._blocking = blocking
        self._sink = sink
        self._post = post
        self._thread = Threads(1, reactor.soon)
        self._calls = Queue(self._thread, reactor)
        self._fence: Fence = NO_FENCE

    @property
    def problem(self) -> str:
        """Why a call is being tried again, or that none is answered; "" if all is well."""
        return self._calls.problem

    def open(self, action: OpenSink) -> None:
        self._fence = max(self._fence, action.fence)
        self._calls.run(
            lambda: self._unless_outdated(action.fence, lambda: self._blocking.open(action)),
            lambda last: self._tell(action.fence, last, lambda: SinkOpened(action.fence, self._sink, last)),
        )

    def deliver(self, action: Deliver) -> None:
        self._calls.run(
            lambda: self._unless_outdated(action.fence, lambda: self._blocking.deliver(action)),
            lambda result: self._tell(action.fence, result, lambda: BundlesAcknowledged(action.fence, self._sink, action.number)),
        )

    def close(self) -> None:
        self._calls.close()
        self._thread.close(self._blocking.close)

    def _unless_outdated(self, fence: Fence, call: Callable[[], Any]) -> Any:
        """What is tried again while the outside is away need not be tried once a newer fence waits behind it."""
        if fence < self._fence:
            raise Fenced(f"{fence} is older than {self._fence}")
        return call()

    def _tell(self, fence: Fence, result: Any, success: Callable[[], Event]) -> None:
        if fence < self._fence:
            return
        event: Event
        if isinstance(result, Fenced):
            event = SinkFenced(fence, self._sink)
        elif isinstance(result, FlameStreamError):
            event = SinkFailed(fence, self._sink, result.category, f"sink {self._sink}: {result}")
        elif isinstance(result, Exception):
            raise result
        else:
            event = success()
        self._post(event)
