"""`call.postgres` in a caller's real process: a pool that a manifest names, against a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import loops
from support.calls.asking import BEGINS, Asking, asking_with
from support.postgres import PostgresServer, postgres

APPLICATION = f"""{BEGINS}
@asked
@fs.call(timeout="20s")
async def added(numbers, call):
    async with call.postgres("sums").connection() as connection:
        cursor = await connection.execute("SELECT %s::int + %s", numbers)
        return (await cursor.fetchone())[0]

@asked
@fs.call(timeout="200ms", retries=0)
async def sleeps(seconds, call):
    async with call.postgres("sums").connection() as connection:
        await connection.execute("SELECT pg_sleep(%s)", [seconds])

@asked
@fs.call(timeout="1500ms")
async def patient(number, call):
    async with call.postgres("sums").connection() as connection:
        return number

@asked
@fs.call(timeout="20s", retries=0)
async def fails(word, call):
    async with call.postgres("sums").connection() as connection:
        await connection.execute("INSERT INTO kept VALUES (%s)", [word])
        raise ValueError(word)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres(auth="scram-sha-256") as made:
        made.dsn += "?password=secret"
        made.execute("CREATE TABLE kept (word text)")
        yield made


@pytest.fixture
def spec(server: PostgresServer, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "password").write_text("secret\n")
    dsn = server.dsn.partition("?")[0]
    return {"postgres": {"dsn": dsn, "connections": 2, "password_file": str(tmp_path / "password")}}


@pytest.fixture
def asking(spec: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asking]:
    module = f"asks_postgres_{abs(hash(request.node.name))}"
    with asking_with(tmp_path, module, APPLICATION, sums=spec) as made:
        yield made


def test_calls_share_a_bounded_pool(asking: Asking, server: PostgresServer) -> None:
    for number in range(50):
        asking.make("added", (number, 1), number)
    assert {answer.results for answer in asking.answers(50)} == {(number + 1,) for number in range(50)}
    assert 1 <= len(server.backends()) <= 2


def test_a_try_that_is_given_up_gives_its_connection_back(asking: Asking, server: PostgresServer) -> None:
    for number in range(6):
        asking.make("sleeps", 1000, number)
    assert {answer.error is None for answer in asking.answers(6)} == {False}
    assert asking.result("added", (1, 1)) == 2
    assert len(server.backends()) <= 2
    assert server.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'pg_sleep' AND state = 'active'"
    ) == [
        (1,)  # this question itself
    ]


def test_what_a_function_does_before_it_fails_is_rolled_back(asking: Asking, server: PostgresServer) -> None:
    assert asking.error("fails", "word") == "ValueError: word"
    assert server.execute("SELECT * FROM kept") == []


def test_an_outage_is_waited_out(asking: Asking, server: PostgresServer) -> None:
    assert asking.result("added", (1, 1)) == 2
    server.kill()
    asking.make("added", (2, 2))
    server.start()
    (answer,) = asking.answers()
    assert answer.results == (4,)


def test_why_nothing_connects_is_told_until_it_is_mended(
    spec: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And no password is, in a message or in a line of the log."""
    (tmp_path / "password").write_text("hunter22")
    with asking_with(tmp_path, "asks_postgres_wrongly", APPLICATION, sums=spec) as asking:
        asking.make("patient", 1)
        loops.turn_until(asking.loop, lambda: "is down" in asking.caller.problem, "trouble")
        said = asking.caller.problem
        assert "NotConnected: " in said and "password authentication failed" in said
        (tmp_path / "password").write_text("secret")
        (answer,) = asking.answers()
        assert answer.results == (1,)
    assert "hunter22" not in said + capfd.readouterr().err
