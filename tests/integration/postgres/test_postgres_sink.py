"""The PostgreSQL sink against a real server, which is killed in between."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

import flamestream as fs
from flamestream.connectors import sinks
from flamestream.connectors.postgres.state import FOLD
from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkFenced, SinkOpened
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.model.quoted import plain
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, Worker, fence
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS, StoppableOutside
from flamestream.testing.port_driver import PortDriver
from support.eventually import eventually
from support.places.postgres_places import Place, Table
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer, postgres
from support.processes import suspend


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], server: PostgresServer) -> None:
    check(Place(server))


@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills(check: Callable[[StoppableOutside], None], server: PostgresServer) -> None:
    check(Place(server))


# --- rows ---------------------------------------------------------------------------------------------------


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


# --- what can be wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "settings", "says"),
    [
        (
            "name text, value int",
            {"table": "nowhere.at_all"},
            "there is no table nowhere.at_all; create it, for example",
        ),
        ("name text, valeu int", {}, "has no column 'value'; it has name, valeu"),
        ("name text, value int", {"key": ["name"]}, "ADD UNIQUE (name)"),
        ("name text, value int GENERATED ALWAYS AS IDENTITY", {}, "column 'value' is generated always"),
        ("name text, value int", {"user": "writer"}, "GRANT INSERT ON"),
        (
            "name text PRIMARY KEY, value int",
            {"user": "writer", "key": ["name"]},
            "GRANT INSERT, SELECT, UPDATE ON",
        ),
        ("name text, value int", {"database": "elsewhere"}, 'database "elsewhere" does not exist'),
        ("name text, value int", {"user": "nobody_knows"}, 'role "nobody_knows" does not exist'),
        ("name text, value int", {"options": "-c synchronous_commit=off"}, "synchronous_commit is off"),
        ("name text, value int", {"state": "pg_class"}, "`state` table pg_class is not ours"),
    ],
)
def test_what_will_not_do_is_said_at_the_start(
    server: PostgresServer, driver: PortDriver, columns: str, settings: dict[str, Any], says: str
) -> None:
    server.execute("DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN OTHERS THEN END $$")
    parts = {name: settings.pop(name) for name in ("user", "database", "options") if name in settings}
    table = Table(server, columns, **settings)
    table.spec["postgres"]["dsn"] = (
        f"host=127.0.0.1 port={server.port} user={parts.get('user', 'test')} "
        f"dbname={parts.get('database', 'postgres')} options='{parts.get('options', '')}'"
    )
    Worker(table, "w1", driver).consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
    failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert says in failed.message


def test_a_role_that_may_not_create_our_table_is_told_what_to_run(
    server: PostgresServer, driver: PortDriver
) -> None:
    server.execute("DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN OTHERS THEN END $$")
    table = Table(server, "name text, value int")
    server.execute(f"GRANT INSERT ON {table.name} TO writer")
    table.spec["postgres"]["dsn"] = server.dsn.replace("test@", "writer@")
    worker = Worker(table, "w1", driver)
    worker.consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
    _, _, ddl = driver.take(SinkFailed).message.partition("let its owner run: ")
    server.execute(
        ddl,
        *(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table.name}_slots{of} TO writer"
            for of in ("", "_openings", "_log")
        ),
    )
    worker.open(fence(2), 0)
    worker.deliver(fence(2), things(0, 1, Thing("x", 1)))
    assert table.rows() == [("x", 1)]


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_password_ends_the_job_and_is_in_no_message(
    driver: PortDriver, password: str | None, tmp_path: Any
) -> None:
    with postgres(auth="scram-sha-256") as server:
        spec: dict[str, Any] = {"dsn": server.dsn, "table": "t", "columns": ["name"]}
        if password:
            (tmp_path / "password").write_text(password)
            spec["password_file"] = str(tmp_path / "password")
        consumer = sinks.build(
            {"postgres": spec}, SinkName(SINK), WorkerId("w"), "job", driver.post, driver.reactor
        )
        driver.at_exit.append(consumer.close)
        consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
        failed = driver.take(SinkFailed)
        assert failed.category == "user"
        assert "password" in failed.message
        assert "wrong" not in failed.message


def test_a_row_that_the_table_does_not_take_is_named(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int CHECK (value <> 7)")
    worker = opened(table, driver, 0)
    worker.send(fence(1), things(0, 1, *(Thing(f"n{n}", n) for n in range(20))))
    failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert "{'name': 'n7', 'value': 7}" in failed.message
    assert "violates check constraint" in failed.message
    assert table.rows() == []


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("int", "seven", "invalid input syntax for type integer"),
        ("int", 2**40, "out of range"),
        ("int", None, "null value"),
        ("varchar(3)", "four", "value too long"),
        ("text", "\0", "NUL"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(
    server: PostgresServer, driver: PortDriver, column: str, value: Any, says: str
) -> None:
    table = Table(server, f"name text, value {column} NOT NULL")
    worker = opened(table, driver, 0)
    worker.send(fence(1), things(0, 1, Thing("good", 1), Thing("bad", value)))
    message = driver.take(SinkFailed).message
    assert "'name': 'bad'" in message
    assert says in message


def test_a_payload_without_the_field_is_named(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    worker.send(fence(1), things(0, 1, "no thing"))
    assert "column 'name' wants 'name', which a str has not: 'no thing'" in plain(
        driver.take(SinkFailed).message
    )


def test_a_table_that_is_altered_under_it_ends_the_job(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    worker.deliver(fence(1), things(0, 1, Thing("a", 1)))
    server.execute(f"ALTER TABLE {table.name} RENAME value TO other")
    worker.send(fence(1), things(0, 2, Thing("b", 2)))
    failed = driver.take(SinkFailed)
    assert (failed.category, "value" in failed.message) == ("user", True)


def test_a_sink_that_lost_what_it_had_is_corrupt(server: PostgresServer, driver: PortDriver) -> None:
    """As after the restore of an older backup."""
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    worker.deliver(fence(1), things(0, 1, Thing("a", 1)))
    server.execute(f"DELETE FROM {table.name}_slots_log")
    server.restart()
    worker.send(fence(1), things(0, 2, Thing("b", 2)))
    failed = driver.take(SinkFailed)
    assert failed.category == "corrupt"
    assert "has lost data: it had bundle 1 of slot 0 and now has 0" in failed.message


def test_rows_of_ours_that_somebody_deleted_are_noticed(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    server.execute(f"DELETE FROM {table.name}_slots_openings")
    worker.send(fence(1), things(0, 1, Thing("a", 1)))
    failed = driver.take(SinkFailed)
    assert failed.category == "corrupt"
    assert "belong to FlameStream alone" in failed.message
    assert table.rows() == []


# --- locks, zombies, a server that stands still -------------------------------------------------------------


def test_an_older_sessions_lock_does_not_keep_the_next_attempt_out(
    server: PostgresServer, driver: PortDriver
) -> None:
    """A zombie that stands still in the middle of a statement: its session is ended."""
    table = Table(server, "name text, value int")
    zombie = opened(table, driver, 0)
    (name,) = server.execute(
        f"SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'flamestream%job/{SINK}'"
    )[-1]
    with closing(server.connect()) as held:
        held.execute("SELECT set_config('application_name', %s, false)", (name,))
        held.execute("BEGIN")
        held.execute(f"UPDATE {table.name}_slots SET items = items")
        heir = Worker(table, "w2", driver)
        heir.open(fence(2), 0)
        heir.deliver(fence(2), things(0, 1, Thing("a", 1)))
    zombie.send(fence(1), things(0, 1, Thing("of the zombie", 1)))
    driver.take(SinkFenced)
    assert table.rows() == [("a", 1)]


@contextmanager
def standing(server: PostgresServer, table: Table, zombie: Worker, driver: PortDriver) -> Iterator[Any]:
    """The zombie's first delivery stands in the middle of its statement, until the session that this gives
    lets go of lock 42."""
    server.execute(
        "CREATE OR REPLACE FUNCTION stand() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM "
        "pg_advisory_xact_lock(42); RETURN NEW; END'",
        f"CREATE TRIGGER stand BEFORE INSERT ON {table.name} FOR EACH ROW EXECUTE FUNCTION stand()",
    )
    with closing(server.connect()) as other:
        other.execute("SELECT pg_advisory_lock(42)")
        zombie.send(fence(1), things(0, 1, Thing("a", 1)))
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        driver.until(lambda: bool(server.execute(waiting)), "the statement stands")
        yield other


def test_who_opens_slots_anew_waits_for_the_delivery_that_is_under_way(
    server: PostgresServer, driver: PortDriver
) -> None:
    """The zombie's statement stands in the middle, its row of the log written and not committed: it counts,
    or it never happened."""
    table = Table(server, "name text, value int")
    zombie = opened(table, driver, 0)
    with standing(server, table, zombie, driver):
        heir = Worker(table, "w2", driver)
        last = heir.open(fence(2), 0)
    if not last:
        heir.deliver(fence(2), things(0, 1, Thing("a", 1)))
    heir.deliver(fence(2), things(0, 2, Thing("b", 2)))
    assert table.rows() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_what_an_opening_waited_for_counts_whatever_isolation_is_the_servers_default(
    server: PostgresServer, driver: PortDriver, isolation: str
) -> None:
    table = Table(server, "name text, value int")
    options = "-c default_transaction_isolation=" + isolation.replace(" ", "\\ ")
    table.spec["postgres"]["dsn"] += f"?options={quote(options)}"
    zombie = opened(table, driver, 0)
    with standing(server, table, zombie, driver) as other:

        def let_go() -> None:
            waits = (
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%DELETE "
                f"FROM%{table.name}_slots_openings%'"
            )
            while not server.execute(waits):
                pass
            other.execute("SELECT pg_advisory_unlock(42)")

        thread = Thread(target=let_go)
        thread.start()
        last = Worker(table, "w2", driver).open(fence(2), 0)
        thread.join()
    assert {slot: bundle.sequence for slot, bundle in last.items()} == {0: 1}


def test_a_lock_of_somebody_else_is_waited_for_and_told(server: PostgresServer, driver: PortDriver) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {table.name}")
        worker.send(fence(1), things(0, 1, Thing("a", 1)))
        driver.until(
            lambda: "lock timeout" in getattr(worker.consumer, "problem", ""),
            "a `problem` that names the lock",
        )
        other.execute("COMMIT")
        driver.take(BundlesAcknowledged)
    assert table.rows() == [("a", 1)]


def test_a_delivery_that_fails_behind_a_fold_is_tried_again(
    server: PostgresServer, driver: PortDriver
) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    for number in range(1, FOLD + 1):
        worker.deliver(fence(1), things(0, number, Thing("a", number)))
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {table.name}")
        worker.send(fence(1), things(0, FOLD + 1, Thing("a", FOLD + 1)))
        driver.until(
            lambda: "lock timeout" in getattr(worker.consumer, "problem", ""),
            "a `problem` that names the lock",
        )
        other.execute("COMMIT")
        driver.take(BundlesAcknowledged)
    assert table.rows() == [("a", number) for number in range(1, FOLD + 2)]


def test_a_server_that_stands_still_is_told_and_nothing_is_lost(
    server: PostgresServer, driver: PortDriver
) -> None:
    table = Table(server, "name text, value int")
    worker = opened(table, driver, 0)
    sessions = server.backends(f"flamestream%job/{SINK}")
    for pid in sessions:
        suspend(pid)
    try:
        worker.send(fence(1), things(0, 1, Thing("a", 1)))
        driver.until(
            lambda: "has not answered" in getattr(worker.consumer, "problem", ""), "a `problem` that says so"
        )
    finally:
        for pid in sessions:
            os.kill(pid, signal.SIGCONT)
    driver.take(BundlesAcknowledged)
    assert table.rows() == [("a", 1)]


def test_a_closed_consumer_lets_its_session_go(server: PostgresServer) -> None:
    table = Table(server, "name text, value int")
    table.spec["postgres"]["state"] = "closing_slots"
    with PortDriver() as driver:
        consumer = sinks.build(
            table.spec, SinkName("closing"), WorkerId("w"), "job", driver.post, driver.reactor
        )
        consumer.open(OpenSink(fence(1), SinkName("closing"), [Slot(0)]))
        driver.take(SinkOpened)
        assert server.backends("flamestream%job/closing")
        consumer.close()
        eventually(lambda: not server.backends("flamestream%job/closing"), "the session ends")
