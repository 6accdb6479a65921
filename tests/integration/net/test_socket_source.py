"""The socket source against real producers: the documented example, and servers that misbehave."""

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sources
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived, SourceEnded, SourceFailed
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.model.time import Time
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, PRODUCER_CHECKS, RECORDS, Front, Outside
from flamestream.testing.producer_outages import PRODUCER_OUTAGE_CHECKS, StoppableOutside
from support.eventually import eventually
from support.ports import free_port
from support.processes import listening

EXAMPLE = Path(__file__).parents[3] / "examples" / "connectors" / "socket_client.py"


def example() -> Any:
    spec = spec_from_file_location("socket_client", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """A producer on a port, reached through a spec."""

    partition = Partition("")

    def __init__(self, port: int, payloads: list[object], payload: str = "text") -> None:
        self.port = port
        self.payloads = payloads
        self.spec = {"socket": {"address": f"127.0.0.1:{port}", "payload": payload}}

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs", job="test")


@contextmanager
def producing(
    records: list[bytes], on_durable: Callable[[int], None] = lambda upto: None
) -> Iterator[Server]:
    """The example's producer."""
    module = example()

    def produce() -> None:
        with suppress(OSError):  # the listener is closed at the end
            module.produce(listener, records, on_durable)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield Server(listener.getsockname()[1], [record.decode() for record in records])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


class Peer:
    """A connection of a worker, answered by hand."""

    def __init__(self, listener: socket.socket) -> None:
        listener.settimeout(20)
        self.socket, _ = listener.accept()
        self.socket.settimeout(20)
        self.stream = self.socket.makefile("rb")
        self.hello = self.read()

    def read(self) -> dict[str, Any]:
        (length,) = struct.unpack(">I", self.stream.read(4))
        message: dict[str, Any] = json.loads(self.stream.read(length))
        return message

    def send(self, body: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(body)) + body)

    def record(self, number: int, payload: bytes) -> None:
        self.send(struct.pack(">Q", number) + payload)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


class Talk:
    """A producer by hand on one side, a front on the other."""

    def __init__(self, driver: PortDriver, listener: socket.socket, payload: str = "text") -> None:
        self.driver = driver
        self.listener = listener
        self.front = Front(Server(listener.getsockname()[1], [], payload), driver)

    def accept(self) -> Peer:
        came: list[Peer] = []
        thread = threading.Thread(target=lambda: came.append(Peer(self.listener)))
        thread.start()
        self.driver.until(lambda: bool(came), "a connection")
        thread.join()
        self.driver.at_exit.append(came[0].close)
        return came[0]


@pytest.fixture
def talk(driver: PortDriver) -> Iterator[Talk]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Talk(driver, listener)


@pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_the_example_producer(check: Callable[[Outside], None]) -> None:
    with producing([f"wörd {number}".encode() for number in range(RECORDS)]) as server:
        check(server)


class Killed(Server):
    """The example's producer in a process of its own."""

    def __init__(self, folder: Path, records: list[str]) -> None:
        super().__init__(free_port(), list(records))
        self._lines = folder / "lines.txt"
        self._lines.write_text("".join(f"{record}\n" for record in records))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._lines.open("rb") as lines:
            command = [sys.executable, str(EXAMPLE), "produce", str(self.port)]
            self._process = subprocess.Popen(command, stdin=lines, stdout=subprocess.DEVNULL)
        eventually(
            lambda: self.port in listening(self._process.pid) if self._process else False, "it listens"
        )

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("check", PRODUCER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills_of_the_producer(
    check: Callable[[StoppableOutside], None], tmp_path: Path
) -> None:
    producer = Killed(tmp_path, [f"wörd {number}" for number in range(RECORDS)])
    producer.start()
    try:
        check(producer)
    finally:
        producer.stop()


def test_many_small_records_arrive_and_then_the_end(driver: PortDriver) -> None:
    count = 20_000
    with producing([str(number).encode() for number in range(count)]) as server:
        front = Front(server, driver)
        front.follow(0)
        front.pull(PLENTY)
        driver.take(SourceEnded)
        assert front.got() == [str(number) for number in range(count)]


def test_records_that_came_together_are_given_together(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    count = 500
    talk.accept().socket.sendall(
        b"".join(struct.pack(">IQ", 8 + 1, number) + b"x" for number in range(count))
    )
    talk.front.wait(count)
    assert len(talk.driver.events) < count / 20


def test_the_producer_learns_what_is_durable(driver: PortDriver) -> None:
    told: list[int] = []
    with producing([b"a", b"b", b"c"], told.append) as server:
        front = Front(server, driver)
        front.follow(1)
        front.pull(PLENTY)
        driver.take(SourceEnded)
        front.producer.durable(Time(5), "", 3)
        driver.until(lambda: told[-1:] == [3], "the durable message")
    assert told == [1, 3]


def test_the_hello_says_who_dials_and_what_it_needs(talk: Talk) -> None:
    talk.front.follow(7, attempt=4)
    assert talk.accept().hello == {
        "flamestream": 1,
        "job": "test",
        "source": "docs",
        "attempt": 4,
        "next": {"": 7},
    }


def test_a_broken_connection_is_dialled_again_and_nothing_is_lost_or_doubled(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    first = talk.accept()
    for number in range(3):
        first.record(number, b"first")
    first.socket.sendall(b"\0\0\0\x10torn")
    talk.front.wait(3)
    first.close()
    second = talk.accept()
    assert second.hello["next"] == {"": 3}
    for number in range(1, 5):
        second.record(number, b"second")
    assert talk.front.wait(5) == ["first"] * 3 + ["second"] * 2


def test_a_producer_that_is_not_there_yet_is_waited_for(driver: PortDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    front = Front(Server(port, []), driver)
    front.follow(0)
    front.pull(PLENTY)
    driver.until(lambda: "refused" in front.producer.problem, "the problem to show")  # type: ignore[attr-defined]
    with socket.create_server(("127.0.0.1", port)) as listener:
        talk = Talk.__new__(Talk)
        talk.driver, talk.listener, talk.front = driver, listener, front
        talk.accept().record(0, b"late")
        assert front.wait(1) == ["late"]
        assert front.producer.problem == ""  # type: ignore[attr-defined]


def test_a_gap_fails_the_source(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    peer = talk.accept()
    peer.record(0, b"a")
    peer.record(3, b"d")
    failed = talk.driver.take(SourceFailed)
    assert failed.category == "user"
    assert failed.message.endswith("sent record 3 where 1 was next: records 1 to 2 are missing")
    assert talk.front.got() == []


@pytest.mark.parametrize(
    ("garbage", "what"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "is it no FlameStream producer?"),
        (b"\0\0\0\x03abc", "a frame of 3 bytes"),
    ],
)
def test_garbage_fails_the_source_with_the_producers_address(talk: Talk, garbage: bytes, what: str) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    talk.accept().socket.sendall(garbage)
    failed = talk.driver.take(SourceFailed)
    assert what in failed.message
    assert f"127.0.0.1:{talk.listener.getsockname()[1]}" in failed.message


def test_a_record_that_is_too_large_fails_the_source(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    peer = talk.accept()
    peer.record(0, b"first")
    talk.front.wait(1)
    peer.socket.sendall(struct.pack(">IQ", 1 << 30, 1))
    failed = talk.driver.take(SourceFailed)
    assert failed.category == "user"
    assert "a frame of 1073741824 bytes, more than the limit of" in failed.message
    assert "cut the record" in failed.message
    assert talk.front.got() == ["first"]


def test_text_that_is_not_utf8_is_an_error_item(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(PLENTY)
    talk.accept().record(0, b"ab\xff")
    message = "record 0, byte 2 (0xff) is not UTF-8: invalid start byte"
    assert talk.front.wait(1) == [ErrorValue("source docs", "UnicodeDecodeError", message)]


def test_bytes_stay_bytes(driver: PortDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        talk = Talk(driver, listener, "bytes")
        talk.front.follow(0)
        talk.front.pull(PLENTY)
        talk.accept().record(0, b"ab\xff")
        assert talk.front.wait(1) == [b"ab\xff"]


def test_without_credit_the_producer_has_to_wait(talk: Talk) -> None:
    """It can't send more than the kernel's buffers hold, however long it tries; with credit everything
    arrives."""
    talk.front.follow(0)
    talk.front.pull(1)
    peer = talk.accept()
    peer.socket.setblocking(False)
    payload = struct.pack(">I", 8 + 60_000) + struct.pack(">Q", 0) + b"x" * 60_000
    sent = 0
    unsent = memoryview(payload)
    number = blocked = 0
    while blocked < 200:
        try:
            count = peer.socket.send(unsent)
        except BlockingIOError:
            blocked += 1
            talk.driver.settle(1)
            continue
        sent += count
        assert sent < 64 << 20, "it never stopped reading"
        unsent = unsent[count:]
        if not unsent:
            number += 1
            unsent = memoryview(struct.pack(">IQ", 8 + 60_000, number) + b"x" * 60_000)
    talk.front.wait(1)
    talk.front.pull(PLENTY, size=1 << 30)
    talk.driver.until(lambda: len(talk.front.got()) >= number, "all that was sent")


def test_an_older_attempts_connection_is_closed_when_a_newer_follows(talk: Talk) -> None:
    talk.front.follow(0, attempt=1)
    old = talk.accept()
    assert old.read() == {"durable": {"": 0}}
    talk.front.producer.follow(Follow(Front.fence(2), FRONT, {Partition(""): Offset(5)}))
    new = talk.accept()
    assert (new.hello["attempt"], new.hello["next"]) == (2, {"": 5})
    assert old.stream.read() == b""


def test_a_producer_may_not_forget_what_a_recovery_has_skipped_before_a_snapshot_has_it(talk: Talk) -> None:
    offset = {Partition(""): Offset(5)}
    talk.front.producer.follow(Follow(Front.fence(1), FRONT, offset, saved={Partition(""): Offset(3)}))
    peer = talk.accept()
    assert (peer.hello["next"], peer.read()) == ({"": 5}, {"durable": {"": 3}})
    talk.front.producer.durable(Time(9), "", 7)
    assert peer.read() == {"durable": {"": 7}}


def test_the_end_comes_after_all_records_and_only_with_credit_for_them(talk: Talk) -> None:
    talk.front.follow(0)
    talk.front.pull(1)
    peer = talk.accept()
    peer.record(0, b"a")
    peer.record(1, b"b")
    peer.send(b"")
    talk.front.wait(1)
    assert not any(isinstance(event, SourceEnded) for event in talk.driver.events)
    talk.front.producer.pull(Pull(Front.fence(1), FRONT, 1, 1))
    talk.driver.take(SourceEnded)
    assert [type(event) for event in talk.driver.events] == [RecordsArrived, RecordsArrived]
