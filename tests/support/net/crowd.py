"""A crowd of clients of a server: so many connections at once, in a process of its own, and what each was told.

    python -m support.net.crowd 127.0.0.1:7878 10000 </the/request

All send the same bytes (none: they are silent) and keep their side open. When each was let go, or has an answer of 200
that goes on, or, of silent ones, nothing has changed for `STILL` seconds, what they were told is printed as JSON; when
standard input ends they go.

Does not: read on where an answer goes on.
"""

import json
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AT_ONCE = 200
"""Connections that are on their way to the server."""
STILL = 1.0
PATIENCE = 60.0
"""Seconds in which who asks is told something: a busy machine's server may be silent for long."""
MOST_BYTES = 4096
"""So much is kept of an answer."""


def room_for(count: int) -> bool:
    """Whether one process may have so many connections."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= count + 64


@contextmanager
def crowd(address: str, count: int, request: bytes = b"") -> Iterator[dict[str, Any]]:
    """What a crowd was told, while it is there."""
    command = [sys.executable, str(Path(__file__)), address, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"%d\n%s" % (len(request), request))
        process.stdin.flush()
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()  # so that they go
        assert process.wait(60) == 0


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    request = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    clients = _Crowd((host, int(port)), request)
    clients.come(int(sys.argv[2]))
    sys.stdout.write(f"{json.dumps(clients.told())}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


class _Crowd:
    """All of its connections stay open here, whatever the other side does."""

    def __init__(self, place: tuple[str, int], request: bytes) -> None:
        self._place, self._request = place, request
        self._selector = selectors.DefaultSelector()
        self._answers: dict[socket.socket, bytes] = {}

    def come(self, count: int) -> None:
        """Back when all were told what they are told."""
        coming, since, still = 0, time.monotonic(), PATIENCE if self._request else STILL
        while count or (self._selector.get_map() and time.monotonic() < since + still):
            while count and coming < AT_ONCE:
                self._dial()
                count, coming = count - 1, coming + 1
            for key, mask in self._selector.select(STILL / 4):
                since, client = time.monotonic(), key.fileobj
                assert isinstance(client, socket.socket)
                if mask & selectors.EVENT_WRITE:
                    coming -= 1
                    self._connected(client)
                else:
                    self._heard(client)

    def told(self) -> dict[str, Any]:
        """How many got which first line, and the body of one of them."""
        lines: Counter[str] = Counter()
        bodies = {}
        for answer in self._answers.values():
            head, _, body = answer.partition(b"\r\n\r\n")
            line = head.partition(b"\r\n")[0].decode()
            lines[line], bodies[line] = lines[line] + 1, body.decode()
        return {"lines": lines, "bodies": bodies}

    def _dial(self) -> None:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(self._place)
        self._answers[client] = b""
        self._selector.register(client, selectors.EVENT_WRITE)

    def _connected(self, client: socket.socket) -> None:
        try:
            client.send(self._request)
        except ConnectionError:
            self._selector.unregister(client)
        else:
            self._selector.modify(client, selectors.EVENT_READ)

    def _heard(self, client: socket.socket) -> None:
        try:
            data = client.recv(MOST_BYTES)
        except ConnectionError:
            data = b""
        self._answers[client] += data
        goes_on = self._answers[client].startswith(b"HTTP/1.1 200") and b"\r\n\r\n" in self._answers[client]
        if goes_on or not data:
            self._selector.unregister(client)


if __name__ == "__main__":
    main()
