"""A port with a certificate: the same requests and answers, and handshakes that cost little, whoever begins them."""

import http.client
import shutil
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from flamestream.model.errors import UserError
from flamestream.net import http_connection
from flamestream.net.http_server import Exchange, HttpServer, Request
from flamestream.net.server_tls import HANDSHAKES, ServerTls
from flamestream.testing.port_driver import PortDriver
from support.http.raw import RawClient
from support.ports import free_port
from support.zookeeper.authority import Authority

LONG = b"x" * 5_000_000


class Sealed:
    """A server that answers with what it was sent, to `/long` with LONG, to `/stream` without end."""

    def __init__(self, driver: PortDriver, folder: Path) -> None:
        self.driver, self.port = driver, free_port()
        self.authority = Authority(folder / "authority")
        self.files = self.authority.server()
        tls = ServerTls(str(self.files / "tls.crt"), str(self.files / "tls.key"), driver.reactor)
        address = ("127.0.0.1", self.port)
        self.server = HttpServer(driver.reactor, address, self._asked, body=1000, tls=tls)
        self.server.open()
        driver.at_exit.append(self.server.close)
        self.pool = ThreadPoolExecutor(4)

    def _asked(self, request: Request, exchange: Exchange) -> None:
        if request.path == "/stream":
            exchange.stream([])
            exchange.send(b"one\n")
            exchange.end()
        else:
            body = LONG if request.path == "/long" else request.body
            exchange.answer(200, body, [("content-type", "text/plain")])

    def asks(self, *paths: str) -> list[tuple[int, bytes, str]]:
        """What a client that trusts the authority gets, on one connection: statuses, bodies, and until when the
        certificate is good."""

        def ask() -> list[tuple[int, bytes, str]]:
            context = ssl.create_default_context(cadata=self.authority.text)
            with closing(
                http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
            ) as client:
                found, until = [], ""
                for path in paths:
                    client.request("POST", path, b"hello")
                    sock = client.sock
                    answer = client.getresponse()
                    until = until or str((sock.getpeercert() or {})["notAfter"])
                    found.append((answer.status, answer.read(), until))
                return found

        future = self.pool.submit(ask)
        self.driver.until(future.done, "the answers")
        return future.result()


@pytest.fixture
def sealed(driver: PortDriver, tmp_path: Path) -> Sealed:
    return Sealed(driver, tmp_path)


def test_requests_on_one_connection_are_answered_also_at_length(sealed: Sealed) -> None:
    assert [(status, body) for status, body, _ in sealed.asks("/", "/long", "/")] == [
        (200, b"hello"), (200, LONG), (200, b"hello"),
    ]  # fmt: skip


def test_a_stream_ends_as_one_that_was_not_cut_off(sealed: Sealed) -> None:
    assert sealed.asks("/stream")[0][:2] == (200, b"one\n")


def test_a_renewed_certificate_is_that_of_the_next_connection(sealed: Sealed) -> None:
    before = sealed.asks("/")[0][2]
    shutil.copytree(sealed.authority.server(days=3), sealed.files, dirs_exist_ok=True)
    assert sealed.asks("/")[0][2] != before


def test_while_half_of_it_is_written_the_one_before_is_good(sealed: Sealed) -> None:
    (sealed.files / "tls.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    assert sealed.asks("/")[0][:2] == (200, b"hello")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + b"\x01" * 700,
        b"\x16\x03\x01\x02",
    ],
)
def test_who_is_none_of_its_clients_costs_a_connection_only(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setitem(http_connection.SECONDS, "head", 0.3)
    client = RawClient(sealed.driver, sealed.port, sent)
    assert not client.closed().startswith(b"HTTP")
    monkeypatch.setitem(http_connection.SECONDS, "head", 600.0)
    assert sealed.asks("/")[0][:2] == (200, b"hello")


def test_so_many_handshakes_begin_in_a_second_and_no_more(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    instant = sealed.driver.reactor.instant()
    monkeypatch.setattr(sealed.driver.reactor, "instant", lambda: instant)
    others = [socket.create_connection(("127.0.0.1", sealed.port)) for _ in range(HANDSHAKES)]
    sealed.driver.until(
        lambda: sealed.server.drops.count == 0 and len(list(sealed.server._connections)) == HANDSHAKES, "them"
    )
    assert RawClient(sealed.driver, sealed.port).closed() == b""
    monkeypatch.setattr(sealed.driver.reactor, "instant", lambda: instant + 1_000_000)
    assert sealed.asks("/")[0][:2] == (200, b"hello")
    for other in others:
        other.close()


def test_files_that_are_no_certificate_with_its_key_are_refused(driver: PortDriver, tmp_path: Path) -> None:
    one, other = (Authority(tmp_path / name).server() for name in ("a", "b"))
    with pytest.raises(UserError, match="no certificate with its key"):
        ServerTls(str(one / "tls.crt"), str(other / "tls.key"), driver.reactor)
    with pytest.raises(UserError, match="no certificate with its key"):
        ServerTls(str(tmp_path / "nothing"), str(other / "tls.key"), driver.reactor)
