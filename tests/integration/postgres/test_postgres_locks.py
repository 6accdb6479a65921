"""A PostgreSQL sink behind locks, zombies or a server that stands still: it waits and says so, and no
delivery counts twice."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from flamestream.connectors import sinks
from flamestream.connectors.postgres.state import FOLD
from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFenced, SinkOpened
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.testing.consumer_contract import SINK, Worker, fence
from flamestream.testing.port_driver import PortDriver
from support.eventually import eventually
from support.places.postgres_places import Table
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer
from support.processes import suspend


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
