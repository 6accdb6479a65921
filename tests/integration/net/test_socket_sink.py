"""The socket sink against real consumers: the documented example, and ones that restart, forget or talk
nonsense."""

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sinks
from flamestream.connectors.socket.wire import AcknowledgedFrame, DeliverFrame, decode_question, encode
from flamestream.core.protocol.actions import Bundle, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed
from flamestream.model.ids import WorkerId
from flamestream.net.framing import FrameConnection
from flamestream.ports import Consumer as ConsumerPort
from flamestream.ports import Post, Reactor
from flamestream.testing.consumer import Consumer, ConsumerServer
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, Worker, bundle, fence
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS, StoppableOutside
from flamestream.testing.port_driver import PortDriver
from support.eventually import eventually
from support.net.socket_consumer import told_in
from support.ports import free_port
from support.processes import listening
from support.runs.cli_job import ENVIRONMENT

EXAMPLE = Path(__file__).parents[3] / "examples" / "connectors" / "socket_client.py"


class Address:
    """A consumer on a port, reached through a spec."""

    def __init__(self, port: int) -> None:
        self.spec = {"socket": {"address": f"127.0.0.1:{port}"}}
        self.had: list[tuple[int, int, bytes]] = []

    def connect(self, writer: str, post: Post, reactor: Reactor) -> ConsumerPort:
        return sinks.build(self.spec, SINK, WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return self.had


@contextmanager
def consuming() -> Iterator[Address]:
    """The example's consumer."""
    spec = spec_from_file_location("socket_client", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)

    def take(slot: int, items: list[list[Any]]) -> None:
        had.append((slot, items[0][1]))

    def consume() -> None:
        with suppress(OSError):  # the listener is closed at the end
            module.consume(listener, take)

    had: list[tuple[int, str]] = []
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    address = Address(listener.getsockname()[1])
    address.taken = lambda: [  # type: ignore[method-assign]
        (slot, number, bundle(slot, number, text).items)
        for slot in sorted({slot for slot, _ in had})
        for number, text in enumerate([text for found, text in had if found == slot], 1)
    ]
    try:
        yield address
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_the_example_consumer(check: Callable[[Outside], None]) -> None:
    with consuming() as address:
        check(address)


class Remembered(Address):
    """A consumer in a process of its own, with its memory in a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(free_port())
        self._file = folder / "memory"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = int(self.spec["socket"]["address"].rpartition(":")[2])
        command = [sys.executable, "-m", "support.net.socket_consumer", str(port), str(self._file)]
        self._process = subprocess.Popen(command, env=ENVIRONMENT, cwd=Path(__file__).parents[2])
        eventually(lambda: port in listening(self._process.pid) if self._process else False, "it listens")

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return [
            (one.slot, one.sequence, one.items) for _, _, bundles in told_in(self._file) for one in bundles
        ]


@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills_of_the_consumer(
    check: Callable[[StoppableOutside], None], tmp_path: Path
) -> None:
    consumer = Remembered(tmp_path)
    consumer.start()
    try:
        check(consumer)
    finally:
        consumer.stop()


def test_a_consumer_that_restarts_between_taking_and_acknowledging_takes_it_once(driver: PortDriver) -> None:
    had: list[Bundle] = []
    dying = threading.Event()

    def take_and_die(bundles: Sequence[Bundle]) -> None:
        had.extend(bundles)
        if len(had) == 2:
            first.drop_connections()
            dying.set()

    first = ConsumerServer(take_and_die)
    worker = Worker(Address(first.port), "w1", driver)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), bundle(0, 1))
    worker.send(fence(1), bundle(0, 2))
    driver.until(dying.is_set, "the delivery")
    first.close()
    with ConsumerServer(consumer=first.consumer, port=first.port):
        driver.until(lambda: BundlesAcknowledged(fence(1), SINK, 2) in driver.events, "the acknowledgement")
        driver.events.clear()
        worker.deliver(fence(1), bundle(0, 3))
    assert [one.sequence for one in had] == [1, 2, 3]


def test_dropped_connections_cost_nothing(driver: PortDriver) -> None:
    had: list[Bundle] = []
    with ConsumerServer(had.extend) as server:
        worker = Worker(Address(server.port), "w1", driver)
        worker.open(fence(1), 0)
        for sequence in range(1, 30):
            if sequence % 3 == 0:
                server.drop_connections()
            worker.deliver(fence(1), bundle(0, sequence))
    assert [one.sequence for one in had] == list(range(1, 30))


class Repeating(ConsumerServer):
    """Acknowledges everything twice, and once more when the next delivery is there; and in the name of an
    older attempt."""

    def _frames(self, connection: FrameConnection, frames: list[bytes]) -> None:
        super()._frames(connection, frames)
        for question in map(decode_question, frames):
            if isinstance(question, DeliverFrame):
                for number in (question.number, question.number - 1):
                    connection.send(encode(AcknowledgedFrame(question.fence, number)))
                connection.send(encode(AcknowledgedFrame(fence(0), question.number)))


def test_answers_that_come_twice_or_late_count_once(driver: PortDriver) -> None:
    had: list[Bundle] = []
    with Repeating(had.extend) as server:
        worker = Worker(Address(server.port), "w1", driver)
        worker.open(fence(1), 0)
        for sequence in range(1, 20):
            worker.deliver(fence(1), bundle(0, sequence))
            driver.settle()
            assert not driver.events, "one acknowledgement a delivery"
    assert [one.sequence for one in had] == list(range(1, 20))


def test_a_consumer_that_is_not_there_yet_is_waited_for(driver: PortDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    worker = Worker(Address(port), "w1", driver)
    servers: list[ConsumerServer] = []

    def come() -> None:
        if "refused" in worker.consumer.problem:  # type: ignore[attr-defined]
            servers.append(ConsumerServer(port=port))
        else:
            driver.reactor.later(0.01, come)

    driver.reactor.later(0.01, come)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), bundle(0, 1))
    assert worker.consumer.problem == ""  # type: ignore[attr-defined]
    servers[0].close()


def test_a_consumer_that_never_answers_is_told_and_waited_for(driver: PortDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        worker = Worker(Address(silent.getsockname()[1]), "w1", driver)
        worker.send_open(fence(1), 0)
        driver.until(lambda: "has not answered for" in worker.consumer.problem, "a `problem` that says so")  # type: ignore[attr-defined]
        assert driver.events == []


def test_a_consumer_that_has_lost_what_it_acknowledged_fails_the_sink(driver: PortDriver) -> None:
    first = ConsumerServer()
    worker = Worker(Address(first.port), "w1", driver)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), bundle(0, 1))
    first.close()
    with ConsumerServer(consumer=Consumer(), port=first.port):
        failed = driver.take(SinkFailed)
    assert failed.category == "corrupt"
    assert "has lost data: it acknowledged bundle 1 of slot 0 and now has 0" in failed.message


def test_an_answer_that_is_none_fails_the_sink_with_the_consumers_address(driver: PortDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        consumer = Address(listener.getsockname()[1]).connect("w1", driver.post, driver.reactor)
        driver.at_exit.append(consumer.close)
        consumer.open(OpenSink(fence(1), SINK, []))
        came: list[socket.socket] = []
        thread = threading.Thread(target=lambda: came.append(listener.accept()[0]))
        thread.start()
        driver.until(lambda: bool(came), "a connection")
        thread.join()
        with came[0] as peer:
            peer.sendall(struct.pack(">I", 5) + b"HELLO")
            assert "is it a FlameStream consumer?" in driver.take(SinkFailed).message


class Garbled(ConsumerServer):
    """Its first answer to a delivery is `answer`; it has taken the delivery, and remembers."""

    garbled = 0
    answer = b""

    def _frames(self, connection: FrameConnection, frames: list[bytes]) -> None:
        if not self.garbled and any(isinstance(decode_question(frame), DeliverFrame) for frame in frames):
            self.garbled += 1
            connection.send(self.answer)
        else:
            super()._frames(connection, frames)


DAMAGED = {
    "not UTF-8": b"\x94\xa6failed\x92\x01\x01\xa4user\xa1\xff",
    "no such category": b"\x94\xa6failed\x92\x01\x01\xa4odds\xa1a",
}


@pytest.mark.parametrize("answer", DAMAGED.values(), ids=DAMAGED)
def test_a_consumer_whose_answer_is_damaged_is_named_and_asked_again(
    answer: bytes, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[Bundle] = []
    monkeypatch.setattr(Garbled, "answer", answer)
    with Garbled(had.extend) as server:
        worker = Worker(Address(server.port), "w1", driver)
        worker.open(fence(1), 0)
        dialer = worker.consumer._dialer  # type: ignore[attr-defined]
        said: list[str] = []
        broken = dialer.broken

        def noted(reason: str) -> None:
            said.append(reason)
            broken(reason)

        monkeypatch.setattr(dialer, "broken", noted)
        worker.deliver(fence(1), bundle(0, 1))
        assert [one.sequence for one in had] == [1]
    assert "the consumer is corrupt: it sent what is no answer" in said[0]


def test_garbage_on_the_reference_consumers_port_is_dropped_and_counted() -> None:
    with ConsumerServer() as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(struct.pack(">I", 5) + b"HELLO")
            assert peer.recv(1) == b""
        assert server.refused == 1


def test_a_delivery_larger_than_any_buffer_arrives_whole(driver: PortDriver) -> None:
    had: list[Bundle] = []
    with ConsumerServer(had.extend) as server:
        worker = Worker(Address(server.port), "w1", driver)
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1, "x" * (20 << 20)), bundle(1, 1))
        assert [len(one.items) > 20 << 20 for one in had] == [True, False]
