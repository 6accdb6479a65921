"""PostgreSQL tables that are altered under a running job: nothing is lost or doubled in silence, and the
message says what to mend."""

from typing import Any
from uuid import uuid4

import pytest

from flamestream.connectors import sources
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived, SinkFailed, SourceFailed
from flamestream.testing.consumer_contract import Worker, fence
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front
from support.places.postgres_places import Table
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer

# --- the source ---------------------------------------------------------------------------------------------


class Log:
    """A change log with three rows, and a producer that has read them."""

    def __init__(self, server: PostgresServer, driver: PortDriver) -> None:
        self.server, self.driver = server, driver
        self.name = f"t{uuid4().hex}"
        server.execute(
            f"CREATE TABLE {self.name} (id bigserial PRIMARY KEY, word text)",
            f"INSERT INTO {self.name} (word) VALUES ('a'), ('b'), ('c')",
        )
        spec = {
            "postgres": {
                "dsn": server.dsn,
                "table": self.name,
                "key": "id",
                "columns": ["word"],
                "poll_ms": 5,
            }
        }
        producer = sources.build(spec, FRONT, driver.post, driver.reactor, name="docs")
        driver.at_exit.append(producer.close)
        producer.follow(Follow(Front.fence(1), FRONT, {}))
        producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
        self.wait("a", "b", "c")

    def alter(self, *statements: str) -> None:
        self.server.execute(*(statement.format(self.name) for statement in statements))

    def given(self) -> list[Any]:
        return [
            payload
            for event in self.driver.events
            if isinstance(event, RecordsArrived)
            for payload in event.payloads
        ]

    def wait(self, *words: str) -> None:
        self.driver.until(lambda: len(self.given()) >= len(words), f"{words}")
        assert self.given() == list(words)


def test_a_source_goes_on_where_a_column_is_added_or_the_table_is_rewritten(
    server: PostgresServer, driver: PortDriver
) -> None:
    log = Log(server, driver)
    log.alter("ALTER TABLE {} ADD more int DEFAULT 7", "VACUUM FULL {}", "INSERT INTO {} (word) VALUES ('d')")
    log.wait("a", "b", "c", "d")


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE {0} RENAME TO {0}_old", "CREATE TABLE {0} (LIKE {0}_old INCLUDING ALL)"),
        ("DROP TABLE {0}", "CREATE TABLE {0} (id bigserial PRIMARY KEY, word text)"),
    ],
    ids=["renamed", "dropped"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_another_table_under_the_same_name_is_not_read_on(
    server: PostgresServer, driver: PortDriver, statements: tuple[str, str], restarted: bool
) -> None:
    """Its rows from our position on would hide that those below were never read."""
    log = Log(server, driver)
    rows = "INSERT INTO {0} VALUES " + ", ".join(f"({key}, 'new {key}')" for key in range(1, 10))
    log.alter("BEGIN", *statements, rows, "COMMIT")
    if restarted:
        server.restart()
    failed = driver.take(SourceFailed)
    assert log.given() == ["a", "b", "c"]
    assert failed.category == "corrupt"
    assert "another one has taken its name" in failed.message
    assert "read up to id 3" in failed.message


def test_a_sequence_that_is_made_to_hand_out_keys_ahead_ends_the_job_before_a_key_is_passed_over(
    server: PostgresServer, driver: PortDriver
) -> None:
    log = Log(server, driver)
    log.alter("ALTER SEQUENCE {}_id_seq CACHE 10")
    with server.connect() as one, server.connect() as two:
        one.execute(f"INSERT INTO {log.name} (word) VALUES ('4, with 5 to 13 in its hand')")
        two.execute(f"INSERT INTO {log.name} (word) VALUES ('14')")
        failed = driver.take(SourceFailed)
        one.execute(f"INSERT INTO {log.name} (word) VALUES ('5')")
    assert "14" not in log.given()
    assert failed.category == "user"
    assert f"ALTER SEQUENCE {log.name}_id_seq CACHE 1" in failed.message


@pytest.mark.parametrize("restarted", [False, True])
def test_a_column_of_another_type_ends_the_job_and_names_it(
    server: PostgresServer, driver: PortDriver, restarted: bool
) -> None:
    """What was read would be read again as something else."""
    log = Log(server, driver)
    log.alter(
        "BEGIN",
        "ALTER TABLE {} ALTER word TYPE int USING length(word)",
        "INSERT INTO {} (word) VALUES (8)",
        "COMMIT",
    )
    if restarted:
        server.restart()
    failed = driver.take(SourceFailed)
    assert log.given() == ["a", "b", "c"]
    assert failed.category == "user"
    assert f"column 'word' of table {log.name} was text and is now integer" in failed.message


def test_a_column_of_a_type_with_the_same_values_is_read_on(
    server: PostgresServer, driver: PortDriver
) -> None:
    log = Log(server, driver)
    log.alter("ALTER TABLE {} ALTER word TYPE varchar(20)", "INSERT INTO {} (word) VALUES ('d')")
    log.wait("a", "b", "c", "d")


# --- the sink -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP TABLE {}", "does not exist"),
        ("ALTER TABLE {} DROP COLUMN value", "value"),
        ("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey", "ON CONFLICT"),
        (
            "ALTER TABLE {0} ADD needed int NOT NULL DEFAULT 1; ALTER TABLE {0} ALTER needed DROP DEFAULT",
            "needed",
        ),
        ("ALTER TABLE {} ADD CHECK (value < 2) NOT VALID", "check constraint"),
        ("ALTER TABLE {0} RENAME TO {0}_old", "does not exist"),
    ],
)
def test_a_sinks_table_that_does_not_fit_any_more_ends_the_job_and_takes_the_row_when_it_is_mended(
    server: PostgresServer, driver: PortDriver, change: str, says: str
) -> None:
    table = Table(server, "name text PRIMARY KEY, value int", key=["name"])
    worker = opened(table, driver, 0)
    worker.deliver(fence(1), things(0, 1, Thing("a", 1)))
    server.execute(*change.format(table.name).split("; "))
    worker.send(fence(1), things(0, 2, Thing("b", 2)))
    failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert says in failed.message
    server.execute(
        f"DROP TABLE IF EXISTS {table.name}", f"CREATE TABLE {table.name} (name text PRIMARY KEY, value int)"
    )
    heir = Worker(table, "w2", driver)
    assert {slot: last.sequence for slot, last in heir.open(fence(2), 0).items()} == {0: 1}, (
        "the refused bundle was not counted"
    )
    heir.deliver(fence(2), things(0, 2, Thing("b", 2)))
    assert table.rows() == [("b", 2)]


@pytest.mark.parametrize(("of", "back"), [("text", ("b", "2")), ("numeric", ("b", 2)), ("bigint", ("b", 2))])
def test_a_sink_goes_on_where_a_column_gets_another_type_that_takes_its_values(
    server: PostgresServer, driver: PortDriver, of: str, back: tuple[object, ...]
) -> None:
    table = Table(server, "name text PRIMARY KEY, value int", key=["name"])
    worker = opened(table, driver, 0)
    worker.deliver(fence(1), things(0, 1, Thing("a", 1)))
    server.execute(f"ALTER TABLE {table.name} ALTER value TYPE {of}")
    worker.deliver(fence(1), things(0, 2, Thing("b", 2)))
    assert sorted(table.rows())[1] == back
