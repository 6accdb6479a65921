"""The Redis sink against a real server, which is killed in between."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("redis")  # an extra

import flamestream as fs
from flamestream.connectors import sinks
from flamestream.connectors.redis import sink as redis_sink
from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkFenced, SinkOpened
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, Outside, Worker, fence
from flamestream.testing.consumer_kills import check_killed_at_any_moment
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS, StoppableOutside
from flamestream.testing.port_driver import PortDriver
from support.eventually import eventually
from support.places.redis_places import HashPlace, Key, StreamPlace
from support.places.things import Thing, opened, things
from support.processes import suspend
from support.redis import RedisServer, redis_server

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "redis.md"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as made:
        yield made


PLACES = pytest.mark.parametrize("place", [StreamPlace, HashPlace])


@PLACES
@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(
    check: Callable[[Outside], None], place: type[StreamPlace] | type[HashPlace], server: RedisServer
) -> None:
    check(place(server))


@PLACES
@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills(
    check: Callable[[StoppableOutside], None], place: type[StreamPlace] | type[HashPlace], server: RedisServer
) -> None:
    check(place(server))


@pytest.mark.parametrize("seed", [1, 2])
def test_contract_with_killed_workers(server: RedisServer, seed: int) -> None:
    check_killed_at_any_moment(StreamPlace(server, history=f"h{seed}"), seed, lives=4, items=200)


# --- entries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('ä \\ " \n', 'ä \\ " \n'),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (-(2**63), str(-(2**63))),
        (2**64 - 1, str(2**64 - 1)),
        (1.5, "1.5"),
        (b"raw \x00", "raw \x00"),
        ((1, "a", None), '[1,"a",null]'),
        (fs.Map({"a": (1, 2)}), '{"a":[1,2]}'),
        (Thing("inner", 1), '{"name":"inner","value":1}'),
    ],
)
def test_values_are_text_or_json(server: RedisServer, driver: PortDriver, value: Any, text: str) -> None:
    place = Key(server, form="hash", field="name", value="value")
    opened(place, driver, 0).deliver(fence(1), things(0, 1, Thing("x", value)))
    assert place.hash() == {"x": text}


def test_the_last_entry_of_a_name_counts(server: RedisServer, driver: PortDriver) -> None:
    """Within a delivery and across deliveries."""
    place = Key(server, form="hash", field="name", value="value")
    worker = opened(place, driver, 0, 1)
    worker.deliver(
        fence(1), things(0, 1, Thing("a", 1), Thing("b", 1), Thing("a", 2)), things(1, 1, Thing("c", 1))
    )
    worker.deliver(fence(1), things(0, 2, Thing("b", 3)))
    assert place.hash() == {"a": "2", "b": "3", "c": "1"}


def test_an_entry_may_have_a_name_of_several_parts(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="hash", field=["name", "value.0"], value="value.1")
    opened(place, driver, 0).deliver(fence(1), things(0, 1, Thing("a", (1, "x")), Thing("a", (2, "y"))))
    assert place.hash() == {"a:1": "x", "a:2": "y"}


def test_a_name_that_comes_from_two_slots_is_refused(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="hash", field="name", value="value")
    opened(place, driver, 0, 1).send(fence(1), things(0, 1, Thing("a", 1)), things(1, 1, Thing("a", 2)))
    assert "let the graph's .sink('out', key=...)" in driver.take(SinkFailed).message
    assert place.hash() == {}


def test_a_streams_fields_take_parts_of_payloads_and_places(server: RedisServer, driver: PortDriver) -> None:
    fields = {
        "inner": "value.1.name",
        "key": "value.0",
        "at": "$time",
        "slot": "$slot",
        "n": "$bundle",
        "of": "$sink",
    }
    place = Key(server, form="stream", fields=fields)
    opened(place, driver, 3).deliver(fence(1), things(3, 1, Thing("x", (7, Thing("y", None)))))
    assert place.stream() == [{"inner": "y", "key": "7", "at": "0", "slot": "3", "n": "1", "of": "out"}]


def test_a_stream_keeps_about_its_length(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream", max_length=100)
    opened(place, driver, 0).deliver(fence(1), things(0, 1, *range(2000)))
    assert 100 <= server.call("XLEN", place.name) < 400
    assert place.stream()[-1]["payload"] == "1999"


@pytest.mark.parametrize(
    "form", [{"form": "stream"}, {"form": "hash", "field": "$meta"}], ids=lambda form: form["form"]
)
def test_one_large_delivery_goes_in_several_calls(
    server: RedisServer, driver: PortDriver, form: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_sink, "CALL_BYTES", 100_000)
    place = Key(server, **form)
    before = calls(server)
    opened(place, driver, *range(64)).deliver(
        fence(1),
        *(things(slot, 1, *(Thing("x" * 50, slot * 128 + n) for n in range(128))) for slot in range(64)),
    )
    assert server.call("XLEN" if form["form"] == "stream" else "HLEN", place.name) == 8192
    assert 5 < calls(server) - before < 15


def calls(server: RedisServer) -> int:
    """Scripts that were run."""
    found = server.call("INFO", "commandstats")
    return sum(found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def test_a_delivery_is_one_call(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    worker = opened(place, driver, *range(64))
    worker.deliver(fence(1), *(things(slot, 1, "a") for slot in range(64)))
    before = calls(server)
    worker.deliver(fence(1), *(things(slot, 2, "b") for slot in range(64)))
    assert calls(server) - before == 1


def test_a_server_that_forgot_the_script_is_sent_it(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    worker.deliver(fence(1), things(0, 1, "a"))
    server.call("SCRIPT", "FLUSH")
    worker.deliver(fence(1), things(0, 2, "b"))
    assert [entry["payload"] for entry in place.stream()] == ["a", "b"]


def test_a_bundle_that_is_too_large_is_refused(
    server: RedisServer, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_sink, "BUNDLE_BYTES", 1000)
    place = Key(server, form="stream")
    opened(place, driver, 0).send(fence(1), things(0, 1, "x" * 2000))
    failed = driver.take(SinkFailed)
    assert (failed.category, "Redis can take 1000 in one step" in failed.message) == ("user", True)


def test_the_history_gives_back_everything_in_the_total_order(
    server: RedisServer, driver: PortDriver
) -> None:
    place = Key(server, form="stream", history=f"h{uuid4().hex}")
    worker = opened(place, driver, 0, 1)
    worker.deliver(fence(1), things(1, 1, Thing("b", 2), Thing("c", 3)), things(0, 1, Thing("a", 1)))
    worker.deliver(fence(1), things(0, 2, Thing("d", 4)))
    assert [(slot, sequence, value.name) for _, slot, sequence, value in sinks.read(place.spec)] == [
        (0, 1, "a"), (1, 1, "b"), (1, 1, "c"), (0, 2, "d"),
    ]  # fmt: skip


def test_a_history_that_begins_in_the_middle_is_refused(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    worker.deliver(fence(1), things(0, 1, "a"))
    place.spec["redis"]["history"] = f"h{uuid4().hex}"
    late = Worker(place, "w2", driver)
    late.open(fence(2), 0)
    late.send(fence(2), things(0, 2, "b"))
    assert "can only be set from a job's beginning" in driver.take(SinkFailed).message
    assert [entry["payload"] for entry in place.stream()] == ["a"]


def test_without_a_history_nothing_can_be_read_back() -> None:
    with pytest.raises(UserError, match="set `history`"):
        sinks.read({"redis": {"url": "redis://nowhere", "key": "k", "form": "stream"}})


# --- zombies, a server that stands still, clusters ----------------------------------------------------------


def test_a_server_that_stands_still_is_told_and_nothing_is_lost(
    server: RedisServer, driver: PortDriver
) -> None:
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    suspend(server.pid)
    try:
        worker.send(fence(1), things(0, 1, "a"))
        driver.until(
            lambda: "has not answered" in getattr(worker.consumer, "problem", ""), "a `problem` that says so"
        )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    driver.take(BundlesAcknowledged)
    assert len(place.stream()) == 1


def test_what_a_lost_connection_still_brings_is_taken_once(
    server: RedisServer, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is too late, the same delivery is made over another connection, and the server gets both."""
    monkeypatch.setattr("flamestream.connectors.redis.server.ANSWER_SECONDS", 0.2)
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    suspend(server.pid)
    try:
        worker.send(fence(1), things(0, 1, "a"))
        driver.until(lambda: "imeout" in getattr(worker.consumer, "problem", ""), "it gives up")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    driver.take(BundlesAcknowledged)
    worker.deliver(fence(1), things(0, 2, "b"))
    assert [entry["payload"] for entry in place.stream()] == ["a", "b"]


def test_the_server_itself_knows_a_repeat(server: RedisServer, driver: PortDriver) -> None:
    """As when a call whose answer was given up arrives behind the opening that followed it."""
    place = Key(server, form="stream", history=f"h{uuid4().hex}")
    first, second, third = (Worker(place, writer, driver) for writer in ("w1", "w2", "w3"))
    for worker in (first, second, third):
        worker.open(fence(1), 0, 1)
    first.deliver(fence(1), things(0, 1, "a"))
    second.deliver(fence(1), things(0, 1, "a"), things(1, 1, "b"))
    third.send(fence(1), things(1, 1, "b"), things(0, 1, "changed"))
    failed = driver.take(SinkFailed)
    assert (failed.category, "bundle 1 came again with other bytes" in failed.message) == ("corrupt", True)
    assert [entry["payload"] for entry in place.stream()] == ["a", "b"]
    assert [value for _, _, _, value in sinks.read(place.spec)] == ["a", "b"]


def test_a_zombie_behind_a_restart_of_the_server_is_fenced(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    zombie = opened(place, driver, 0)
    heir = Worker(place, "w2", driver)
    heir.open(fence(2), 0)
    server.restart()
    zombie.send(fence(1), things(0, 1, "of the zombie"))
    driver.take(SinkFenced)
    heir.deliver(fence(2), things(0, 1, "a"))
    assert [entry["payload"] for entry in place.stream()] == ["a"]


def says(node: RedisServer, word: str) -> bool:
    return word in node.call("CLUSTER", "INFO")


@pytest.mark.parametrize("key", ["postings", "{shop}:postings"])
def test_in_a_cluster_the_node_that_has_the_keys_is_found(driver: PortDriver, key: str) -> None:
    """All keys of the sink are in one hash slot, so no call is refused with CROSSSLOT; a delivery follows
    them to another node."""
    with redis_server(cluster_enabled="yes") as first, redis_server(cluster_enabled="yes") as second:
        home = int(first.call("CLUSTER", "KEYSLOT", key))
        first.call("CLUSTER", "MEET", "127.0.0.1", second.port)
        for node in (first, second):
            eventually(
                partial(says, node, "cluster_known_nodes:2"),
                "they know each other",
            )
        first.call("CLUSTER", "ADDSLOTS", *(slot for slot in range(16384) if slot != home))
        second.call("CLUSTER", "ADDSLOTS", home)
        for node in (first, second):
            eventually(partial(says, node, "cluster_state:ok"), "the cluster is up")
        place = Key(first, form="stream", key=key, history="h")
        opened(place, driver, 0, 1).deliver(fence(1), things(0, 1, "a"), things(1, 1, "b"))
        assert second.call("XLEN", key) == 2


def test_a_closed_consumer_lets_its_connection_go(server: RedisServer) -> None:
    place = Key(server, form="stream")

    def connected() -> bool:
        return "name=flamestream-job/closing " in server.call("CLIENT", "LIST")

    with PortDriver() as driver:
        consumer = sinks.build(
            place.spec, SinkName("closing"), WorkerId("w"), "job", driver.post, driver.reactor
        )
        consumer.open(OpenSink(fence(1), SinkName("closing"), [Slot(0)]))
        driver.take(SinkOpened)
        assert connected()
        consumer.close()
        eventually(lambda: not connected(), "the connection ends")
