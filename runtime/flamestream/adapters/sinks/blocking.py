"""A consumer made of blocking calls: files, a database, whatever has a client that waits.

The calls of a worker come one at a time, in a helper thread, and an OSError is tried again until it succeeds (serial.py). So the blocking
half only has to be right: fence, keep the last bundle of each slot, and be atomic per slot.

Keeps: what is told is of the newest fence. Does not: write (files_sink.py does; or a connector of one's own, docs/connectors.md).
"""

from collections.abc import Callable
from typing import Any, Protocol

from flamestream.adapters.serial import Serial
from flamestream.core.actions import Deliver, OpenSink
from flamestream.core.events import BundlesAcknowledged, Event, LastBundle, SinkFailed, SinkFenced, SinkOpened
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot
from flamestream.ports import Post, Reactor


class Blocking(Protocol):
    """Raises Fenced if a newer fence has opened, OSError if the outside is away for now, another FlameStreamError if it cannot go on."""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        """Refuse everything older than `action.fence` for these slots from now on; their last bundles."""
        ...

    def deliver(self, action: Deliver) -> None:
        """Take the bundles that are new, atomically per slot; durable when it returns."""
        ...

    def close(self) -> None:
        """Let go. What was delivered stays."""
        ...


class BlockingConsumer:
    """`ports.Consumer`."""

    def __init__(self, blocking: Blocking, sink: SinkName, post: Post, reactor: Reactor) -> None:
        self._blocking = blocking
        self._sink = sink
        self._post = post
        self._calls = Serial(reactor)
        self._fence: Fence = NO_FENCE

    @property
    def problem(self) -> str:
        """Why a delivery is being tried again; "" if it is not."""
        return self._calls.problem

    def open(self, action: OpenSink) -> None:
        self._fence = max(self._fence, action.fence)
        self._calls.run(
            lambda: self._blocking.open(action),
            lambda last: self._tell(action.fence, last, lambda: SinkOpened(action.fence, self._sink, last)),
        )

    def deliver(self, action: Deliver) -> None:
        self._calls.run(
            lambda: self._blocking.deliver(action),
            lambda result: self._tell(action.fence, result, lambda: BundlesAcknowledged(action.fence, self._sink, action.number)),
        )

    def close(self) -> None:
        self._calls.close()
        self._blocking.close()

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
