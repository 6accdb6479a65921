"""A connection that is dialled again whenever it breaks, with a pause that doubles up to two seconds.

Used towards the user's own servers (socket source and sink). A try that has not connected within two seconds counts as failed. Names
are resolved in a thread of their own, so a slow resolver holds up neither the loop nor its helpers.

Keeps: at most one socket open; after `close` nothing is called. Does not: know what is said over the connection.
"""

import os
import socket
from collections.abc import Callable
from typing import Final

from flamestream.net.known_names import Found, ask
from flamestream.ports import Reactor, Timer

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 2.0
CONNECT_SECONDS: Final = 2.0


class Dialer:
    """Calls `on_connected` with a connected non-blocking socket, which its owner has from then on."""

    def __init__(self, reactor: Reactor, address: tuple[str, int], on_connected: Callable[[socket.socket], None]) -> None:
        self._reactor = reactor
        self._address = address
        self._on_connected = on_connected
        self._socket: socket.socket | None = None
        self._timer: Timer | None = None
        self._pause = 0.0
        self._round = self._tries = 0
        self.problem = ""
        """Why there is no connection; "" while there is one."""

    def dial(self) -> None:
        """Connect from a later turn on, at once the first time and after a pause once tries fail."""
        self.cancel()
        self._timer = self._reactor.later(self._pause, self._resolve)
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)

    def proved(self) -> None:
        """The connection has carried something sensible: the next dial is at once again."""
        self._pause = 0.0
        self._tries = 0
        self.problem = ""

    def broken(self, reason: str) -> None:
        """The owner's connection has ended: dial again."""
        self.problem = f"{self._address[0]}:{self._address[1]}: {reason}"
        self.dial()

    def cancel(self) -> None:
        """Give up the try at hand, if any. `dial` may be called again."""
        self._round += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _resolve(self) -> None:
        this = self._round
        self._timer = self._reactor.later(CONNECT_SECONDS, lambda: self.broken(f"no connection within {CONNECT_SECONDS:g} s"))
        host, port = self._address
        self._tries += 1
        anew = self._tries % 2 == 0
        ask(self._reactor, host, port, lambda found: self._connect(this, found), anew=anew)

    def _connect(self, this: int, found: Found | Exception) -> None:
        if this != self._round:
            return
        if isinstance(found, OSError | UnicodeError):
            self.broken(str(found))
            return
        if isinstance(found, Exception):
            raise found
        family, kind, protocol, _, address = found[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        try:
            self._socket.connect(address)
        except BlockingIOError:  # the usual case: under way
            pass
        except OSError as error:
            self.broken(str(error))
            return
        self._reactor.watch(self._socket.fileno(), writable=self._connected)

    def _connected(self) -> None:
        sock = self._socket
        if sock is None:
            return
        if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.broken(os.strerror(error))
            return
        try:
            sock.getpeername()
        except OSError:  # called without need: not connected yet
            return
        self._reactor.unwatch(sock.fileno())
        self._socket = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_connected(sock)
