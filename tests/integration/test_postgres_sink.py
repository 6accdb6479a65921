"""The PostgreSQL sink against a real server, which is killed in between."""

from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import pytest

from flamestream.adapters import sinks
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, MORTAL_CHECKS, SINK, MortalOutside, Outside
from support.postgres import PostgresServer, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


class Place:
    """A table that payloads go to whole, with everything that the contract wants to see of them."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = f"t{uuid4().hex}"
        server.execute(f"CREATE TABLE {self.name} (n serial, slot int, bundle bigint, meta bytea, value text)")
        columns = {"slot": "$slot", "bundle": "$bundle", "meta": "$meta", "value": "$payload"}
        self.spec = {"postgres": {"dsn": server.dsn, "table": self.name, "columns": columns, "state": f"{self.name}_slots"}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def kill(self) -> None:
        self.server.kill()

    def revive(self) -> None:
        self.server.start()

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        rows = self.server.execute(f"SELECT slot, bundle, meta, value FROM {self.name} ORDER BY n")
        return [(slot, bundle, encode_items([(meta, value)])) for slot, bundle, meta, value in rows]  # type: ignore[misc]


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], server: PostgresServer) -> None:
    check(Place(server))


@pytest.mark.parametrize("check", MORTAL_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills(check: Callable[[MortalOutside], None], server: PostgresServer) -> None:
    check(Place(server))
