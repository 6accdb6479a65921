"""Ports of this machine for a test's servers."""

import socket
from contextlib import suppress
from random import SystemRandom
from typing import Final

PORTS: Final = range(12_000, 22_768)
"""No connection that goes out has one of these (Linux takes them from 32,768 on), so a server that is down
for a while gets its own again. Nor one of those ten thousand above, where nodes of a Redis cluster talk."""


def free_port() -> int:
    """One that was free a moment ago. Which one is anybody's guess, so that no two processes have the same."""
    for port in SystemRandom().sample(PORTS, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a hundred ports of this machine are all taken")
