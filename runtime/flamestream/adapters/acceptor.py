"""Accept connections and see them through the handshake; whoever fails it is dropped, counted, and has cost next to nothing.

Keeps: at most `MAX_UNPROVED` connections that have proved nothing (the oldest gives way, so silent ones cannot lock others out), each
for a bounded time and with a few bytes. Does not: decide who is welcome (the owner's `greeted` does).
"""

import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from flamestream.adapters.handshake import Accepted, Limits
from flamestream.ports import Reactor

MAX_UNPROVED: Final = 256
_BACKLOG: Final = 512
_ACCEPTS_A_TURN: Final = 16
_PAUSE_SECONDS: Final = 0.2

log = logging.getLogger(__name__)


class Acceptor:
    """One listening socket, which it owns from now on."""

    def __init__(self, reactor: Reactor, listener: socket.socket, greeted: Callable[[Accepted], None], limits: Limits) -> None:
        self._reactor, self._listener, self._greeted, self._limits = reactor, listener, greeted, limits
        self._unproved: dict[Accepted, None] = {}
        self.dropped = 0
        self.last_drop = ""
        listener.setblocking(False)
        self._watch()

    @property
    def unproved(self) -> list[Accepted]:
        """Those in the middle of their handshake, oldest first."""
        return list(self._unproved)

    def proved(self, handshake: Accepted) -> None:
        """It is the owner's now."""
        self._unproved.pop(handshake, None)

    def close(self) -> None:
        """Listen no more, and drop who has not proved anything."""
        self._reactor.unwatch(self._listener.fileno())
        self._listener.close()
        for handshake in self.unproved:
            handshake.refuse("this process ends")

    def _watch(self) -> None:
        if self._listener.fileno() >= 0:
            self._reactor.watch(self._listener.fileno(), readable=self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                sock, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory: those in use must end first
                self._drop(f"cannot accept: {os.strerror(error.errno or 0)}")
                self._reactor.unwatch(self._listener.fileno())
                self._reactor.later(_PAUSE_SECONDS, self._watch)
                return
            self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        if len(self._unproved) >= MAX_UNPROVED:
            next(iter(self._unproved)).refuse("too many others wait to prove themselves")
        handshake: Accepted

        def refused(reason: str) -> None:
            self._unproved.pop(handshake, None)
            self._drop(reason)

        handshake = Accepted(self._reactor, sock, self._greeted, refused, self._limits)
        self._unproved[handshake] = None

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self.last_drop = reason
        if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a flood must not fill the log
            log.warning("connection dropped", extra={"reason": reason, "dropped": self.dropped})


def listen(host: str, port: int = 0, *, shared: bool = False) -> socket.socket:
    """A listening TCP socket; port 0 takes any free one. `shared` among processes of this user that say so too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket, host: str = "") -> str:
    """host:port at which others reach it; `host` replaces the one it is bound to (0.0.0.0 is no address to dial)."""
    bound, port = listener.getsockname()[:2]
    return f"{host or bound}:{port}"
