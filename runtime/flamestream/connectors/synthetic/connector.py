"""Kinds that need nothing but this process: numbers, a channel, a function that is called, and nothing at
all."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.spec import MAX_RUN_LENGTH, function_of
from flamestream.connectors.synthetic.generator import GeneratorProducer
from flamestream.connectors.synthetic.memory import MemoryProducer, channel_named
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkOpened
from flamestream.model.ids import SinkName
from flamestream.model.payload import decode_items
from flamestream.model.quoted import quoted
from flamestream.model.vertex import name_of
from flamestream.ports import Consumer, Post, Producer, Reactor


class GeneratorSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers, or a function (`module:name`) of each."""

    count: int | None = None
    """The number of records; left out: they never end."""
    rate: float | None = None
    """Numbers a second. It may change while the job lives, but neither come nor go."""
    function: str | None = None
    """A function that makes a record of each number; left out: the number is the record."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ValueError("`count` cannot be negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError("`rate` must be above 0; leave it out for as fast as possible")

    def traits(self, where: str) -> kit.SourceTraits:
        # One length for all rates (!): it says at which times numbers enter, and a rate may be edited.
        length = MAX_RUN_LENGTH if self.rate is None else 1
        return kit.SourceTraits(
            timed=True, run_length=length, replayable=True, bounded=self.count is not None
        )

    def producer(self, context: kit.SourceContext) -> Producer:
        called = (
            None
            if self.function is None
            else function_of(self.function, f"{context.where}.generator.function")
        )
        return GeneratorProducer(self.count, self.rate, called, context.front, context.post, context.reactor)

    def unpaced(self) -> "GeneratorSpec":
        return msgspec.structs.replace(self, rate=None)

    def sample(self, records: int, where: str) -> "GeneratorSpec":
        return msgspec.structs.replace(self, count=min(self.count or records, records))


class MemorySpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel of this process."""

    name: str
    """The channel's name."""

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)

    def producer(self, context: kit.SourceContext) -> Producer:
        return MemoryProducer(channel_named(self.name), context.front, context.post, context.reactor)


class CallbackSpec(kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function (`module:name`) that gets the items of a bundle as a list of (meta, payload)."""

    holder = "nobody"
    function: str
    """The function, as module:name."""

    def traits(self, where: str) -> kit.SinkTraits:
        return kit.cannot_fence(where, "callback")

    def consumer(self, context: kit.SinkContext) -> Consumer:
        called = function_of(self.function, f"{context.where}.callback.function")
        return CallbackConsumer(called, context.name, context.post, context.reactor)


class DiscardSpec(kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sink that keeps nothing."""

    holder = "nobody"

    def traits(self, where: str) -> kit.SinkTraits:
        return kit.cannot_fence(where, "discard")

    def consumer(self, context: kit.SinkContext) -> Consumer:
        return CallbackConsumer(None, context.name, context.post, context.reactor)


class CallbackConsumer:
    """`ports.Consumer`: a function that gets the items of one slot's bundle, each (meta, payload), in their
    order; none discards them.

    It keeps no last bundle and knows no fences, so it cannot be exactly once across a failure. What the
    function raises fails the sink; nothing is tried again."""

    def __init__(
        self,
        function: Callable[[list[tuple[bytes, Any]]], object] | None,
        sink: SinkName,
        post: Post,
        reactor: Reactor,
    ) -> None:
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
                        f"sink {self._sink}: {name_of(function)} raised {type(error).__name__}: "
                        f"{quoted(str(error))} (slot {bundle.slot})"
                    )
                    self._post(SinkFailed(action.fence, self._sink, "user", message))
                    return
        self._post(BundlesAcknowledged(action.fence, self._sink, action.number))


GENERATOR: Final = kit.Connector("generator", source=GeneratorSpec)
MEMORY: Final = kit.Connector("memory", source=MemorySpec)
CALLBACK: Final = kit.Connector("callback", sink=CallbackSpec)
DISCARD: Final = kit.Connector("discard", sink=DiscardSpec)
