"""The HTTP source against real clients: answers when durable, retries, back-pressure, garbage, and a job that
is killed."""

import http.client
import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sources
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived, SourceFailed
from flamestream.model.ids import NO_FENCE, Offset, Partition
from flamestream.model.time import Time
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, PRODUCER_CHECKS, RECORDS, Front, Outside
from support.ports import free_port

WORDS = [f"wörd {number}" for number in range(RECORDS)]


def post(
    port: int, body: str | bytes, key: str | None, path: str = "/", **headers: str
) -> tuple[int, dict[str, Any], Any]:
    """Status, answer, headers. Blocks until it is answered."""
    data = body.encode() if isinstance(body, str) else body
    given = ({} if key is None else {"Idempotency-Key": key}) | headers
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, data, given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers


class Port:
    """A source on a port; clients of it in threads."""

    partition = Partition("")

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.port = free_port()
        self.payloads: list[object] = []
        self.spec = {
            "http": {
                "listen": f"127.0.0.1:{self.port}",
                "keys": str(folder / "keys"),
                "fsync": False,
                **settings,
            }
        }
        self.pool = ThreadPoolExecutor(32)

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs", job="job")


class Steady(Port):
    """Ten records of one client that sends each until it is taken: from the beginning, or from an offset on
    as after a recovery."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.payloads = list(WORDS)
        self.stopped = threading.Event()
        self.newest = NO_FENCE

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        producer: Any = super().connect(post, reactor)
        follow, close = producer.follow, producer.close

        def followed(action: Follow) -> None:
            if action.fence < self.newest:  # it changes nothing: a second client would send beside the first
                follow(action)
                return
            self.newest = action.fence
            self.stopped.set()
            self.stopped = threading.Event()
            follow(action)
            first = action.offsets.get(self.partition, Offset(0))
            threading.Thread(target=self.send, args=(producer, first, self.stopped), daemon=True).start()

        def closed() -> None:
            self.stopped.set()
            close()

        producer.follow, producer.close = followed, closed
        return producer  # type: ignore[no-any-return]

    def send(self, producer: Any, first: int, stopped: threading.Event) -> None:
        """A connection a record; the next one when the one before has its offset."""
        with ExitStack() as connections:
            for number in range(first, RECORDS):
                while producer._next <= number and not stopped.wait(0.002):
                    connection = connections.enter_context(socket.create_connection(("127.0.0.1", self.port)))
                    body = WORDS[number].encode()
                    head = (
                        f"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {first} {number}\r\nContent-Length: "
                        f"{len(body)}\r\n\r\n"
                    )
                    connection.sendall(head.encode() + body)
                    connection.settimeout(0.02)
                    while producer._next <= number and not stopped.is_set():
                        with suppress(TimeoutError):
                            connection.recv(1000)  # 503: the keys are being read
                            break
            stopped.wait(60)


@pytest.mark.parametrize(
    "check", [c for c in PRODUCER_CHECKS if "within" not in c.__name__], ids=lambda check: check.__name__
)
def test_contract(check: Callable[[Outside], None], tmp_path: Path) -> None:
    """Not the one about sizes: it pulls again before what was given is settled, and a request may wait for
    the next."""
    check(Steady(tmp_path))


class Talk:
    """A source with credit, whose records are durable when `settle` says so."""

    def __init__(
        self, driver: PortDriver, place: Port, attempt: int = 1, offset: int = 0, credit: int = PLENTY
    ) -> None:
        self.driver, self.place, self.attempt = driver, place, attempt
        self.producer = place.connect(driver.post, driver.reactor)
        driver.at_exit.append(self.producer.close)
        self.producer.follow(
            Follow(Front.fence(attempt), FRONT, {place.partition: Offset(offset)} if offset else {})
        )
        self.pull(credit)
        driver.until(lambda: bool(getattr(self.producer, "_following", False)), "the keys are read")

    def pull(self, records: int) -> None:
        self.producer.pull(Pull(Front.fence(self.attempt), FRONT, records, PLENTY))

    def ask(self, *arguments: Any, **headers: str) -> "Any":
        """A client's request in a thread: its future."""
        return self.place.pool.submit(post, self.place.port, *arguments, **headers)

    def arrived(self) -> RecordsArrived:
        """The next records."""
        return self.driver.take(RecordsArrived)

    def settle(self, upto: int) -> None:
        self.producer.durable(Time(1), "", upto)

    def answer(self, future: Any) -> tuple[int, dict[str, Any]]:
        """Wait for it."""
        self.driver.until(future.done, "an answer")
        status, answer, _ = future.result()
        answer.pop("time", None)
        return status, answer


@pytest.fixture
def talk(driver: PortDriver, tmp_path: Path) -> Talk:
    return Talk(driver, Port(tmp_path))


def test_the_answer_comes_when_the_record_is_durable(talk: Talk) -> None:
    asked = talk.ask("hello", "k1")
    event = talk.arrived()
    assert (event.first, list(event.payloads)) == (0, ["hello"])
    talk.driver.settle()
    assert not asked.done()
    talk.settle(1)
    assert talk.answer(asked) == (200, {"first": 0, "count": 1, "repeated": False})


def test_an_answer_says_from_which_time_on_a_query_has_its_record(talk: Talk) -> None:
    asked = talk.ask("hello", "k1")
    talk.arrived()
    talk.settle(1)
    talk.driver.until(asked.done, "an answer")
    assert asked.result()[1]["time"] == "2", "it is durable in the entry at 1"


def test_a_retry_is_answered_and_not_counted(talk: Talk) -> None:
    first = talk.ask("hello", "k1")
    talk.arrived()
    while_under_way = talk.ask("hello", "k1")
    talk.driver.settle(20)
    talk.settle(1)
    assert talk.answer(first)[1]["repeated"] is False
    assert talk.answer(while_under_way) == (200, {"first": 0, "count": 1, "repeated": True})
    assert talk.answer(talk.ask("hello", "k1")) == (200, {"first": 0, "count": 1, "repeated": True})
    assert not [event for event in talk.driver.events if isinstance(event, RecordsArrived)]


def test_a_key_with_another_body_is_refused(talk: Talk) -> None:
    asked = talk.ask("hello", "k1")
    talk.arrived()
    talk.settle(1)
    talk.answer(asked)
    status, answer = talk.answer(talk.ask("hallo", "k1"))
    assert (status, answer["error"]) == (422, "the key 'k1' has come with another body before")


def test_a_request_of_many_lines_is_one_run(driver: PortDriver, tmp_path: Path) -> None:
    talk = Talk(driver, Port(tmp_path, records="lines"))
    asked = talk.ask("a\nb\r\n\nd\n", "k1")
    event = talk.arrived()
    assert list(event.payloads) == ["a", "b", "", "d"]
    talk.settle(4)
    assert talk.answer(asked) == (200, {"first": 0, "count": 4, "repeated": False})


def test_after_a_recovery_the_journal_decides_which_retries_are_known(
    driver: PortDriver, tmp_path: Path
) -> None:
    place = Port(tmp_path)
    before = Talk(driver, place)
    for number in range(3):
        before.ask(f"body {number}", f"k{number}")
        before.arrived()
    before.settle(1)
    before.producer.close()
    driver.settle()
    after = Talk(driver, place, attempt=2, offset=2)  # the journal has two; the third was under way
    assert after.answer(after.ask("body 0", "k0")) == (200, {"first": 0, "count": 1, "repeated": True})
    assert after.answer(after.ask("body 1", "k1")) == (200, {"first": 1, "count": 1, "repeated": True})
    third = after.ask("body 2", "k2")
    assert after.arrived().first == 2
    after.settle(3)
    assert after.answer(third) == (200, {"first": 2, "count": 1, "repeated": False})


def test_a_zombies_notes_count_for_nothing(driver: PortDriver, tmp_path: Path) -> None:
    place = Port(tmp_path)
    zombie = Talk(driver, place)
    zombie.ask("a", "k0")
    zombie.arrived()
    heir_place = Port(tmp_path)
    heir = Talk(driver, heir_place, attempt=2)  # nothing had entered
    zombie.ask("z", "k-zombie")
    zombie.arrived()
    zombie.producer.close()
    asked = heir.ask("b", "k1")
    heir.arrived()
    heir.settle(1)
    assert heir.answer(asked)[1]["first"] == 0
    last = Talk(driver, Port(tmp_path), attempt=3, offset=1)
    asked = last.ask("z", "k-zombie")
    assert last.arrived().first == 1
    last.settle(2)
    assert last.answer(asked)[1]["repeated"] is False
    assert last.answer(last.ask("b", "k1"))[1]["repeated"] is True


def test_only_the_last_keys_are_remembered(driver: PortDriver, tmp_path: Path) -> None:
    """And their files are bounded."""
    place = Port(tmp_path, remember=3)
    talk = Talk(driver, place)
    for number in range(20):
        asked = talk.ask("x", f"k{number}")
        talk.arrived()
        talk.settle(number + 1)
        talk.answer(asked)
    assert len(os.listdir(tmp_path / "keys")) == 2
    again = Talk(driver, Port(tmp_path, remember=3), attempt=2, offset=20)
    assert again.answer(again.ask("x", "k17"))[1]["repeated"] is True
    asked = again.ask("x", "k0")
    assert again.arrived().first == 20
    again.settle(21)
    assert again.answer(asked)[1]["repeated"] is False


def test_without_credit_it_waits_and_then_refuses(driver: PortDriver, tmp_path: Path) -> None:
    talk = Talk(driver, Port(tmp_path, max_body=100, max_waiting=250), credit=0)
    asked = [talk.ask("x" * 100, f"k{number}") for number in range(3)]
    driver.until(lambda: any(future.done() for future in asked), "one is refused")
    (refused,) = [future.result() for future in asked if future.done()]
    assert (refused[0], refused[2]["retry-after"]) == (503, "1")
    talk.pull(PLENTY)
    first, second = talk.arrived(), talk.arrived()
    assert (first.first, second.first) == (0, 1)
    talk.settle(2)
    driver.until(lambda: all(future.done() for future in asked), "the others are answered")
    assert sorted(future.result()[0] for future in asked) == [200, 200, 503]


@pytest.mark.parametrize(
    ("arguments", "headers", "status", "says"),
    [
        (("x", None), {}, 400, "send a header Idempotency-Key"),
        (("x", "k" * 300), {}, 400, "of 1 to 256 bytes"),
        ((b"\xff", "k"), {}, 400, "byte 0 of the body is not UTF-8"),
        (("x", "k", "/elsewhere"), {}, 404, "there is only /"),
        (("x" * 2000, "k"), {}, 413, "a body may have 1000 bytes"),
    ],
)
def test_bad_requests_are_told_why(
    driver: PortDriver,
    tmp_path: Path,
    arguments: tuple[Any, ...],
    headers: dict[str, str],
    status: int,
    says: str,
) -> None:
    talk = Talk(driver, Port(tmp_path, max_body=1000))
    found, answer = talk.answer(talk.ask(*arguments, **headers))
    assert (found, says in answer["error"]) == (status, True), answer


def test_garbage_costs_its_connection_only(talk: Talk) -> None:
    with socket.create_connection(("127.0.0.1", talk.place.port)) as garbage:
        garbage.sendall(b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n")
        garbage.settimeout(0.01)
        got: list[bytes] = []

        def ended() -> bool:
            try:
                got.append(garbage.recv(1000))
            except TimeoutError:
                return False
            return got[-1] == b""

        talk.driver.until(ended, "it is hung up on")
        assert got[0].startswith(b"HTTP/1.1 400")
    asked = talk.ask("fine", "k")
    talk.arrived()
    talk.settle(1)
    assert talk.answer(asked)[0] == 200


def test_a_token_is_asked_for(driver: PortDriver, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    talk = Talk(driver, Port(tmp_path, token_file=str(tmp_path / "token")))
    assert talk.answer(talk.ask("x", "k"))[0] == 401
    assert talk.answer(talk.ask("x", "k", Authorization="Bearer wrong"))[0] == 401
    asked = talk.ask("x", "k", Authorization="Bearer secret")
    talk.arrived()
    talk.settle(1)
    assert talk.answer(asked)[0] == 200


def test_one_connection_may_carry_many_requests(talk: Talk) -> None:
    def client() -> list[int]:
        with closing(http.client.HTTPConnection("127.0.0.1", talk.place.port, timeout=60)) as connection:
            statuses = []
            for number in range(50):
                connection.request("POST", "/", b"x", {"Idempotency-Key": f"k{number}"})
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
            return statuses

    asked = talk.place.pool.submit(client)
    for number in range(50):
        assert talk.arrived().first == number
        talk.settle(number + 1)
    talk.driver.until(asked.done, "all are answered")
    assert asked.result() == [200] * 50


def test_a_port_that_is_taken_is_told_and_taken_over(driver: PortDriver, tmp_path: Path) -> None:
    place = Port(tmp_path)
    before = Talk(driver, place)
    after = Talk(driver, place, attempt=2)
    driver.until(
        lambda: "cannot listen" in getattr(after.producer, "problem", ""), "a `problem` that names the port"
    )
    before.producer.close()
    driver.until(lambda: not getattr(after.producer, "problem", ""), "the port is taken over")
    asked = after.ask("x", "k")
    after.arrived()
    after.settle(1)
    assert after.answer(asked)[0] == 200


def test_damaged_keys_are_an_error(driver: PortDriver, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "0000000001-0000000001-000000.keys").write_text('{"start": 0}\nnonsense\n[1, 1, "k", "d"]\n')
    producer = Port(tmp_path).connect(driver.post, driver.reactor)
    driver.at_exit.append(producer.close)
    producer.follow(Follow(Front.fence(2), FRONT, {Partition(""): Offset(5)}))
    failed = driver.take(SourceFailed)
    assert failed.category == "corrupt"
    assert "000000.keys is damaged" in failed.message
