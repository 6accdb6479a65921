"""The PostgreSQL sink against a real server, which is killed in between: the consumer's contract, and what
arrives in rows."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import flamestream as fs
from flamestream.connectors import sinks
from flamestream.core.protocol.events import SinkFailed, SinkFenced
from flamestream.model.errors import UserError
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, Outside, Worker, fence
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS, StoppableOutside
from flamestream.testing.port_driver import PortDriver
from support.places.postgres_places import Place, Table
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], server: PostgresServer) -> None:
    check(Place(server))


@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills(check: Callable[[StoppableOutside], None], server: PostgresServer) -> None:
    check(Place(server))


@pytest.mark.parametrize(
    ("column", "value", "back"),
    [
        ("text", 'ä \\ " \n', 'ä \\ " \n'),
        ("text", None, None),
        ("bigint", -(2**63), -(2**63)),
        ("numeric", 2**64 - 1, 2**64 - 1),
        ("numeric", "1.50", 1.5),
        ("boolean", True, True),
        ("float8", 1.5, 1.5),
        ("float8", float("inf"), float("inf")),
        ("bytea", b"\x00\xff", b"\x00\xff"),
        ("bytea[]", (b"\x00", b"a"), [b"\x00", b"a"]),
        ("int[]", (1, 2), [1, 2]),
        ("text[]", fs.Vector(["a", 'b"{,']), ["a", 'b"{,']),
        ("jsonb", fs.Map({"a": (1, None, "x")}), {"a": [1, None, "x"]}),
        ("jsonb", fs.Map({1: "x"}), [[1, "x"]]),
        ("json", Thing("inner", (True, 2.5)), {"name": "inner", "value": [True, 2.5]}),
        ("jsonb", "text", "text"),
        ("jsonb[]", ("a", 1), ["a", 1]),
        ("int[]", ((1, 2), (3, None)), [[1, 2], [3, None]]),
        ("text[]", (), []),
        ("text", (1, "a"), '[1,"a"]'),
        ("text", True, "true"),
        ("small_numbers", (1, 2), [1, 2]),
    ],
)
def test_values_arrive_as_they_are(
    server: PostgresServer, driver: PortDriver, column: str, value: Any, back: Any
) -> None:
    server.execute("DO $$ BEGIN CREATE DOMAIN small_numbers AS int[]; EXCEPTION WHEN OTHERS THEN END $$")
    table = Table(server, f"name text, value {column}")
    opened(table, driver, 0).deliver(fence(1), things(0, 1, Thing("x", value), Thing("none", None)))
    assert table.rows() == [("x", back), ("none", None)]


def test_a_column_may_be_of_a_composite_type(server: PostgresServer, driver: PortDriver) -> None:
    server.execute(
        "DO $$ BEGIN CREATE TYPE pair AS (name text, value int); EXCEPTION WHEN OTHERS THEN END $$"
    )
    table = Table(server, "name text, value pair")
    opened(table, driver, 0).deliver(fence(1), things(0, 1, Thing("x", Thing("inner", 7))))
    assert server.execute(f"SELECT (value).name, (value).value FROM {table.name}") == [("inner", 7)]


def test_many_deliveries_leave_few_rows_in_the_log_and_the_last_bundles_in_order(
    server: PostgresServer, driver: PortDriver
) -> None:
    """Slots of which some are delivered to more often: folded by their writer, and by the next owner of one
    of them."""
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0, 1, 2)
    for number in range(1, 101):
        often = [things(0, number, Thing("a", number))]
        worker.deliver(
            fence(1), *often, *([things(1, number // 10, Thing("b", number))] if number % 10 == 0 else [])
        )
    assert server.execute(f"SELECT count(*) <= 33 FROM {table.name}_slots_log") == [(True,)]
    last = Worker(table, "w2", driver).open(fence(2), 0)
    assert [(slot, bundle.sequence, bundle.items) for slot, bundle in last.items()] == [
        (0, 100, things(0, 100, Thing("a", 100)).items)
    ]
    worker.send(fence(1), things(1, 11, Thing("of the older fence", 0)))
    driver.take(SinkFenced)
    other = Worker(table, "w3", driver).open(fence(2), 1, 2)
    assert [(slot, bundle.sequence) for slot, bundle in other.items()] == [(1, 10)]
    assert server.execute(f"SELECT count(*) FROM {table.name}_slots_log") == [(0,)]


def test_nan_arrives_as_nan(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value float8")
    opened(table, driver, 0).deliver(fence(1), things(0, 1, Thing("x", float("nan"))))
    assert server.execute(f"SELECT value = 'NaN' FROM {table.name}") == [(True,)]


def test_columns_take_parts_of_payloads_and_places(server: PostgresServer, driver: PortDriver) -> None:
    columns = {
        "whole": "$payload",
        "inner": "value.1.name",
        "key": "value.0",
        "at": "$time",
        "slot": "$slot",
        "n": "$bundle",
        "of": "$sink",
    }
    table = Table(
        server, 'whole jsonb, "inner" text, key int, at bigint, slot int, n int, "of" text', columns=columns
    )
    opened(table, driver, 3).deliver(fence(1), things(3, 1, Thing("x", (7, Thing("y", None)))))
    assert table.rows() == [
        ({"name": "x", "value": [7, {"name": "y", "value": None}]}, "y", 7, 0, 3, 1, "out")
    ]


def test_rows_with_a_key_are_replaced(server: PostgresServer, driver: PortDriver) -> None:
    """The last one counts, within a delivery and across deliveries."""
    table = Table(server, "name text PRIMARY KEY, value int, untouched int DEFAULT 5", key=["name"])
    worker = opened(table, driver, 0, 1)
    worker.deliver(
        fence(1), things(0, 1, Thing("a", 1), Thing("b", 1), Thing("a", 2)), things(1, 1, Thing("c", 1))
    )
    worker.deliver(fence(1), things(0, 2, Thing("b", 3)))
    assert sorted(table.rows()) == [("a", 2, 5), ("b", 3, 5), ("c", 1, 5)]


def test_a_key_that_comes_from_two_slots_is_refused(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text PRIMARY KEY, value int", key=["name"])
    worker = opened(table, driver, 0, 1)
    worker.send(fence(1), things(0, 1, Thing("a", 1)), things(1, 1, Thing("a", 2)))
    assert "let the graph's .sink('out', key=...)" in driver.take(SinkFailed).message
    assert table.rows() == []


def test_one_large_delivery(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int")
    opened(table, driver, *range(64)).deliver(
        fence(1),
        *(things(slot, 1, *(Thing("x" * 50, slot * 128 + n) for n in range(128))) for slot in range(64)),
    )
    assert server.execute(f"SELECT count(*), sum(value) FROM {table.name}") == [(8192, 8192 * 8191 // 2)]


def test_the_history_gives_back_everything_in_the_total_order(
    server: PostgresServer, driver: PortDriver
) -> None:
    history = f"h{uuid4().hex}"
    table = Table(server, "name text, value int", history=history)
    worker = opened(table, driver, 0, 1)
    worker.deliver(fence(1), things(1, 1, Thing("b", 2), Thing("c", 3)), things(0, 1, Thing("a", 1)))
    worker.deliver(fence(1), things(0, 2, Thing("d", 4)))
    assert [(slot, sequence, value.name) for _, slot, sequence, value in sinks.read(table.spec)] == [
        (0, 1, "a"), (1, 1, "b"), (1, 1, "c"), (0, 2, "d"),
    ]  # fmt: skip


def test_without_a_history_nothing_can_be_read_back() -> None:
    spec = {"postgres": {"dsn": "host=nowhere", "table": "t", "columns": ["x"]}}
    with pytest.raises(UserError, match="set `history`"):
        sinks.read(spec)
