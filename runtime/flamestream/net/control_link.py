"""The control link: a worker's one connection to the coordinator, and the coordinator's to all its workers.

The worker dials, both prove the job's token (handshake.py) and speak TLS from then on, the worker says Hello,
and each side sends its messages as they come. When the link ends the worker dials again for as long as it
lives, and works on meanwhile: a dead coordinator stops new epochs and recoveries, never the stream. What the
worker has to say meanwhile waits, except for heartbeats, and follows the next Hello.

A worker has proved its job's token, and nothing else: whatever it sends then ends its link at worst, with the
reason in the log, and never raises into the loop that it shares with other jobs.

Keeps: Hello is first on every connection, small and within HELLO_SECONDS; per connection, messages in order;
at most `MAX_WAITING` messages wait; links, and bytes held for them, are bounded per job and in all. Does not:
guarantee delivery (what was under way when a link ended is lost, and the cores bear it), or tell whether a
silent peer lives (Progress does).
"""

import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import FromCoordinator
from flamestream.core.protocol.messages import Hello, Progress, ToCoordinator, ToWorker, shortened
from flamestream.model.backoff import Backoff
from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.model.errors import Bug
from flamestream.model.ids import WorkerId
from flamestream.net.acceptor import Acceptor
from flamestream.net.dial import TO_OURS, Dial
from flamestream.net.framing import Budget, FrameConnection
from flamestream.net.handshake import Accepted, Limits, Purpose
from flamestream.net.route import Route, split
from flamestream.net.tls import LinkKey
from flamestream.ports import Post, Reactor

PROTOCOL: Final = "flamestream-control/2"
LIMITS: Final = Limits(max_frame=64 << 20, max_unsent=256 << 20)
MAX_WAITING: Final = 1024
MAX_HELLO: Final = 512 << 10
"""Bytes of a Hello: room for the names of the operations that a graph may have, and for a text."""
HELLO_SECONDS: Final = 5.0
"""Seconds from the handshake to the Hello."""
MOST_LINKS: Final = 1024
"""Links of a job; sixteen times as many are allowed on one port: a thousand jobs, with workers that stand by or come
beside others. The oldest without a Hello gives way."""
MOST_BYTES: Final = 128 << 20
"""Bytes held for the links of a job: frames that are not whole or not read. Twice as many are allowed on one
port."""
AGAIN: Final = Backoff(TO_OURS.first, 0.3)
LASTS_US: Final = 1_000_000
"""A link that ended sooner was not wanted there (the worker's pod is about to stop): without a pause both
ends did nothing else."""
UNANSWERED_SECONDS: Final = 2
"""A machine that has received nothing for so long is gone, and the coordinator with it: heartbeats leave all
the time, a standby's kernel asks. The next coordinator can recover nobody before the workers dial."""

_encode = msgspec.msgpack.Encoder().encode
_to_coordinator: Final[Callable[[bytes], ToCoordinator]] = msgpack_decoder(ToCoordinator)
_to_worker: Final[Callable[[bytes], ToWorker]] = msgpack_decoder(ToWorker)

log = logging.getLogger(__name__)


def _purpose(job: str) -> Purpose:
    # Of no attempt: the link outlives them, under the run's token.
    return Purpose(PROTOCOL, job, 0, 0, "worker", "coordinator")


class ControlClient:
    """The worker's end. `hello` is asked at every connection, for what is true then. `address`: a route, or one or
    more addresses, by commas (route.py)."""

    def __init__(
        self,
        reactor: Reactor,
        post: Post,
        job: str,
        address: str | Route,
        token: str,
        hello: Callable[[], Hello],
    ) -> None:
        self._route = address if isinstance(address, Route) else Route(address)
        self._reactor, self._post, self._hello = reactor, post, hello
        self._credentials = (_purpose(job), LinkKey(token.encode()))
        self._connection: FrameConnection | None = None
        self._waiting: deque[ToCoordinator] = deque(maxlen=MAX_WAITING)
        self._closed = False
        self._since = reactor.instant()
        """The instant at which the link was made."""
        self._dial = self._dialling(0)

    def tell(self, action: ToldCoordinator) -> None:
        """Send the message now, or after the next Hello."""
        if self._connection is not None:
            self._connection.send(_encode(shortened(action.message)))
        # A heartbeat that waits would speak of the past: the next one says it all.
        elif not isinstance(action.message, Progress):
            self._waiting.append(shortened(action.message))

    def close(self, seconds: float = 1.0) -> None:
        """End the link, once what was told has been read, or `seconds` have passed. Blocks: for a process
        that ends."""
        self._closed = True
        self._dial.cancel()
        if self._connection is not None:
            self._connection.finish(seconds)

    def _dialling(self, first_in: float) -> Dial:
        return Dial(
            self._reactor,
            self._route,
            self._credentials,
            self._established,
            LIMITS,
            again=AGAIN,
            first_in=first_in,
        )

    def _established(self, connection: FrameConnection) -> None:
        self._connection, self._since = connection, self._reactor.instant()
        connection.unanswered_for(UNANSWERED_SECONDS)
        connection.handle(self._received, self._lost, LIMITS.max_frame)
        connection.send(_encode(shortened(self._hello())))
        while self._waiting:
            connection.send(_encode(self._waiting.popleft()))

    def _received(self, frames: list[bytes]) -> None:
        try:
            for frame in frames:
                self._post(FromCoordinator(_to_worker(frame)))
        except DecodeError as error:
            assert self._connection is not None, "frames come from a connection"
            self._connection.close()
            self._lost(f"a message that is malformed, or of another release: {error}")

    def _lost(self, reason: str) -> None:
        log.warning("control link lost", extra={"reason": reason})
        self._connection = None
        if not self._closed:
            self._dial = self._dialling(
                0 if self._reactor.instant() - self._since >= LASTS_US else AGAIN.longest
            )


class Handlers(Protocol):
    """Who is told what workers say."""

    def connected(self, hello: Hello) -> None: ...
    def disconnected(self, worker: WorkerId, reason: str) -> None: ...
    def from_worker(self, worker: WorkerId, message: ToCoordinator) -> None: ...


class ControlListener:
    """A port for the coordinators of several jobs: a greeting names its job. `elsewhere` has the address of who
    coordinates one that is unknown here; "": nobody does. `opens`: at once; else whoever dials waits until
    `acceptor.open`."""

    def __init__(
        self, reactor: Reactor, listener: socket.socket, elsewhere: Callable[[str], str] = lambda _: "",
        *, opens: bool = True,
    ) -> None:  # fmt: skip
        self._elsewhere = elsewhere
        self.acceptor = Acceptor(reactor, listener, self._greeted, LIMITS, opens=opens)
        self.servers: dict[str, ControlServer] = {}
        self.links, self.held = Budget(16 * MOST_LINKS), Budget(2 * MOST_BYTES)

    def _greeted(self, handshake: Accepted) -> None:
        server = self.servers.get(handshake.purpose.job)
        if server is not None:
            server.greeted(handshake)
        elif address := self._elsewhere(handshake.purpose.job):
            handshake.lead(address)
        else:
            handshake.refuse("nobody coordinates that job here")


class ControlServer:
    """The coordinator's end, on a socket that listens already (its owner may outlive this process, so the
    address stays)."""

    handlers: Handlers
    """Set before the loop turns."""

    def __init__(
        self, reactor: Reactor, listener: socket.socket | ControlListener, job: str, token: str
    ) -> None:
        self.reactor, self._purpose, self._key = reactor, _purpose(job), LinkKey(token.encode())
        self._sessions: dict[WorkerId, _Session] = {}
        self._nameless: dict[_Session, None] = {}
        """Sessions without a Hello, the oldest first."""
        if isinstance(listener, ControlListener):
            self._shared: ControlListener | None = listener
            self.acceptor = listener.acceptor
            listener.servers[job] = self
        else:
            self._shared = None
            self.acceptor = Acceptor(reactor, listener, self.greeted, LIMITS)
        self.links = Budget(MOST_LINKS, self._shared.links if self._shared else None)
        self.held = Budget(MOST_BYTES, self._shared.held if self._shared else None)

    def tell(self, worker: WorkerId, message: ToWorker) -> None:
        """Send it if the worker is connected; if not, its next Hello shows where it stands."""
        session = self._sessions.get(worker)
        if session is not None:
            session.connection.send(_encode(message))

    def disconnect(self, worker: WorkerId) -> None:
        """End its connection without a word. It may dial again."""
        session = self._sessions.pop(worker, None)
        if session is not None:
            session.close()

    def close(self, seconds: float = 1.0) -> None:
        """Listen no more, and end every connection once what was told has left, within `seconds` each.
        Blocks."""
        if self._shared is None:
            self.acceptor.close()
        # Another server of the job may stand there by now: that one stays.
        elif self._shared.servers.get(self._purpose.job) is self:
            del self._shared.servers[self._purpose.job]
        for session in [*self._sessions.values(), *self._nameless]:
            session.connection.finish(seconds)
            session.close()
        self._sessions.clear()
        self._nameless.clear()

    def greeted(self, handshake: Accepted) -> None:
        """Judge the purpose of a connection that has proved nothing yet."""
        if handshake.purpose != self._purpose:
            handshake.refuse("it does not look for the coordinator of this job")
            return
        handshake.welcome(self._key, lambda connection: self._established(handshake, connection))

    def _established(self, handshake: Accepted, connection: FrameConnection) -> None:
        self.acceptor.proved(handshake)
        if not self.links.change(1):
            # Only who has not said Hello gives way: the others are workers of the job.
            if self._nameless:
                next(iter(self._nameless)).refuse("too many others came before its Hello")
            if not self.links.change(1):
                connection.close()
                self.acceptor.drops.add("there are too many links")
                return
        self._nameless[_Session(self, connection)] = None

    def named(self, session: "_Session", hello: Hello) -> None:
        """A session has said who it is. A worker that dials again before its old link's end is noticed
        replaces it."""
        self._nameless.pop(session, None)
        older = self._sessions.get(hello.worker)
        if older is not None:
            # The old end is told before the new beginning (!): only the worker's name is told, so the other
            # way round the new link would be taken for lost.
            older.close()
            self.handlers.disconnected(hello.worker, "replaced by a newer connection")
        self._sessions[hello.worker] = session
        self.handlers.connected(hello)

    def ended(self, session: "_Session", worker: WorkerId | None, reason: str) -> None:
        """A session's connection is gone."""
        self._nameless.pop(session, None)
        # Not if a newer connection has replaced it: the worker is there.
        if worker is not None and self._sessions.get(worker) is session:
            del self._sessions[worker]
            self.handlers.disconnected(worker, reason)


class _Session:
    """A proved connection: nameless until its Hello."""

    def __init__(self, server: ControlServer, connection: FrameConnection) -> None:
        self._server = server
        self.connection = connection
        self._worker: WorkerId | None = None
        self._counts = True
        """Whether it has a place among the links."""
        self._deadline = server.reactor.later(HELLO_SECONDS, lambda: self.refuse("it has not said Hello"))
        connection.handle(self._received, self._lost, LIMITS.max_frame, first=MAX_HELLO, budget=server.held)

    def close(self) -> None:
        """End it without a word to anybody."""
        self.connection.close()
        self._deadline.cancel()
        if self._counts:
            self._counts = False
            self._server.links.change(-1)

    def refuse(self, reason: str, error: Exception | None = None) -> None:
        """End it, and say why. `error` is what its words made our own code raise."""
        self._server.acceptor.drops.add(f"{self._worker or 'a worker'}: {reason}", error)
        self._ended(reason)

    def _received(self, frames: list[bytes]) -> None:
        try:
            for frame in frames:
                # A frame may have ended the session: what came behind it is not heard.
                if self.connection.open:
                    self._handle(_to_coordinator(frame))
        except DecodeError as error:
            self.refuse(f"a message that is malformed, or of another release: {error}")
        except Exception as error:  # noqa: BLE001 - it ends this worker's link, never the loop of all jobs (!)
            self.refuse(f"{type(error).__name__}: {error}", error)

    def _handle(self, message: ToCoordinator) -> None:
        if self._worker is None and isinstance(message, Hello):
            self._deadline.cancel()
            _check_address(message.address)
            self._worker = message.worker
            self._server.named(self, message)
        elif self._worker is not None and not isinstance(message, Hello):
            self._server.handlers.from_worker(self._worker, message)
        else:
            self.refuse("Hello is the first message, and only that")

    def _lost(self, reason: str) -> None:
        if self._worker is None:
            self._server.acceptor.drops.add(f"a worker: {reason}")
        self._ended(reason)

    def _ended(self, reason: str) -> None:
        self.close()
        self._server.ended(self, self._worker, reason)


def _check_address(address: str) -> None:
    """Raises DecodeError unless `address` can be dialled, as other workers are told to."""
    try:
        split(address)
    except Bug as error:
        raise DecodeError(str(error)) from None
