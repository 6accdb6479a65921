"""The socket kinds of a manifest: a producer and a consumer in any language, that workers dial
(docs/reference/wire-protocol.md)."""

from typing import Final, Literal

from flamestream.connectors.kit.connector import (
    Connector,
    SinkContext,
    SinkSettings,
    SourceContext,
    SourceSettings,
    SourceTraits,
)
from flamestream.connectors.kit.spec import address_of
from flamestream.connectors.socket.sink import SocketConsumer
from flamestream.connectors.socket.source import SocketProducer
from flamestream.ports import Consumer, Producer


class SocketSourceSpec(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A producer to dial; see docs/reference/wire-protocol.md."""

    dials = "address"
    address: str
    """host:port of the producer."""
    payload: Literal["text", "bytes"] = "text"
    """The type of a record."""

    def __post_init__(self) -> None:
        address_of(self.address)

    def traits(self, where: str) -> SourceTraits:
        return SourceTraits(timed=False, run_length=0, replayable=False, bounded=False)

    def producer(self, context: SourceContext) -> Producer:
        address, as_bytes = address_of(self.address), self.payload == "bytes"
        return SocketProducer(
            address, as_bytes, context.name, context.job, context.front, context.post, context.reactor
        )


class SocketSinkSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A consumer to dial; see docs/reference/wire-protocol.md."""

    dials = "address"
    address: str
    """host:port of the consumer."""

    def __post_init__(self) -> None:
        address_of(self.address)

    def consumer(self, context: SinkContext) -> Consumer:
        return SocketConsumer(
            address_of(self.address), context.name, context.writer, context.job, context.post, context.reactor
        )


SOCKET: Final = Connector("socket", SocketSourceSpec, SocketSinkSpec)
