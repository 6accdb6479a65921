"""Kinds that need nothing but this process: numbers, a channel, a function that is called, and nothing at all."""

from typing import Final

import msgspec

from flamestream.connectors.kit.connector import (
    Connector,
    SinkContext,
    SinkSettings,
    SinkTraits,
    SourceContext,
    SourceSettings,
    SourceTraits,
    cannot_fence,
)
from flamestream.connectors.kit.spec import MAX_RUN_LENGTH, function_of
from flamestream.connectors.synthetic.callback import CallbackConsumer
from flamestream.connectors.synthetic.generator import GeneratorProducer
from flamestream.connectors.synthetic.memory import MemoryProducer, channel_named
from flamestream.ports import Consumer, Producer

_RUNS_A_SECOND: Final = 1000


class GeneratorSpec(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers, or a function (`module:name`) of each."""

    count: int | None = None
    """So many numbers; left out: for ever."""
    rate: float | None = None
    """Numbers a second."""
    function: str | None = None
    """What a record is, of each number; left out: the number."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ValueError("`count` cannot be negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError("`rate` must be above 0; leave it out for as fast as possible")

    def traits(self, where: str) -> SourceTraits:
        length = MAX_RUN_LENGTH if self.rate is None else max(1, min(MAX_RUN_LENGTH, int(self.rate / _RUNS_A_SECOND)))
        return SourceTraits(timed=True, run_length=length, replayable=True, bounded=self.count is not None)

    def producer(self, context: SourceContext) -> Producer:
        called = None if self.function is None else function_of(self.function, f"{context.where}.generator.function")
        return GeneratorProducer(self.count, self.rate, called, context.front, context.post, context.reactor)

    def unpaced(self) -> "GeneratorSpec":
        return msgspec.structs.replace(self, rate=None)

    def sample(self, records: int, where: str) -> "GeneratorSpec":
        return msgspec.structs.replace(self, count=min(self.count or records, records))


class MemorySpec(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel of this process."""

    name: str
    """The channel's."""

    def traits(self, where: str) -> SourceTraits:
        return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)

    def producer(self, context: SourceContext) -> Producer:
        return MemoryProducer(channel_named(self.name), context.front, context.post, context.reactor)


class CallbackSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function (`module:name`) that gets the items of a bundle as a list of (meta, payload)."""

    holder = "nobody"
    function: str
    """module:name."""

    def traits(self, where: str) -> SinkTraits:
        return cannot_fence(where, "callback")

    def consumer(self, context: SinkContext) -> Consumer:
        called = function_of(self.function, f"{context.where}.callback.function")
        return CallbackConsumer(called, context.name, context.post, context.reactor)


class DiscardSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing is kept."""

    holder = "nobody"

    def traits(self, where: str) -> SinkTraits:
        return cannot_fence(where, "discard")

    def consumer(self, context: SinkContext) -> Consumer:
        return CallbackConsumer(None, context.name, context.post, context.reactor)


GENERATOR: Final = Connector("generator", source=GeneratorSpec)
MEMORY: Final = Connector("memory", source=MemorySpec)
CALLBACK: Final = Connector("callback", sink=CallbackSpec)
DISCARD: Final = Connector("discard", sink=DiscardSpec)
