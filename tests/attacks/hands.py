"""What an attacker does its attack with: connections, from an address that is no honest client's, and a
bounded number that stay open."""

import contextlib
import random
import socket
import time
from collections import deque
from typing import Final

from attacks.site import Site, WithToken
from flamestream.loop.reactor import EpollReactor
from support.http.raw import ELSEWHERE

HELD: Final = 300
"""Connections at once; the oldest is closed for the next."""
ANSWER: Final = 0.3
"""Seconds that it waits for an answer."""


class Hands:
    """Of one attacker in its process."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.chance = random.Random(site.job)
        self.loop = EpollReactor()
        self.proved = WithToken(site, self.loop)
        self.held: deque[socket.socket] = deque()

    def connect(self, port: int) -> socket.socket:
        """Raises OSError if nobody answers."""
        return socket.create_connection(("127.0.0.1", port), timeout=ANSWER, source_address=(ELSEWHERE, 0))

    def throw(self, port: int, data: bytes) -> None:
        """Send it, hear what is said to it, and go."""
        with contextlib.suppress(OSError), self.connect(port) as connection:
            connection.sendall(data)
            connection.recv(1 << 16)

    def hold(self, port: int, data: bytes = b"") -> None:
        """Send it, and stay without a word."""
        if len(self.held) >= HELD:
            self.held.popleft().close()
        with contextlib.suppress(OSError):
            connection = self.connect(port)
            connection.sendall(data)
            self.held.append(connection)

    def drip(self, data: bytes) -> None:
        """Send it on every connection that is held."""
        for connection in self.held:
            with contextlib.suppress(OSError):
                connection.sendall(data)

    def wait(self, seconds: float) -> None:
        """With what is held; proved links are answered meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.loop.later(0.05, lambda: None)
            self.loop.turn()

    @property
    def coordinator(self) -> int:
        return int(self.site.coordinator.rpartition(":")[2])
