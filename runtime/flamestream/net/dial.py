"""Connect to an address again and again, with growing pauses: `Dialer`; and prove a key there: `Dial`.

The other end may not listen yet, may not know the attempt yet, or may just be restarting, so a failed try
means nothing by itself: how long to go on is the owner's decision. The last reason is kept for its message.
Names are resolved in threads of their own (known_names.py), so a slow resolver holds up neither the loop nor
its helpers.

Keeps: one try at a time, at most one socket open, pauses bounded, every try bounded by a deadline; after
`cancel` nothing is called. Does not: notice the end of a connection that was handed over, or know what is
said over it.
"""

import os
import socket
from collections.abc import Callable
from errno import EINPROGRESS
from typing import Final

from flamestream.model.backoff import Backoff
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Credentials, Dialled, Established, Limits
from flamestream.net.known_names import Found, ask
from flamestream.net.route import Route, split
from flamestream.ports import Reactor, Timer

TO_OTHERS: Final = Backoff(0.02, 2.0)
"""Pauses between tries at servers of the user's, each of which may take `CONNECT_SECONDS`."""
CONNECT_SECONDS: Final = 2.0
TO_OURS: Final = Backoff(0.005, 0.2)
"""Pauses between tries at processes of this job, each of which may take `_OUR_CONNECT_SECONDS`."""
_OUR_CONNECT_SECONDS: Final = 0.6
"""The kernel of a machine that lives answers in milliseconds; one that is gone says nothing, and its address
may be another's soon."""
_NAME_SECONDS: Final = 1.5


class Dialer:
    """Calls `on_connected`, from a later turn, with a connected non-blocking socket, which its owner has from
    then on."""

    def __init__(
        self, reactor: Reactor, address: tuple[str, int], on_connected: Callable[[socket.socket], None],
        again: Backoff[float] = TO_OTHERS, seconds: float = CONNECT_SECONDS,
        failed: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`seconds`: how long a connection may take. `failed` is called behind each try that came to nothing, and may
        set another `address`."""
        self._reactor, self.address, self._on_connected = reactor, address, on_connected
        self._again, self._seconds, self._failed = again, seconds, failed
        self._socket: socket.socket | None = None
        self._timer: Timer | None = None
        self._round = self._tries = 0
        self.failures = 0
        """Tries that came to nothing since the last connection that was proved."""
        self.problem = ""
        """The reason why there is no connection; "" while there is one."""

    def dial(self, first_in: float = 0.0) -> None:
        """Connect: the first time at once, or in `first_in` seconds, and after a pause once tries fail."""
        self.cancel()
        pause = self._again.after(self._tries) or first_in
        # Counted before it is known what comes of it: a server that takes connections and hangs up is dialled
        # with pauses, too.
        self._tries += 1
        if pause:
            self._timer = self._reactor.later(pause, self._resolve)
        else:
            self._resolve()

    def proved(self) -> None:
        """The connection has carried something sensible: the next dial is at once again."""
        self._tries = self.failures = 0
        self.problem = ""

    def broken(self, reason: str) -> None:
        """Dial again: this try, or the owner's connection, has ended."""
        self.failures += 1
        self.problem = f"{self.address[0]}:{self.address[1]}: {reason}"
        self._failed()
        self.dial()

    def cancel(self) -> None:
        """Give up the try at hand, if any. `dial` may be called again."""
        self._round += 1
        self._let_go(self._socket)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _resolve(self) -> None:
        this = self._round
        host, port = self.address
        self._within(_NAME_SECONDS, "the name service has not answered")
        try:
            # Asks nobody, so the loop may call it: with this flag a host that is no number is an error.
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        # Python makes IDNA of a name before anybody is asked, which has no form for labels of more than 63
        # characters.
        except UnicodeError as error:
            self.broken(str(error))
        except socket.gaierror:  # a name: ask where asking may take its time
            ask(
                self._reactor,
                host,
                port,
                lambda answer: self._resolved(this, answer),
                anew=self._tries % 2 == 0,
            )
        else:
            self._connect(found)

    def _resolved(self, this: int, found: Found | Exception) -> None:
        if this != self._round:  # the answer to a try that was given up
            return
        if isinstance(found, OSError | UnicodeError):
            self.broken(str(found))
        elif isinstance(found, Exception):
            raise found
        else:
            self._connect(found)

    def _connect(self, found: Found) -> None:
        family, kind, protocol, _, address = found[0]
        try:
            sock = self._socket = socket.socket(family, kind, protocol)
        except OSError as problem:  # of a family that this machine has not, or out of descriptors
            self.broken(str(problem))
            return
        sock.setblocking(False)
        self._within(self._seconds, "no connection")
        error = sock.connect_ex(address)
        if error in (0, EINPROGRESS):
            self._reactor.watch(sock.fileno(), writable=self._connected)
        else:
            self.broken(os.strerror(error))

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
        self._let_go(sock)
        self._socket = None
        self._on_connected(sock)

    def _within(self, seconds: float, missing: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._reactor.later(seconds, lambda: self.broken(f"{missing} within {seconds:g} s"))

    def _let_go(self, sock: socket.socket | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if sock is not None:
            self._reactor.unwatch(sock.fileno())


class Dial:
    """Tries again and again until `established` was called or `cancel` is."""

    def __init__(
        self, reactor: Reactor, address: str | Route, credentials: Credentials, established: Established,
        limits: Limits, *, again: Backoff[float] = TO_OURS, first_in: float = 0.0,
    ) -> None:  # fmt: skip
        """The first try is made at once, or in `first_in` seconds. A route outlives this, with what it was led to."""
        self._reactor, self._credentials, self._limits, self._established = (
            reactor,
            credentials,
            limits,
            established,
        )
        self._handshake: Dialled | None = None
        self._led = ""
        """The address that the last try was led to."""
        self._over = False
        self._route = address if isinstance(address, Route) else Route(address)
        self._dialer = Dialer(
            reactor, split(self._route.address), self._connected, again, _OUR_CONNECT_SECONDS, self._turn
        )
        self._dialer.dial(first_in)

    @property
    def failures(self) -> int:
        """Tries that came to nothing."""
        return self._dialer.failures

    @property
    def last_failure(self) -> str:
        """The reason why the last try came to nothing."""
        return self._dialer.problem or "no try has ended yet"

    def cancel(self) -> None:
        """Stop trying."""
        # First: `refuse` leads to `_failed`, which would dial again.
        self._over = True
        self._dialer.cancel()
        if self._handshake is not None:
            self._handshake.refuse("cancelled")

    def _connected(self, sock: socket.socket) -> None:
        self._handshake = Dialled(
            self._reactor, sock, self._credentials, self._done, self._failed, self._limits
        )

    def _done(self, connection: FrameConnection) -> None:
        self._over, self._handshake = True, None
        self._route.proved()
        self._established(connection)

    def _failed(self, reason: str) -> None:
        handshake, self._handshake = self._handshake, None
        self._led = handshake.elsewhere if handshake is not None else ""
        if not self._over:
            self._dialer.broken(reason)

    def _turn(self) -> None:
        """A try has failed: the next goes where the route says."""
        led, self._led = self._led, ""
        if led:
            self._route.lead(led)
        else:
            self._route.failed()
        self._dialer.address = split(self._route.address)
