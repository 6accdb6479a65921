"""Connections to S3 that say nothing any more, as a lost node leaves them: no end, no refusal. New ones
work."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from flamestream.store import s3 as s3_store
from flamestream.store.s3 import S3Store
from flamestream.store.s3_client import _shared
from support.versitygw import KEY, SECRET, S3Server


class Silencer:
    """A proxy whose connections of before `silence` swallow what they are given and stay open."""

    def __init__(self, port: int) -> None:
        self._target, self._generation, self._ends = port, 0, list[socket.socket]()
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def silence(self) -> None:
        self._generation += 1

    def end(self) -> None:
        for end in (self._server, *self._ends):
            with suppress(OSError):  # ended already
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        for end in (self._server, *self._ends):
            end.close()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            target = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [client, target]
            for source, to in ((client, target), (target, client)):
                self._threads.append(threading.Thread(target=self._copy, args=(source, to, self._generation)))
                self._threads[-1].start()

    def _copy(self, source: socket.socket, to: socket.socket, generation: int) -> None:
        try:
            while data := source.recv(1 << 20):
                if generation == self._generation:
                    to.sendall(data)
        except OSError:
            return


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    made = S3Server(tmp_path_factory.mktemp("s3"), "--keep-alive")
    made.start()
    made.make_bucket("bucket")
    yield made
    made.kill()


@pytest.fixture
def proxy(server: S3Server) -> Iterator[Silencer]:
    made = Silencer(server.port)
    yield made
    made.close()
    _shared.cache_clear()  # and so the connections


CALLS: dict[str, Callable[[S3Store], object]] = {
    "get": lambda store: store.get("kept"), "put": lambda store: store.put_new("fresh", b"new"),
    "list": lambda store: store.names("k"), "delete": lambda store: store.delete("gone"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_dead_connection_costs_a_first_try_and_not_the_patience_for_a_slow_server(
    proxy: Silencer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The patience here is an hour, which nobody waits."""
    monkeypatch.setattr(s3_store, "FIRST_SECONDS", 0.3)
    where = {"endpoint": proxy.endpoint, "region": "us-east-1", "access_key": KEY, "secret_key": SECRET}
    store = S3Store("bucket", f"{call}-{tmp_path.name}", **where, read_seconds=3600.0, pause=lambda _: None)
    with ThreadPoolExecutor(4) as threads:  # so that several connections are kept
        assert all(threads.map(lambda number: store.put_new(f"kept{number or ''}", b"x"), range(4)))
    before = proxy.connections
    proxy.silence()
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(CALLS[call], store)
        try:
            asked.result(30)
        finally:
            proxy.end()
    assert proxy.connections > before
