"""Whoever finds an HTTP port: every wrong word is answered or hung up on, costs its own connection only, and
locks nobody out."""

import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attacks.http_words import ATTACKS, HOST
from flamestream.connectors import sinks, sources
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.time import Time
from flamestream.net import http_connection
from flamestream.net.http_server import Exchange, HttpServer, Request
from flamestream.testing.consumer_contract import SINK, Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front
from support.http.raw import ELSEWHERE, HERE, RawClient
from support.ports import free_port


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline of the server's is what a test waits for, unless it says so."""
    for phase in http_connection.SECONDS:
        monkeypatch.setitem(http_connection.SECONDS, phase, 600.0)


TOKEN = "s\N{LATIN SMALL LETTER E WITH ACUTE}cret"


class Source:
    """An HTTP source that asks for a token."""

    def __init__(self, driver: PortDriver, folder: Path) -> None:
        self.driver, self.port, self.posted = driver, free_port(), 0
        (folder / "token").write_text(TOKEN)
        spec = {
            "listen": f"127.0.0.1:{self.port}", "keys": str(folder / "keys"), "fsync": False,
            "token_file": str(folder / "token"), "max_body": 1000,
        }  # fmt: skip
        self.producer: Any = sources.build(
            {"http": spec}, FRONT, driver.post, driver.reactor, name="docs", job="job"
        )
        driver.at_exit.append(self.producer.close)
        self.producer.follow(Follow(Front.fence(1), FRONT, {}))
        self.producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
        driver.until(lambda: bool(self.producer._following), "the keys are read")

    @property
    def server(self) -> HttpServer:
        return self.producer._server  # type: ignore[no-any-return]

    def works(self) -> None:
        """A post with the token is taken, and nothing else was."""
        head = (
            f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: "
            f"{self.posted}\r\n"
        )
        client = RawClient(self.driver, self.port, f"{head}Content-Length: 2\r\n\r\nok".encode())
        assert self.driver.take(RecordsArrived).first == self.posted
        self.posted += 1
        self.producer.durable(Time(1), "", self.posted)
        assert client.status() == 200


class Events:
    """A sink of server-sent events."""

    def __init__(self, driver: PortDriver, folder: Path) -> None:
        self.driver, self.port = driver, free_port()
        self.root = folder / "out"
        self.worker = Worker(self, "w1", driver)
        self.worker.open(fence(1), 0)
        self.worker.deliver(fence(1), bundle(0, 1))

    def connect(self, writer: str, post: Any, reactor: Any) -> Any:
        spec = {"path": str(self.root), "listen": f"127.0.0.1:{self.port}", "fsync": False, "poll_ms": 1}
        return sinks.build({"events": spec}, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Any:
        raise NotImplementedError

    @property
    def server(self) -> HttpServer:
        return self.worker.consumer._server  # type: ignore[attr-defined, no-any-return]

    def works(self) -> None:
        """A stream begins with what there is."""
        client = RawClient(self.driver, self.port, b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.status() == 200

        def begun() -> bool:
            client.read()
            return b'data: "0/1"' in client.got

        self.driver.until(begun, "the first event")
        client.socket.close()


VICTIMS: dict[str, Callable[[PortDriver, Path], Source | Events]] = {"source": Source, "events": Events}


@pytest.mark.parametrize("name", VICTIMS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_is_sent_is_answered_and_costs_its_connection_only(
    driver: PortDriver, tmp_path: Path, name: str, attack: str
) -> None:
    victim = VICTIMS[name](driver, tmp_path)
    data, *expected = ATTACKS[attack]
    client = RawClient(driver, victim.port, data)
    assert client.status() == expected[name == "events"]
    if data.startswith(b"HEAD"):
        client.socket.shutdown(socket.SHUT_WR)
        assert client.closed().endswith(b"\r\n\r\n"), "no body answers HEAD"
    victim.works()


@pytest.mark.parametrize("name", VICTIMS)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_requests_cost_their_connections_only(
    driver: PortDriver, tmp_path: Path, name: str, seed: int
) -> None:
    victim = VICTIMS[name](driver, tmp_path)
    chance = random.Random(seed)
    for _ in range(60):
        data = bytearray(chance.choice([data for data, *_ in ATTACKS.values() if len(data) < 1000]))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            data[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        client = RawClient(driver, victim.port, bytes(data))
        if chance.random() < 0.5:
            client.socket.shutdown(socket.SHUT_WR)
        driver.settle(2)
        client.socket.close()
    victim.works()


def test_the_token_is_judged_before_path_method_key_and_body(driver: PortDriver, tmp_path: Path) -> None:
    victim = Source(driver, tmp_path)
    for line in (b"GET /elsewhere", b"PUT /", b"POST /", b"CONNECT /", b"HEAD /", b"OPTIONS *"):
        for wrong in (b"", b"Authorization: Bearer wrong\r\n", b"Authorization: Bearer s\xe9cret\r\n"):
            client = RawClient(
                driver, victim.port, line + b" HTTP/1.1\r\n" + HOST + wrong + b"Content-Length: 999\r\n\r\n"
            )
            assert client.status() == 401, "although nothing of its body has come"
    with_it = f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    for line, status in (
        (b"GET /elsewhere", 404),
        (b"PUT /", 405),
        (b"HEAD /", 405),
        (b"CONNECT /", 405),
        (b"POST /", 400),
    ):
        assert RawClient(driver, victim.port, line + b" HTTP/1.1\r\n" + HOST + with_it).status() == status
    victim.works()


def test_who_was_let_in_is_judged_anew_when_it_asks_in_other_words(
    driver: PortDriver, tmp_path: Path
) -> None:
    victim = Source(driver, tmp_path)
    right, wrong = (
        b"GET / HTTP/1.1\r\n" + HOST + f"Authorization: Bearer {token}\r\n\r\n".encode()
        for token in (TOKEN, "another")
    )
    client = RawClient(driver, victim.port, right * 2 + wrong + right)
    answers = client.closed().split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [405, 405, 401], "and it is not heard again"


def test_a_refusal_arrives_although_the_client_is_still_sending(driver: PortDriver, tmp_path: Path) -> None:
    victim = Source(driver, tmp_path)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4000000\r\n\r\n"
    client = RawClient(driver, victim.port, head)
    client.send(b"x" * 4_000_000)
    assert client.status() == 401
    client.socket.shutdown(socket.SHUT_WR)
    assert b"token is missing" in client.closed()


class Desk:
    """A server whose requests the test answers: `/now` at once, `/later` by hand, `/stream` without end,
    `/bug` with an error of ours."""

    def __init__(self, driver: PortDriver, *, body: int = 1000, connections: int = 256) -> None:
        self.driver, self.port = driver, free_port()
        self.waiting: list[Exchange] = []
        self.server = HttpServer(
            driver.reactor, ("127.0.0.1", self.port), self._asked, body=body, connections=connections
        )
        self.server.open()
        driver.at_exit.append(self.server.close)

    def _asked(self, request: Request, exchange: Exchange) -> None:
        if request.path == "/bug":
            raise RuntimeError("a bug of ours")
        if request.path == "/stream":
            exchange.stream([])
        if request.path == "/now":
            exchange.answer(200, {"size": len(request.body)})
        else:
            self.waiting.append(exchange)

    def client(self, path: str = "", *, source: str = HERE, rest: str = "\r\n") -> RawClient:
        """One that asks for `path`; for nothing if there is none."""
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{rest}".encode() if path else b""
        found = RawClient(self.driver, self.port, head, source=source)
        self.driver.settle(2)
        return found


def moment(driver: PortDriver, seconds: float) -> None:
    """Let a deadline of the server's pass, or not."""
    over: list[bool] = []
    driver.reactor.later(seconds, lambda: over.append(True))
    driver.until(lambda: bool(over), "the moment to pass")


def test_what_a_handler_raises_closes_its_connection_and_is_counted(driver: PortDriver) -> None:
    desk = Desk(driver)
    for number in range(1, 4):
        assert desk.client("/bug").closed() == b""
        assert (desk.server.drops.count, desk.server.drops.last) == (number, "RuntimeError: a bug of ours")
    assert desk.client("/now").status() == 200


def test_an_answer_that_would_be_none_closes_its_connection_only(driver: PortDriver) -> None:
    """It is made long after the request, out of the job's own pass."""
    desk = Desk(driver)
    client = desk.client("/later")
    desk.waiting[0].answer(200, b"x", [("a bad name", "x")])
    assert client.closed() == b""
    assert desk.server.drops.count == 1
    assert desk.client("/now").status() == 200


def test_silent_connections_do_not_lock_the_port(driver: PortDriver) -> None:
    """Nothing is waited for: the oldest gives way at once."""
    desk = Desk(driver)
    silent = [desk.client() for _ in range(300)]
    assert desk.client("/now").status() == 200
    assert silent[0].closed() == b""
    silent[-1].read()
    assert not silent[-1].ended, "only as many as need to"


@pytest.mark.parametrize(
    "begun", ["", "POST /now HTTP/1.1\r\nHo", "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx"]
)
def test_one_address_does_not_drive_others_out(driver: PortDriver, begun: str) -> None:
    desk = Desk(driver, connections=20)
    other = desk.client(source=ELSEWHERE).send(begun.encode())
    streamed = desk.client("/stream", source=ELSEWHERE)
    for _ in range(50):
        desk.client()
        desk.client("/stream")
        desk.client("/later")
    whole = "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx"
    assert other.send(whole[len(begun) :].encode()).status() == 200
    streamed.read()
    assert not streamed.ended
    assert desk.client("/later", source=ELSEWHERE).got == b""
    assert desk.client("/now", source=ELSEWHERE).status() == 200, (
        "who has most places gives one to who has fewer"
    )


def test_a_stream_that_is_not_read_gives_way_and_then_ends(
    driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(driver, connections=2)
    lazy = [desk.client("/stream") for _ in range(2)]
    for exchange in list(desk.waiting):
        while exchange.send(b"x" * 100_000):
            pass
    assert desk.client("/now").status() == 200
    monkeypatch.setitem(http_connection.SECONDS, "taking", 0.1)
    fresh = desk.client("/stream")
    gone: list[str] = []
    desk.waiting[-1].gone = lambda: gone.append("gone")
    while desk.waiting[-1].send(b"x" * 100_000):
        pass
    driver.until(lambda: bool(gone), "the end of the stream that nobody reads")
    assert desk.server.drops.last == "it does not take what it is sent"
    assert len(fresh.closed()) > 0
    assert lazy[0].closed() is not None


def test_a_stream_that_is_read_slowly_goes_on(driver: PortDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than is allowed, and never takes nothing for so long."""
    monkeypatch.setitem(http_connection.SECONDS, "taking", 1.0)
    desk = Desk(driver)
    client = desk.client("/stream")
    (exchange,) = desk.waiting
    assert not exchange.send(b"x" * 60_000_000)
    for _ in range(15):
        client.read(3_000_000)
        moment(driver, 0.1)
    assert not client.ended and not exchange.idle and exchange.send(b"") is False
    assert desk.server.drops.count == 0


@pytest.mark.parametrize(
    ("phase", "sent"),
    [
        ("head", "POST /now HTTP/1.1\r\na: "),
        ("body", "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"),
    ],
)
def test_a_byte_now_and_then_does_not_hold_a_place(
    driver: PortDriver, monkeypatch: pytest.MonkeyPatch, phase: str, sent: str
) -> None:
    monkeypatch.setitem(http_connection.SECONDS, phase, 0.3)
    desk = Desk(driver, body=1 << 30)
    client = desk.client().send(sent.encode())

    def over() -> bool:
        client.send(b"x")
        client.read()
        return client.ended

    driver.until(over, "its end, though it is never silent")
    assert desk.server.drops.last == f"its request's {phase} has not come in time"


def test_a_kept_connection_is_given_longer_between_requests(
    driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(http_connection.SECONDS, "head", 0.1)
    desk = Desk(driver)
    client = desk.client("/now")
    assert client.status() == 200
    moment(driver, 0.3)
    client.got.clear()
    assert client.send(b"POST /now HTTP/1.1\r\nHost: x\r\n\r\n").status() == 200


def test_requests_sent_ahead_wait_in_the_kernel(driver: PortDriver) -> None:
    """A client that never reads an answer: neither its requests nor its answers pile up here."""
    desk = Desk(driver)
    client = desk.client()
    one = b"POST /now HTTP/1.1\r\nHost: x\r\n\r\n"
    ahead, sent = one * 10_000, 0
    (connection,) = desk.server._connections
    for _ in range(300):
        with suppress(BlockingIOError):
            sent += client.socket.send(ahead[sent % len(one) :])
        driver.settle(1)
        assert len(connection._reader._buffer) <= http_connection.READ_SIZE
        assert len(connection._unsent) < 1000
    assert sent > 10 * http_connection.READ_SIZE


def test_bodies_under_way_are_bounded_together_and_one_address_does_not_have_them_all(
    driver: PortDriver,
) -> None:
    size = 100_000
    desk = Desk(driver, body=size)
    rest = f"Content-Length: {size}\r\n\r\n"
    other = desk.client("/now", source=ELSEWHERE, rest=rest).send(b"x" * (size - 1))
    many = [desk.client("/now", rest=rest).send(b"x" * (size - 1)) for _ in range(64)]
    driver.settle(5)
    held = sum(one.lent for one in desk.server._connections)
    assert held <= 32 * size
    assert other.send(b"x").status() == 200
    assert many[-1].send(b"x").status() == 200
    assert many[0].closed() == b""
