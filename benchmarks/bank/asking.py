"""Clients that ask for balances, all of them in one process: `python -m bank.asking SPEECH PORT SECONDS COUNT PAUSE`.

Each is a connection that asks for one account after the other, and waits for each answer. They share one loop over raw
sockets, as a load generator's do: a client library in processes of their own takes more of two cores than what it
asks. Of an answer they look at no more than where it ends and whether it is one.

SPEECH is `strict` or `stale`, for a job's port; `scan`: for one page of 1,000 accounts behind the other, strict, as
`Table.rows` does; or `redis`, the floor: MGET of one key, by the same loop.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from harness import BENCHMARKS, PATHS
from harness.results import percentile
from systems.base import Failed

from bank.workloads import ACCOUNTS

ENVIRONMENT: Final = os.environ | {"PYTHONPATH": os.pathsep.join([*PATHS, str(BENCHMARKS)])}
AGAIN: Final = (b"HTTP/1.1 429", b"HTTP/1.1 503")
"""They are asked again, and count as one question."""
READ: Final = 1 << 16


@dataclass(slots=True)
class Clients:
    """Connections that ask while a phase lasts."""

    speech: str
    count: int
    pause: float = 0.0
    """Seconds between two questions of one of them."""
    _running: "subprocess.Popen[str] | None" = field(default=None)

    def start(self, port: int, seconds: float) -> None:
        """Begin to ask at a port, for so long."""
        command = [sys.executable, "-m", "bank.asking", self.speech, *map(str, (port, seconds, self.count))]
        self._running = subprocess.Popen(
            [*command, str(self.pause)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def told(self) -> dict[str, Any]:
        """All that they have told, in short. Raises Failed."""
        assert self._running is not None, "they were never started"
        told, _ = self._running.communicate()
        if self._running.returncode:
            raise Failed(f"those who asked ended with {self._running.returncode}")
        found = json.loads(told)
        took = sorted(found["ms"])
        return {
            "n": len(took), "per_s": round(found["per_s"]), "cpu_us": round(found["cpu_s"] / len(took) * 1e6),
            "p50_ms": round(percentile(took, 50), 2), "p99_ms": round(percentile(took, 99), 2),
        }  # fmt: skip


Words = Callable[["_Client", int], bytes]
"""(who asks, an account) -> a question."""


class _Client:
    """A connection, and what it waits for."""

    __slots__ = ("asked", "cursor", "got", "socket", "words")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = self.words = self.cursor = b""
        self.asked = 0.0


def _of_job(at: str) -> Words:
    def words(_client: _Client, account: int) -> bytes:
        return _posted(b'{"read":[["accounts",%d]],"at":"%s"}' % (account, at.encode()))

    return words


def _of_scan(client: _Client, _account: int) -> bytes:
    return _posted(b'{"scan":"accounts","limit":1000,"cursor":"%s"}' % client.cursor)


def _posted(body: bytes) -> bytes:
    return b"POST /v1/jobs/bank/query HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _cursor_in(got: bytes) -> bytes:
    """The place behind a page; b"": it was the last one, or none."""
    _, found, rest = got.rpartition(b'"cursor":"')
    return rest[: rest.index(b'"')] if found else b""


def _of_redis(_client: _Client, account: int) -> bytes:
    return b"*2\r\n$4\r\nMGET\r\n$%d\r\n%d\r\n" % (len(str(account)), account)


def _http_ends(got: bytes) -> bool:
    head = got.find(b"\r\n\r\n")
    if head < 0:
        return False
    at = got.index(b"ength: ", 0, head) + 7
    return len(got) >= head + 4 + int(got[at : got.index(b"\r", at)])


def _redis_ends(got: bytes) -> bool:
    return got.count(b"\r\n") == 3 or got == b"*1\r\n$-1\r\n"


def _said(begin: float, seconds: float, clients: Sequence[_Client], pause: float, words: Words,
          ends: Callable[[bytes], bool], begins: bytes) -> Iterator[float]:  # fmt: skip
    """The milliseconds that each answer took. Raises SystemExit for what is none."""
    poll, rng, end = select.epoll(), Random(1), begin + seconds
    by_number = {client.socket.fileno(): client for client in clients}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    rests = deque((begin, client) for client in clients)
    while (now := time.monotonic()) < end:
        while rests and rests[0][0] <= now:
            _, client = rests.popleft()
            client.words, client.asked = words(client, rng.randrange(ACCOUNTS)), time.monotonic()
            client.socket.sendall(client.words)
        for number, _ in poll.poll(max(0.0, min(rests[0][0] if rests else end, end) - now)):
            client = by_number[number]
            client.got += (data := client.socket.recv(READ))
            if not data:
                raise SystemExit("a connection was closed")
            if not ends(client.got):
                continue
            got, client.got, client.cursor = client.got, b"", _cursor_in(client.got)
            if got.startswith(begins):
                yield ((now := time.monotonic()) - client.asked) * 1e3
                rests.append((now + pause, client))
            elif got.startswith(AGAIN):
                client.socket.sendall(client.words)
            else:
                raise SystemExit(f"no answer: {got!r}")


def main(arguments: Sequence[str]) -> None:
    speech, port, seconds, count, pause = arguments
    clients = [_Client(int(port)) for _ in range(int(count))]
    of_redis = speech == "redis"
    of_job = _of_scan if speech == "scan" else _of_job(speech)
    words, ends = (_of_redis, _redis_ends) if of_redis else (of_job, _http_ends)
    begin = time.monotonic()
    begins = b"*1" if of_redis else b"HTTP/1.1 200"
    took = list(_said(begin, float(seconds), clients, float(pause), words, ends, begins))
    spent = time.monotonic() - begin
    print(json.dumps({"ms": took, "per_s": len(took) / spent, "cpu_s": time.process_time()}))


if __name__ == "__main__":
    main(sys.argv[1:])
