"""Tables of a PostgreSQL server that a sink writes to."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from flamestream.connectors import sinks
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import SINK
from support.postgres import PostgresServer


class Place:
    """A table that payloads go to whole, with everything that the contract wants to see of them."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = f"t{uuid4().hex}"
        server.execute(
            f"CREATE TABLE {self.name} (n serial, slot int, bundle bigint, meta bytea, value text)"
        )
        columns = {"slot": "$slot", "bundle": "$bundle", "meta": "$meta", "value": "$payload"}
        self.spec = {
            "postgres": {
                "dsn": server.dsn,
                "table": self.name,
                "columns": columns,
                "state": f"{self.name}_slots",
            }
        }

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        rows = self.server.execute(f"SELECT slot, bundle, meta, value FROM {self.name} ORDER BY n")
        return [(slot, bundle, encode_items([(meta, value)])) for slot, bundle, meta, value in rows]


class Table:
    """A table `CREATE TABLE t (columns)` and a sink for it."""

    def __init__(self, server: PostgresServer, definition: str, **settings: Any) -> None:
        self.server = server
        self.name = f"t{uuid4().hex}"
        server.execute(f"CREATE TABLE {self.name} ({definition})")
        self.spec = {
            "postgres": {
                "dsn": server.dsn,
                "table": self.name,
                "columns": ["name", "value"],
                "state": f"{self.name}_slots",
                **settings,
            }
        }

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def rows(self) -> list[tuple[object, ...]]:
        return self.server.execute(f"SELECT * FROM {self.name}")
