"""Connect to an address and prove a key there, again and again with growing pauses, until it works or is cancelled.

The other end may not listen yet, may not know the attempt yet, or may just be restarting, so a failed try means nothing by itself:
how long to go on is the owner's decision. The last reason is kept for its message.

Keeps: one try at a time, pauses bounded, every try bounded by a deadline. Does not: notice the end of a connection it has handed over.
"""

import re
import socket
from errno import EINPROGRESS
from typing import Final

from flamestream.model.errors import Bug
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Credentials, Dialled, Established, Limits
from flamestream.net.known_names import Found, ask
from flamestream.ports import Reactor, Timer

FIRST_PAUSE: Final = 0.005
_NAME_SECONDS: Final = 1.5
_CONNECT_SECONDS: Final = 0.6
"""The kernel of a machine that lives answers in milliseconds; one that is gone says nothing, and its address may be another's soon."""
_ADDRESS: Final = re.compile(r"([0-9A-Za-z_.:%\[\]-]{1,255}):([0-9]{1,5})")
_LAST_PORT: Final = 65535


class Dial:
    """Tries until `established` was called or `cancel` is."""

    def __init__(
        self,
        reactor: Reactor,
        address: str,
        credentials: Credentials,
        established: Established,
        limits: Limits,
        *,
        longest_pause: float = 0.2,
        first_in: float = 0,
    ) -> None:
        """The first try is made at once, or in `first_in` seconds."""
        self._reactor, self._address, self._credentials, self._limits = reactor, address, credentials, limits
        self._established = established
        self._longest_pause = longest_pause
        self._pause = FIRST_PAUSE
        self._timer: Timer | None = None
        self._socket: socket.socket | None = None
        self._handshake: Dialled | None = None
        self._over = False
        self._round = 0
        self.failures = 0
        self.last_failure = "no try has ended yet"
        if first_in:
            self._reactor.later(first_in, self._again)
        else:
            self._try()

    def cancel(self) -> None:
        """Stop trying."""
        self._over = True
        self._drop_try()
        if self._handshake is not None:
            self._handshake.refuse("cancelled")

    def _try(self) -> None:
        self._wait(_NAME_SECONDS)
        self._round += 1
        this = self._round
        host, port = split(self._address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except UnicodeError as error:
            self._failed(f"cannot resolve it: {error}")
        except socket.gaierror:  # a name: ask where asking may take its time
            anew = this % 2 == 0
            ask(self._reactor, host, port, lambda result: self._resolved(this, result), anew=anew)
        else:
            self._connect(found)

    def _resolved(self, this: int, found: Found | Exception) -> None:
        if self._over or this != self._round or self._timer is None:
            return
        if isinstance(found, OSError | UnicodeError):
            self._failed(f"cannot resolve it: {found}")
        elif isinstance(found, Exception):
            raise found
        else:
            self._connect(found)

    def _connect(self, found: Found) -> None:
        family, kind, protocol, _, address = found[0]
        try:
            sock = self._socket = socket.socket(family, kind, protocol)
        except OSError as problem:  # of a family that this machine has not, or out of descriptors
            self._failed(f"cannot connect: {problem}")
            return
        sock.setblocking(False)
        self._wait(_CONNECT_SECONDS)
        error = sock.connect_ex(address)
        if error in (0, EINPROGRESS):
            self._reactor.watch(sock.fileno(), writable=self._connected)
        else:
            self._failed(f"cannot connect: {_text(error)}")

    def _connected(self) -> None:
        assert self._socket is not None
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._failed(f"cannot connect: {_text(error)}")
            return
        sock, self._socket = self._socket, None
        self._reactor.unwatch(sock.fileno())
        self._drop_try()
        self._handshake = Dialled(self._reactor, sock, self._credentials, self._done, self._failed, self._limits)

    def _done(self, connection: FrameConnection) -> None:
        self._over, self._handshake = True, None
        self._established(connection)

    def _failed(self, reason: str) -> None:
        self._handshake = None
        self._drop_try()
        if self._over:
            return
        self.failures += 1
        self.last_failure = reason
        self._reactor.later(self._pause, self._again)
        self._pause = min(self._pause * 2, self._longest_pause)

    def _again(self) -> None:
        if not self._over:
            self._try()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._reactor.later(seconds, lambda: self._failed("no answer"))

    def _drop_try(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host may stand in brackets. Raises Bug: whoever takes it from outside checks it."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > _LAST_PORT:
        raise Bug(f"{address[:300]!r} is not an address host:port")
    return found[1].removeprefix("[").removesuffix("]"), int(found[2])


def _text(error: int) -> str:
    return OSError(error, "").strerror or f"error {error}"
