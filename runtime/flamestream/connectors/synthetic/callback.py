"""Sinks in this process, for tests and benchmarks: a function that is called, and nothing at all.

The function gets the items of one slot's bundle, each (meta, payload), in their order. Neither sink keeps a last bundle or knows
fences, so neither can be exactly once across a failure.

Keeps: acknowledges after the function has returned. Does not: retry a function that raises: that fails the sink.
"""

from collections.abc import Callable
from typing import Any

from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkOpened
from flamestream.model.graph import name_of
from flamestream.model.ids import SinkName
from flamestream.model.payload import decode_items
from flamestream.model.quoted import quoted
from flamestream.ports import Post, Reactor


class CallbackConsumer:
    """`ports.Consumer`. Without a function it discards."""

    def __init__(self, function: Callable[[list[tuple[bytes, Any]]], object] | None, sink: SinkName, post: Post, reactor: Reactor) -> None:
        self._function = function
        self._sink = sink
        self._post = post
        self._reactor = reactor

    def open(self, action: OpenSink) -> None:
        self._reactor.soon(lambda: self._post(SinkOpened(action.fence, self._sink, {})))

    def deliver(self, action: Deliver) -> None:
        self._reactor.soon(lambda: self._deliver(action))

    def close(self) -> None:
        """Nothing is held."""

    def _deliver(self, action: Deliver) -> None:
        function = self._function
        if function is not None:
            for bundle in action.bundles:
                try:
                    function(decode_items(bundle.items))
                except Exception as error:  # noqa: BLE001  # whatever a user's function raises is the sink's failure
                    message = (
                        f"sink {self._sink}: {name_of(function)} raised {type(error).__name__}: {quoted(str(error))} (slot {bundle.slot})"
                    )
                    self._post(SinkFailed(action.fence, self._sink, "user", message))
                    return
        self._post(BundlesAcknowledged(action.fence, self._sink, action.number))
