"""The PostgreSQL source against a real server, which is killed in between; and transactions that commit out
of order."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from flamestream.connectors import sources
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, RecordsArrived, SourceEnded, SourceFailed
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import Time
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import (
    FRONT,
    PLENTY,
    PRODUCER_CHECKS,
    RECORDS,
    REPLAY_CHECKS,
    Front,
    Outside,
)
from flamestream.testing.producer_outages import (
    PRODUCER_OUTAGE_CHECKS,
    REPLAY_OUTAGE_CHECKS,
    StoppableOutside,
)
from support.postgres import PostgresServer, postgres

WORDS = [f"wörd {number}" for number in range(RECORDS)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres(max_prepared_transactions="4") as made:
        yield made


class Log:
    """A change log of its own."""

    partition = Partition("")

    def __init__(self, server: PostgresServer, payloads: list[Any], **settings: Any) -> None:
        self.server, self.payloads = server, payloads
        self.name = f"t{uuid4().hex}"
        server.execute(f"CREATE TABLE {self.name} (id bigserial PRIMARY KEY, word text)")
        self.spec = {
            "postgres": {
                "dsn": server.dsn,
                "table": self.name,
                "key": "id",
                "columns": ["word"],
                "poll_ms": 5,
                **settings,
            }
        }

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs")

    def add(self, *rows: tuple[int, str]) -> None:
        with self.server.connect() as connection:
            connection.cursor().executemany(f"INSERT INTO {self.name} VALUES (%s, %s)", rows)  # a test's SQL

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


class Dense(Log):
    """Keys 0 to 9."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server, list(WORDS))
        self.starts = list(range(RECORDS + 1))
        self.add(*enumerate(WORDS))


class Sparse(Log):
    """Keys with gaps of all sizes, that nobody will fill."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server, list(WORDS))
        keys = [3, 4, 5, 9, 10, 500, 502, 10**9, 10**9 + 1, 10**15]
        self.starts = [*keys, 10**15 + 1]
        self.add(*zip(keys, WORDS, strict=True))


@pytest.mark.parametrize("check", [*PRODUCER_CHECKS, *REPLAY_CHECKS], ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", [Dense, Sparse])
def test_contract(
    kind: Callable[[PostgresServer], Outside], check: Callable[[Outside], None], server: PostgresServer
) -> None:
    check(kind(server))


@pytest.mark.parametrize(
    "check", [*PRODUCER_OUTAGE_CHECKS, *REPLAY_OUTAGE_CHECKS], ids=lambda check: check.__name__
)
def test_contract_with_kills(check: Callable[[StoppableOutside], None], server: PostgresServer) -> None:
    check(Sparse(server))


def following(log: Log, driver: PortDriver) -> Front:
    front = Front(log, driver)
    front.follow(0)
    front.pull(PLENTY)
    return front


def seen(front: Front, *payloads: object) -> None:
    """Wait for these."""
    front.driver.until(lambda: len(front.got()) >= len(payloads), f"{payloads}")
    assert front.got() == list(payloads)


def test_a_lower_key_that_commits_later_is_not_lost(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [])
    insert = f"INSERT INTO {log.name} (word) VALUES (%s)"
    with server.connect() as slow, server.connect() as quick:
        slow.execute("BEGIN")
        slow.execute(insert, ("slow",))
        quick.execute(insert, ("quick",))
        front = following(log, driver)
        driver.until(
            lambda: "wait for transactions" in getattr(front.producer, "problem", ""),
            "a `problem` that names who is waited for",
        )
        assert str(slow.info.backend_pid) in getattr(front.producer, "problem", "")
        assert front.got() == []
        slow.execute("COMMIT")
        seen(front, "slow", "quick")
        assert not getattr(front.producer, "problem", "")


def test_a_key_that_is_rolled_back_holds_up_nobody(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [])
    insert = f"INSERT INTO {log.name} (word) VALUES (%s)"
    front = following(log, driver)
    with server.connect() as one, server.connect() as two:
        one.execute("BEGIN")
        one.execute(insert, ("never",))
        two.execute(insert, ("first",))
        one.execute("ROLLBACK")
        seen(front, "first")
        two.execute("BEGIN")
        two.execute(insert, ("a writer that came after the gap",))
        one.execute(insert, ("second",))
        two.execute("ROLLBACK")
        seen(front, "first", "second")


def test_a_prepared_transaction_is_waited_for(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [])
    name = f"p{uuid4().hex}"
    server.execute(
        "BEGIN", f"INSERT INTO {log.name} (word) VALUES ('prepared')", f"PREPARE TRANSACTION '{name}'"
    )
    server.execute(f"INSERT INTO {log.name} (word) VALUES ('later')")
    front = following(log, driver)
    driver.until(lambda: bool(getattr(front.producer, "problem", "")), "a `problem`")
    assert front.got() == []
    server.execute(f"COMMIT PREPARED '{name}'")
    seen(front, "prepared", "later")


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_whoever_commits_when(server: PostgresServer, driver: PortDriver, seed: int) -> None:
    """Six writers, one of five of their transactions rolled back, each commit at a random later moment."""
    rng = random.Random(seed)
    log = Log(server, [])
    front = following(log, driver)
    writers = [server.connect() for _ in range(6)]
    under_way: dict[int, list[str]] = {}
    committed: list[str] = []
    for number in range(400):
        which = rng.randrange(len(writers))
        if which not in under_way:
            writers[which].execute("BEGIN")
            under_way[which] = []
        if rng.random() < 0.6:
            words = [f"{number}.{part}" for part in range(rng.randrange(1, 4))]
            for word in words:
                writers[which].execute(f"INSERT INTO {log.name} (word) VALUES (%s)", (word,))
            under_way[which] += words
        else:
            kept = rng.random() < 0.8
            writers[which].execute("COMMIT" if kept else "ROLLBACK")
            words = under_way.pop(which)
            committed += words if kept else []
        if rng.random() < 0.3:
            driver.settle(1)
    for which in under_way:
        writers[which].execute("ROLLBACK")
    rows = [word for (word,) in server.execute(f"SELECT word FROM {log.name} ORDER BY id")]
    assert sorted(map(str, rows)) == sorted(committed)
    seen(front, *rows)
    for writer in writers:
        writer.close()


def test_the_end_of_a_log_that_is_not_followed(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [], follow=False)
    log.add((1, "a"), (7, "b"))
    front = following(log, driver)
    driver.take(SourceEnded)
    assert front.got() == ["a", "b"]


def test_rows_of_several_columns_are_tuples(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [], columns=["id", "word", "at", "numbers", "doc", "raw", "price", "ok", "none"])
    more = "at timestamptz, numbers int[], doc jsonb, raw bytea, price numeric, ok boolean, none text"
    server.execute(
        *(f"ALTER TABLE {log.name} ADD {column}" for column in more.split(", ")),
        f"INSERT INTO {log.name} VALUES (1, 'ä', '2026-01-02 03:04:05+05', '{{1,2}}', '{{\"a\": [1]}}', "
        "'\\x00ff', 1.50, true, null)",
    )
    front = following(log, driver)
    seen(front, (1, "ä", "2026-01-01 22:04:05+00", (1, 2), '{"a": [1]}', b"\x00\xff", "1.50", True, None))


def failure(log: Log, driver: PortDriver, offset: int = 0) -> SourceFailed:
    producer = log.connect(driver.post, driver.reactor)
    driver.at_exit.append(producer.close)
    producer.follow(Follow(Front.fence(1), FRONT, {log.partition: Offset(offset)} if offset else {}))
    producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
    return driver.take(SourceFailed)


@pytest.mark.parametrize(
    ("change", "settings", "says"),
    [
        ("DROP TABLE {}", {}, "there is no table"),
        ("SELECT 1", {"columns": ["wrod"]}, "has no column 'wrod'; it has id, word"),
        ("SELECT 1", {"key": "word"}, "it has to be an integer that grows"),
        ("ALTER TABLE {} DROP CONSTRAINT {}_pkey", {}, "ADD UNIQUE (id)"),
        ("ALTER SEQUENCE {}_id_seq CACHE 10", {}, "CACHE 1 INCREMENT 1 NO CYCLE"),
        ("ALTER TABLE {} OWNER TO nobody_else", {"dsn_user": "reader"}, "GRANT SELECT ON"),
    ],
)
def test_a_table_that_will_not_do(
    server: PostgresServer, driver: PortDriver, change: str, settings: dict[str, Any], says: str
) -> None:
    server.execute(
        *(
            f"DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN OTHERS THEN END $$"
            for role in ("nobody_else", "reader")
        )
    )
    user = settings.pop("dsn_user", None)
    log = Log(server, [], **settings)
    if user:
        log.spec["postgres"]["dsn"] = server.dsn.replace("test@", f"{user}@")
    server.execute(change.format(log.name, log.name))
    failed = failure(log, driver)
    assert failed.category == "user"
    assert says in failed.message


@pytest.mark.parametrize("change", ["ALTER TABLE {} DROP COLUMN word", "ALTER TABLE {} RENAME TO {}_old"])
def test_a_table_that_is_altered_while_it_is_read_ends_the_job(
    server: PostgresServer, driver: PortDriver, change: str
) -> None:
    log = Dense(server)
    producer = log.connect(driver.post, driver.reactor)
    driver.at_exit.append(producer.close)
    producer.follow(Follow(Front.fence(1), FRONT, {}))
    producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
    driver.take(RecordsArrived)
    server.execute(change.format(log.name, log.name))
    failed = driver.take(SourceFailed)
    assert failed.category == "user"
    assert log.name in failed.message or "word" in failed.message


def test_a_wrong_database_ends_the_job_with_what_to_do(server: PostgresServer, driver: PortDriver) -> None:
    log = Log(server, [])
    log.spec["postgres"]["dsn"] = server.dsn.replace("/postgres", "/nowhere")
    failed = failure(log, driver)
    assert failed.category == "user"
    assert "nowhere" in failed.message
    assert "password_file" in failed.message


def test_rows_that_are_gone_when_a_replay_needs_them_are_an_error(
    server: PostgresServer, driver: PortDriver
) -> None:
    log = Dense(server)
    server.execute(f"DELETE FROM {log.name} WHERE id = 3")
    with closing(log.connect(driver.post, driver.reactor)) as producer:
        producer.read(
            ReadRun(Front.fence(1), FRONT, Entry(Time(1), log.partition, Offset(2), 3, end=Offset(5)))
        )
        failed = driver.take(SourceFailed)
    assert failed.category == "corrupt"
    assert "had 3 rows with id from 2 to 4, and now has 2" in failed.message


def test_a_log_that_was_made_anew_is_an_error(server: PostgresServer, driver: PortDriver) -> None:
    log = Dense(server)
    server.execute(f"TRUNCATE {log.name}")
    log.add((1, "anew"))
    failed = failure(log, driver, offset=10)
    assert failed.category == "corrupt"
    assert "made anew" in failed.message
