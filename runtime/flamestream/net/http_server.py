"""An HTTP/1.1 server in the loop: requests with bounded bodies, answers now or later, and streams
without end.

A client that does not finish a request in time, or does not take what it was sent, is closed
(http_connection.py has the times). When all places are taken somebody gives way to the next (admission.py),
so neither silent nor slow clients hold the port; the same when the bodies under way have too many bytes. A
port that is in use (the worker before has not let it go yet) is tried again until it is free, and `problem`
says so.

Keeps: at most `connections` connections, each with at most `body` and MAX_HEAD bytes of input, and BODIES
bodies in all; a token is judged before anything else of a request. Does not: compression or virtual
hosts: put a reverse proxy before it. Know what is asked for (the handler does).
"""

import socket
from typing import Final

from flamestream.net.acceptor import Door, Drops, listen
from flamestream.net.admission import Admission
from flamestream.net.framing import Budget, tune
from flamestream.net.http_connection import Connection, Socket
from flamestream.net.http_exchange import Exchange, Handler, Headers, Request
from flamestream.net.server_tls import ServerTls
from flamestream.ports import Reactor, Timer

__all__ = ["Exchange", "Handler", "Headers", "HttpServer", "Request"]

REBIND_SECONDS: Final = 0.2
BODIES: Final = 32
"""Bodies of the greatest size that may be under way together."""


class HttpServer:
    """Listens from `open` to `close`."""

    def __init__(
        self,
        reactor: Reactor,
        address: tuple[str, int],
        handler: Handler,
        *,
        body: int,
        token: str | None = None,
        shared: bool = False,
        tls: ServerTls | None = None,
        connections: int = 256,
    ) -> None:
        """`token`: who does not bring it gets 401. `shared`: other processes may listen on the same port, and
        the kernel spreads clients over them. `tls`: and nobody is heard without it."""
        self.reactor, self._address, self.handler = reactor, address, handler
        self.most_body, self.token, self._shared = body, token, shared
        self._tls = tls
        self._door: Door | None = None
        self._timer: Timer | None = None
        self._connections = Admission[Connection](connections)
        self._lent = Budget(BODIES * body)
        self.drops = Drops(reactor)
        self.problem = ""

    def open(self) -> None:
        """Listen, now or as soon as the port is free."""
        if self._door is not None or self._timer is not None:
            return
        try:
            listener = listen(*self._address, shared=self._shared)
        except OSError as error:
            self.problem = (
                f"cannot listen on {self._address[0]}:{self._address[1]}: {error.strerror or error}"
            )
            self._timer = self.reactor.later(REBIND_SECONDS, self._again)
            return
        self.problem = ""
        self._door = Door(self.reactor, listener, self._came, self.drops)

    def close(self) -> None:
        """Let the port and every connection go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._door is not None:
            self._door.close()
            self._door = None
        for connection in list(self._connections):
            connection.close()

    # --- for connections ------------------------------------------------------------------------------------

    def lend(self, connection: Connection, size: int) -> bool:
        """Lend a body `size` bytes more, or fewer. If there are none, the body gives way that admission.py
        names."""
        while not self._lent.change(size):
            peer = self._connections.peer(connection)
            other = self._connections.gives_way(peer, lambda one: one.lent > 0 and one is not connection)
            if other is None or not other.lent or other is connection:
                return False
            other.drop("too slow: others need the room of its body")
        return True

    def served(self, connection: Connection) -> None:
        """The connection has had an answer, and counts as the newest."""
        self._connections.renew(connection)

    def forget(self, connection: Connection) -> None:
        """The connection has ended."""
        self._connections.leave(connection)

    def _again(self) -> None:
        self._timer = None
        self.open()

    def _came(self, sock: socket.socket, peer: str) -> None:
        if self._connections.full:
            other = self._connections.gives_way(peer, lambda one: not one.busy)
            if other is None:
                self.drops.add("no room: everybody has a request under way")
                sock.close()
                return
            other.drop("no room: it gave way to another one")
        tune(sock)
        sealed: Socket | None = sock
        if self._tls is not None:
            try:
                sealed = self._tls.sealed(sock)
            except OSError:  # it has gone already
                sealed = None
        if sealed is None:
            sock.close()
            self.drops.add("it has gone, or too many others have just come: each costs a handshake of TLS")
        else:
            self._connections.enter(Connection(self, sealed), peer)
