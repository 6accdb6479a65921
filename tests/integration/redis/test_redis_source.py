"""The Redis source against a real server, which is killed in between; and streams that forget."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("redis")  # an extra

import flamestream as fs
from flamestream.connectors import sources
from flamestream.connectors.redis.source import id_of, offset_of
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, RecordsArrived, SourceEnded, SourceFailed
from flamestream.model.errors import ManifestError
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue
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
from support.redis import RedisServer, redis_server

WORDS = [f"wörd {number}" for number in range(RECORDS)]
DENSE = [f"7-{number}" for number in range(1, RECORDS + 1)]
SPARSE = [
    "0-1",
    "0-9",
    "1-0",
    "2-1048575",
    "3-0",
    "1767225600000-0",
    "1767225600000-1",
    "1767225600007-0",
    "2000000000000-0",
    "8000000000000-3",
]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as made:
        yield made


class Stream:
    """A stream of its own, with entries of these ids."""

    partition = Partition("")

    def __init__(self, server: RedisServer, ids: list[str], **settings: Any) -> None:
        self.server, self.payloads = server, list(WORDS)
        self.name = f"s{uuid4().hex}"
        self.spec = {"redis": {"url": server.url, "key": self.name, "fields": ["line"], **settings}}
        self.starts = [0, *(offset_of(name) + 1 for name in ids)]
        for name, word in zip(ids, WORDS, strict=False):
            self.add(word, name)

    def add(self, word: str, name: str = "*") -> None:
        self.server.call("XADD", self.name, name, "line", word)

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs")

    def follow(self, driver: PortDriver, offset: int = 0) -> Producer:
        producer = self.connect(driver.post, driver.reactor)
        driver.at_exit.append(producer.close)
        producer.follow(Follow(Front.fence(1), FRONT, {self.partition: Offset(offset)} if offset else {}))
        producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
        return producer

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


def given(driver: PortDriver) -> list[Any]:
    return [
        payload for event in driver.events if isinstance(event, RecordsArrived) for payload in event.payloads
    ]


IDS = pytest.mark.parametrize("ids", [DENSE, SPARSE], ids=["dense", "sparse"])


@IDS
@pytest.mark.parametrize("check", [*PRODUCER_CHECKS, *REPLAY_CHECKS], ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], ids: list[str], server: RedisServer) -> None:
    check(Stream(server, ids))


@pytest.mark.parametrize(
    "check", [*PRODUCER_OUTAGE_CHECKS, *REPLAY_OUTAGE_CHECKS], ids=lambda check: check.__name__
)
def test_contract_with_kills(check: Callable[[StoppableOutside], None], server: RedisServer) -> None:
    check(Stream(server, SPARSE))


def test_what_is_added_later_is_given_in_order(server: RedisServer, driver: PortDriver) -> None:
    """Also to a stream that was not there."""
    stream = Stream(server, [])
    producer = stream.follow(driver)
    driver.until(lambda: "nothing yet" in getattr(producer, "problem", ""), "a `problem` that says so")
    for word in WORDS:
        stream.add(word)
        driver.until(lambda word=word: given(driver)[-1:] == [word], word)  # type: ignore[misc]  # bound at once
    assert given(driver) == WORDS


def test_ids_and_offsets_are_the_same_thing() -> None:
    assert [id_of(offset_of(name)) for name in SPARSE] == SPARSE
    assert sorted(SPARSE, key=offset_of) == SPARSE


def test_a_start_leaves_out_what_is_older(server: RedisServer, driver: PortDriver) -> None:
    Stream(server, SPARSE, start="1767225600000-1", follow=False).follow(driver)
    driver.take(SourceEnded)
    assert given(driver) == WORDS[6:]


@pytest.mark.parametrize(
    ("settings", "payload"),
    [
        ({"fields": ["a"]}, "1"),
        ({"fields": ["b", "a"]}, ("2", "1")),
        ({"fields": []}, fs.Map({"a": "1", "b": "2"})),
        ({"fields": ["a"], "values": "bytes"}, b"1"),
    ],
)
def test_a_record_has_the_fields_that_are_asked_for(
    server: RedisServer, driver: PortDriver, settings: dict[str, Any], payload: Any
) -> None:
    stream = Stream(server, [], **settings)
    server.call("XADD", stream.name, "*", "a", "1", "b", "2")
    stream.follow(driver)
    driver.until(lambda: given(driver) == [payload], "the record")


@pytest.mark.parametrize(
    ("field", "value", "says"), [("other", "x", "no field 'line'"), ("line", b"\xff", "not UTF-8")]
)
def test_an_entry_that_cannot_be_read_is_an_error_at_its_place(
    server: RedisServer, driver: PortDriver, field: str, value: str | bytes, says: str
) -> None:
    stream = Stream(server, ["1-1"])
    server.call("XADD", stream.name, "1-2", field, value)
    stream.add("next", "1-3")
    stream.follow(driver)
    driver.until(lambda: len(given(driver)) == 3, "three records")
    first, bad, last = given(driver)
    assert (first, last) == (WORDS[0], "next")
    assert isinstance(bad, ErrorValue)
    assert "entry 1-2" in bad.message
    assert says in bad.message


# --- streams that forget ------------------------------------------------------------------------------------


def failure(driver: PortDriver) -> str:
    failed = driver.take(SourceFailed)
    assert failed.category == "corrupt", failed.message
    return failed.message


def test_entries_trimmed_before_they_were_read_are_an_error_that_says_which(
    server: RedisServer, driver: PortDriver
) -> None:
    stream = Stream(server, DENSE)
    server.call("XTRIM", stream.name, "MAXLEN", 4)
    stream.follow(driver, offset=stream.starts[3])
    message = failure(driver)
    assert "read up to 7-3, which has been removed, and goes on at 7-7" in message
    assert given(driver) == []


def test_entries_trimmed_behind_the_reader_are_no_error(server: RedisServer, driver: PortDriver) -> None:
    stream = Stream(server, DENSE)
    stream.follow(driver)
    driver.until(lambda: given(driver) == WORDS, "all records")
    server.call("XTRIM", stream.name, "MAXLEN", 1)
    stream.add("more")
    driver.until(lambda: given(driver) == [*WORDS, "more"], "the next record")


def test_the_last_entry_may_be_removed_while_nothing_is_added(
    server: RedisServer, driver: PortDriver
) -> None:
    stream = Stream(server, DENSE)
    server.call("XTRIM", stream.name, "MAXLEN", 0)
    producer = stream.follow(driver, offset=stream.starts[-1])
    driver.settle()
    assert (given(driver), producer.problem) == ([], "")  # type: ignore[attr-defined]  # this producer's


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_that_was_deleted_is_an_error(server: RedisServer, driver: PortDriver, again: bool) -> None:
    stream = Stream(server, DENSE)
    server.call("DEL", stream.name)
    if again:
        stream.add("of another stream", "1-1")
    stream.follow(driver, offset=stream.starts[-1])
    assert ("now ends at 1-1" if again else "is gone") in failure(driver)
    assert given(driver) == []


def test_a_run_that_is_not_there_any_more_is_an_error(server: RedisServer, driver: PortDriver) -> None:
    stream = Stream(server, DENSE)
    server.call("XDEL", stream.name, "7-5")
    producer = stream.connect(driver.post, driver.reactor)
    driver.at_exit.append(producer.close)
    producer.read(
        ReadRun(
            Front.fence(1),
            FRONT,
            Entry(Time(9), stream.partition, Offset(stream.starts[0]), 10, end=Offset(stream.starts[10])),
        )
    )
    assert "had 10 entries from 0-0 to 7-10, and now has 9" in failure(driver)


# --- what can be wrong --------------------------------------------------------------------------------------


def test_a_key_that_holds_something_else_ends_the_job(server: RedisServer, driver: PortDriver) -> None:
    stream = Stream(server, [])
    server.call("SET", stream.name, "text")
    stream.follow(driver)
    failed = driver.take(SourceFailed)
    assert (failed.category, "WRONGTYPE" in failed.message or "wrong kind" in failed.message) == (
        "user",
        True,
    )


def test_a_wrong_password_ends_the_job_and_is_in_no_message(driver: PortDriver, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("mistaken")
    with redis_server(requirepass="right") as locked:
        Stream(locked, [], password_file=str(tmp_path / "password")).follow(driver)
        failed = driver.take(SourceFailed)
    assert (failed.category, "REDISCLI_AUTH or `password_file`" in failed.message) == ("user", True)
    assert "mistaken" not in failed.message


def test_a_server_that_forgets_is_refused(driver: PortDriver) -> None:
    with redis_server(appendfsync="everysec") as forgetful:
        Stream(forgetful, []).follow(driver)
        failed = driver.take(SourceFailed)
    assert (failed.category, "appendfsync always" in failed.message) == ("user", True)


def test_an_id_that_is_none_is_refused() -> None:
    with pytest.raises(ManifestError, match="is not the id of an entry"):
        sources.describe({"redis": {"url": "redis://localhost", "key": "k", "start": "yesterday"}})
