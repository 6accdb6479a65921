"""Keys of a Redis server that a sink writes to, and what is there then."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from flamestream.connectors import sinks
from flamestream.connectors.redis import sink as redis_sink
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import SINK
from support.redis import RedisServer


class Key:
    """A key of its own, and a sink for it."""

    def __init__(self, server: RedisServer, **settings: Any) -> None:
        self.server = server
        self.name = f"k{uuid4().hex}"
        self.spec: dict[str, Any] = {"redis": {"url": server.url, "key": self.name, **settings}}
        self.state = redis_sink.state_key(self.spec["redis"]["key"], "job", SINK)

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def stream(self) -> list[dict[str, str]]:
        return [
            dict(zip(parts[::2], parts[1::2], strict=True))
            for _, parts in raw(self.server.call("XRANGE", self.name, "-", "+"))
        ]

    def hash(self) -> dict[str, str]:
        return dict(self.server.call("HGETALL", self.name))


def raw(answer: Any) -> list[tuple[str, list[str]]]:
    """Entries of a stream with their fields in a row."""
    return [
        (name, [part for pair in fields.items() for part in pair] if isinstance(fields, dict) else fields)
        for name, fields in answer
    ]


class StreamPlace(Key):
    """A stream with everything that the contract wants to see."""

    def __init__(self, server: RedisServer, **settings: Any) -> None:
        fields = {"slot": "$slot", "bundle": "$bundle", "meta": "$meta", "value": "$payload"}
        super().__init__(server, form="stream", fields=fields, **settings)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return [
            (
                int(e["slot"]),
                int(e["bundle"]),
                encode_items([(bytes.fromhex(e["meta"]), value_of(e["value"]))]),
            )
            for e in self.stream()
        ]


def value_of(text: str) -> Any:
    """Numbers are there as text; the kits' items are numbers and strs."""
    return int(text) if text.isdecimal() else text


class HashPlace(Key):
    """A hash whose entries are named by the place in the total order, read in that order; the kits' metas say
    slot and sequence."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(server, form="hash", field="$meta")

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        found = sorted((bytes.fromhex(meta), value) for meta, value in self.hash().items())
        return [
            (meta[9], int.from_bytes(meta[:9], "big"), encode_items([(meta, value)])) for meta, value in found
        ]
