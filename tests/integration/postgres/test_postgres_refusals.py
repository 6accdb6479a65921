"""What a PostgreSQL sink refuses: table, rights, rows or data that will not do are said, with what to do."""

from typing import Any

import pytest

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import SinkFailed
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.model.quoted import plain
from flamestream.testing.consumer_contract import SINK, Worker, fence
from flamestream.testing.port_driver import PortDriver
from support.places.postgres_places import Table
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer, postgres


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
