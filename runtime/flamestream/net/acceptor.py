"""Accept connections and see them through the handshake; whoever fails it is dropped, counted, and has cost
next to nothing.

Keeps: at most `MAX_UNPROVED` connections that have proved nothing (admission.py says who gives way, so silent
ones cannot lock others out), each for a bounded time and with a few bytes; a line a second in the log,
however many are dropped. Does not: decide who is welcome (the owner's `greeted` does).
"""

import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from flamestream.net.admission import Admission, peer_of
from flamestream.net.handshake import Accepted, Limits
from flamestream.ports import Reactor

MAX_UNPROVED: Final = 256
_BACKLOG: Final = 512
_ACCEPTS_A_TURN: Final = 16
_PAUSE_SECONDS: Final = 0.2
_CROWDED_SECONDS: Final = 0.02
_SILENT_US: Final = 500_000
"""Whoever has proved nothing in so many microseconds gives way."""
_LOGGED_EVERY: Final = 1.0
"""Seconds between two lines in the log about drops."""

log = logging.getLogger(__name__)


class Drops:
    """Connections of one port that were ended for what they said or did: counted, and logged at most once a
    second, the last one too."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._logged = 0
        self._resting = False
        self._error: Exception | None = None
        self.count = 0
        self.last = ""

    def add(self, reason: str, error: Exception | None = None) -> None:
        """Count a connection that was ended. `error` is what it made our own code raise: logged with its
        trace."""
        self.count += 1
        self.last, self._error = reason, error
        if not self._resting:
            self._log()

    def _log(self) -> None:
        """Log what is new since the last line; then nothing for a second."""
        self._resting = self.count > self._logged
        if self._resting:
            self._logged = self.count
            log.warning(
                "connection dropped",
                exc_info=self._error,
                extra={"reason": self.last[:1000], "dropped": self.count},
            )
            self._error = None
            self._reactor.later(_LOGGED_EVERY, self._log)


class Door:
    """Takes the connections of one listening socket, which it owns from now on. Rests a moment when the
    process is out of descriptors."""

    def __init__(
        self,
        reactor: Reactor,
        listener: socket.socket,
        came: Callable[[socket.socket, str], None],
        drops: Drops,
        *,
        opens: bool = True,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`came` gets each connection, and what admission.py calls its peer. `opens`: at once; else whoever comes
        waits in the kernel until `open`, as it does while it is `crowded`."""
        self._reactor, self._listener, self._came, self._drops = reactor, listener, came, drops
        self._crowded = crowded
        listener.setblocking(False)
        if opens:
            self.open()

    def open(self) -> None:
        """Take connections from now on. Once it is open: nothing."""
        # `close` may have come during a pause, whose timer nobody cancels.
        if self._listener.fileno() >= 0:
            self._reactor.watch(self._listener.fileno(), readable=self._accept)

    def close(self) -> None:
        """Listen no more."""
        self._reactor.unwatch(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            # What `came` led to may have closed this door.
            if self._listener.fileno() < 0:
                return
            if self._crowded():
                self._rest(_CROWDED_SECONDS)
                return
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory: those in use must end first
                self._drops.add(f"cannot accept: {os.strerror(error.errno or 0)}")
                self._rest(_PAUSE_SECONDS)
                return
            self._came(sock, peer_of(address))

    def _rest(self, seconds: float) -> None:
        """The listener stays ready: without a pause the loop would be told so at every turn, in vain."""
        self._reactor.unwatch(self._listener.fileno())
        self._reactor.later(seconds, self.open)


class Acceptor:
    """A listening socket, which it owns from now on, and the handshakes of those who come."""

    def __init__(
        self, reactor: Reactor, listener: socket.socket, greeted: Callable[[Accepted], None], limits: Limits,
        *, opens: bool = True,
    ) -> None:  # fmt: skip
        """`opens`: at once; else whoever comes waits until `open`."""
        self._reactor, self._greeted, self._limits = reactor, greeted, limits
        self._unproved = Admission[Accepted](MAX_UNPROVED)
        self.drops = Drops(reactor)
        self._door = Door(
            reactor, listener, self._begin, self.drops, opens=opens, crowded=self._will_have_room
        )
        self.open = self._door.open

    @property
    def unproved(self) -> list[Accepted]:
        """The connections in the middle of their handshake, oldest first."""
        # A copy: who is refused leaves, while callers walk through it.
        return list(self._unproved)

    def proved(self, handshake: Accepted) -> None:
        """The connection of `handshake` is the owner's now."""
        self._unproved.leave(handshake)

    def close(self) -> None:
        """Listen no more, and drop whoever has not proved anything."""
        self._door.close()
        for handshake in self.unproved:
            handshake.refuse("this process ends")

    def _will_have_room(self) -> bool:
        """Whether there is none now, but those inside have just come, keep to the handshake, and may prove themselves.
        Who gives way dials again: where a thousand come at once they would do nothing else."""
        oldest = next(iter(self._unproved), None)
        # greeted, or who is silent would hold up whoever waits outside (!)
        if oldest is None or not self._unproved.full or not oldest.greeted:
            return False
        return self._reactor.instant() - oldest.since < _SILENT_US

    def _begin(self, sock: socket.socket, peer: str) -> None:
        if self._unproved.full and (other := self._unproved.gives_way(peer, lambda _: True)) is not None:
            other.refuse("too many others wait to prove themselves")
        handshake: Accepted

        def refused(reason: str) -> None:
            self._unproved.leave(handshake)
            self.drops.add(reason)

        # `refused` finds the name bound: a connection that fails while it is made says so in a later turn.
        handshake = Accepted(self._reactor, sock, self._greeted, refused, self._limits)
        self._unproved.enter(handshake, peer)


def listen(host: str, port: int = 0, *, shared: bool = False) -> socket.socket:
    """A listening TCP socket; port 0 takes any free one. `shared` among processes of this user that say so
    too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Else connections of the process before, which Linux remembers for a minute (TIME_WAIT), would keep
        # the port.
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
    """host:port at which others reach it; `host` replaces the one it is bound to (0.0.0.0 is no address to
    dial)."""
    bound, port = listener.getsockname()[:2]
    return f"{host or bound}:{port}"
