"""What the outside of benchmarks and end-to-end tests keeps of the wire protocol, spoken to by a worker of
the test's over real sockets."""

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from harness.wire import Consumer, LineConsumer, LineProducer, Producer, Wire

FENCE = [2, 0]


class Worker:
    """Its end of one connection."""

    def __init__(self, wire: Wire, port: int) -> None:
        self._wire = wire
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setblocking(False)
        self._held = b""
        wire.turn(5)

    def says(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(frame)) + frame)
        assert self._wire.turn(5)

    def hears(self) -> list[bytes]:
        """All that has come; ConnectionResetError when the other end is gone."""
        try:
            while piece := self.socket.recv(1 << 20):
                self._held += piece
            raise ConnectionResetError
        except BlockingIOError:
            frames = []
            while len(self._held) >= 4 and len(self._held) >= 4 + (
                size := int.from_bytes(self._held[:4], "big")
            ):
                frames.append(self._held[4 : 4 + size])
                self._held = self._held[4 + size :]
            return frames

    def asks(self, *question: Any) -> list[Any]:
        """A sink's question, and the answer."""
        self.says(msgspec.msgpack.encode(question))
        return list(msgspec.msgpack.decode(self.hears()[0]))

    def opens(self, fence: list[int], *slots: int) -> list[Any]:
        return self.asks("open", 1, fence, "job", "sink", "writer", slots)

    def delivers(self, fence: list[int], *bundles: list[Any]) -> str:
        return str(self.asks("deliver", fence, 1, bundles)[0])

    def wants(self, first: int, attempt: int = 1) -> None:
        self.says(json.dumps({"attempt": attempt, "next": {"": first}}).encode())


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.close()


@pytest.fixture
def consumer(wire: Wire) -> Consumer:
    return Consumer(wire, "127.0.0.1", 0)


@pytest.fixture
def worker(wire: Wire, consumer: Consumer) -> Iterator[Worker]:
    made = Worker(wire, consumer.port)
    yield made
    made.socket.close()


@pytest.fixture
def producer(wire: Wire) -> Producer:
    return Producer(wire, "127.0.0.1", 0, lambda number: b"document %d" % number)


@pytest.fixture
def source(wire: Wire, producer: Producer) -> Iterator[Worker]:
    made = Worker(wire, producer.port)
    yield made
    made.socket.close()


def bundle(slot: int, number: int, items: bytes = b"items") -> list[Any]:
    return [slot, number, b"t", items]


# --- consumer -----------------------------------------------------------------------------------------------


def test_what_a_slot_had_last_is_given_to_who_opens_it(worker: Worker) -> None:
    assert worker.opens(FENCE, 7, 8) == ["opened", FENCE, []]
    assert worker.delivers(FENCE, bundle(7, 1)) == "acknowledged"
    assert worker.opens([3, 0], 7, 8) == ["opened", [3, 0], [bundle(7, 1)]]


def test_an_older_fence_is_refused_for_its_own_slots_alone(worker: Worker) -> None:
    worker.opens(FENCE, 7)
    worker.opens([3, 0], 8)
    assert worker.delivers(FENCE, bundle(7, 1)) == "acknowledged"
    assert worker.delivers(FENCE, bundle(8, 1)) == "fenced"
    assert worker.opens(FENCE, 8)[0] == "fenced"


def test_a_repeat_is_acknowledged_and_taken_once(worker: Worker, consumer: Consumer) -> None:
    worker.opens(FENCE, 7)
    assert [worker.delivers(FENCE, bundle(7, 1)) for _ in range(2)] == ["acknowledged"] * 2
    consumer.read()
    assert [bundles for _, bundles in consumer.deliveries] == [[bundle(7, 1)]]


@pytest.mark.parametrize("wrong", [bundle(7, 1, b"other"), bundle(7, 3)], ids=["other bytes", "a gap"])
def test_what_may_not_follow_is_never_taken_and_named(
    worker: Worker, consumer: Consumer, wrong: list[Any]
) -> None:
    worker.opens(FENCE, 7)
    worker.delivers(FENCE, bundle(7, 1))
    worker.delivers(FENCE, wrong)
    consumer.read()
    assert consumer.problem.startswith("slot 7: bundle") and len(consumer.deliveries) == 1
    assert worker.delivers(FENCE, bundle(7, 2)) == "failed"


def test_under_the_newest_fence_nothing_is_looked_into_before_its_answer(
    worker: Worker, consumer: Consumer
) -> None:
    worker.opens(FENCE, 7)
    assert worker.asks("deliver", FENCE, 5, "no bundles at all") == ["acknowledged", FENCE, 5]
    assert consumer.is_behind and not consumer.deliveries


# --- producer -----------------------------------------------------------------------------------------------


def sent(source: Worker, producer: Producer) -> list[int]:
    """The numbers of the documents that leave now; -1 is the end."""
    producer.send_due()
    return [struct.unpack_from(">Q", frame)[0] if frame else -1 for frame in source.hears()]


def test_documents_leave_from_the_one_that_is_asked_for_and_the_end_behind_them(
    source: Worker, producer: Producer
) -> None:
    producer.more(0, 3)
    assert sent(source, producer) == [], "nobody has asked"
    source.wants(0)
    producer.ended = True
    assert sent(source, producer) == [0, 1, 2, -1]
    source.wants(1)
    assert sent(source, producer) == [1, 2, -1]
    assert len(producer.sent) == 3, "again is not anew"


def test_a_document_counts_from_when_it_was_due(
    source: Worker, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("harness.wire.time.monotonic", lambda: now)
    producer.more(10, 3)
    source.wants(0)
    assert sent(source, producer) == [] and producer.wait() == pytest.approx(0.05)
    now = 100.2  # the loop was held up
    assert sent(source, producer) == [0, 1]
    assert producer.due == pytest.approx([100.05, 100.15]) and producer.sent == [now, now]


def test_an_older_attempt_is_hung_up_on(wire: Wire, source: Worker, producer: Producer) -> None:
    source.wants(0, attempt=2)
    old = Worker(wire, producer.port)
    old.wants(0, attempt=1)
    with pytest.raises(ConnectionResetError):
        old.hears()
    old.socket.close()
    producer.more(0, 1)
    assert sent(source, producer) == [0]


def test_a_newer_attempt_takes_the_place_of_the_one_before(
    wire: Wire, source: Worker, producer: Producer
) -> None:
    source.wants(0, attempt=1)
    new = Worker(wire, producer.port)
    new.wants(0, attempt=2)
    with pytest.raises(ConnectionResetError):
        source.hears()
    producer.more(0, 1)
    assert sent(new, producer) == [0]
    new.socket.close()


def test_a_restored_job_begins_where_it_asks(source: Worker, producer: Producer) -> None:
    source.wants(40)
    producer.more(0, 2)
    assert sent(source, producer) == [40, 41]
    assert producer.base == 40 and len(producer.due) == len(producer.sent) == producer.wanted == 42


def test_a_reader_that_takes_nothing_is_not_waited_for_and_gets_the_rest_later(wire: Wire) -> None:
    producer = Producer(wire, "127.0.0.1", 0, lambda number: bytes(100_000))
    source = Worker(wire, producer.port)
    source.wants(0)
    producer.more(0, 1000)
    producer.send_due()
    assert 0 < len(producer.sent) < 1000 and producer.wait() > 0
    while len(producer.sent) < 1000:
        source.hears()
        wire.turn(5)
        producer.send_due()
    source.socket.close()


def test_a_system_of_lines_gets_them_from_where_it_asks_and_the_newest_alone(wire: Wire) -> None:
    producer = LineProducer(wire, "127.0.0.1", 0, lambda number: b"line %d" % number)
    producer.more(0, 3)
    first = Worker(wire, producer.port)
    second = Worker(wire, producer.port)
    for worker, wanted in ((first, b"0\n"), (second, b"1\n")):
        worker.socket.sendall(wanted)
        wire.turn(5)
        producer.send_due()
    assert second.socket.recv(1 << 10) == b"line 1\nline 2\n"
    assert first.socket.recv(1 << 10) == b"line 0\nline 1\nline 2\n" and first.socket.recv(1) == b""
    first.socket.close()
    second.socket.close()


def test_lines_are_taken_whole(wire: Wire) -> None:
    consumer = LineConsumer(wire, "127.0.0.1", 0)
    worker = Worker(wire, consumer.port)
    for piece in (b"one\ntw", b"o", b"\nthree\n"):
        worker.socket.sendall(piece)
        wire.turn(5)
    assert [lines for _, lines in consumer.deliveries] == [[b"one"], [b"two", b"three"]]
    worker.socket.close()
