"""Frames over a non-blocking stream socket: four bytes of length (big-endian), then that many bytes.

Sending writes at once and buffers only what the kernel does not take; reading takes what is there, bounded
per turn, and hands over all complete frames as one list. A frame longer than `max_frame`, or more unsent
bytes than `max_unsent`, closes the connection with a reason: a peer that is wrong or too slow costs its
connection, never memory. What several connections hold together is bounded by a Budget that they share.

Keeps: frames arrive whole and in order; `on_closed` is called once, in a later turn, after every frame that
came before the end, and never after `close`; once secured, nothing goes out or is handed over but through
TLS. Does not: look inside a frame, authenticate (handshake.py), or connect again.
"""

import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from flamestream.net.tls import MOST_RECEIVED, TlsStream
from flamestream.ports import Reactor

OnFrames = Callable[[list[bytes]], None]
OnClosed = Callable[[str], None]

HEADER: Final = 4
LENGTH: Final = struct.Struct(">I")
"""The number that stands before each frame: its bytes."""
DEFAULT_MAX_UNSENT: Final = 256 << 20
# One read is never more than a single call of TLS takes.
_SCRATCH_SIZE: Final = MOST_RECEIVED
# A peer that sends without end must not hold up the loop: epoll is level-triggered here, and tells of the
# rest in the next turn.
_READS_A_TURN: Final = 8
_JOIN_BELOW: Final = 64 << 10
"""Bytes of a frame below which a copy joins it with its header; above, the kernel gathers them."""
_VIEWS_A_WRITE: Final = 64
_KEEPALIVE_SECONDS: Final = 5
_USER_TIMEOUT_SECONDS: Final = 15

_scratch = memoryview(bytearray(_SCRATCH_SIZE))
"""A buffer for all connections of the process: a loop reads one socket at a time and leaves nothing in it."""


class Budget:
    """The amount that several holders may have together, and with those of another budget that it is part of.

    >>> everybody = Budget(10)
    >>> ours, theirs = Budget(8, everybody), Budget(8, everybody)
    >>> ours.change(7), theirs.change(4), theirs.change(3), ours.change(-7), theirs.change(5)
    (True, False, True, True, True)
    """

    def __init__(self, most: int, within: "Budget | None" = None) -> None:
        self._most, self._within = most, within
        self.held = 0

    def change(self, by: int) -> bool:
        """Hold so many more, or fewer. False if that is too much: then nothing has changed."""
        if by > 0 and self.held + by > self._most:
            return False
        # The outer one is asked before our own count changes: a refusal there leaves nothing to take back.
        if self._within is not None and not self._within.change(by):
            return False
        self.held += by
        return True


class FrameConnection:
    """A connected socket, which it owns from now on, as frames."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        max_frame: int,
        on_frames: OnFrames,
        on_closed: OnClosed,
        max_unsent: int = DEFAULT_MAX_UNSENT,
    ) -> None:
        self._reactor = reactor
        self._socket = sock
        self.max_frame = max_frame
        self._on_frames = on_frames
        self._on_closed = on_closed
        self._max_unsent = max_unsent
        self._partial = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._unsent_size = 0
        self._first = 0
        """Bytes that the next frame may have, if fewer than `max_frame`; else 0."""
        self._budget: Budget | None = None
        self._held = 0
        """Bytes of the budget that this connection holds."""
        self._tls: TlsStream | None = None
        self._on_proved: Callable[[], None] | None = None
        self.open = True
        tune(sock)
        reactor.watch(sock.fileno(), readable=self._readable)

    def handle(
        self,
        on_frames: OnFrames,
        on_closed: OnClosed,
        max_frame: int,
        *,
        first: int = 0,
        budget: Budget | None = None,
    ) -> None:
        """Another owner from now on: a handshake hands its connection on by this.

        `first`: the next frame may have no more bytes than that. `budget` counts what of frames has come in
        part, and what is unsent.
        """
        self._on_frames, self._on_closed, self.max_frame, self._first = on_frames, on_closed, max_frame, first
        self._budget = budget

    def deliver(self, frames: list[bytes]) -> None:
        """Hand over frames that an earlier owner took out but that are not its own."""
        if frames and self.open:
            self._on_frames(frames)

    def secure(self, tls: TlsStream, on_proved: Callable[[], None]) -> None:
        """TLS from here on, both ways. `on_proved` is called before anything is handed over that came through
        it."""
        if self._partial:  # (!) said in the clear, by whomever: it must not pass for what TLS has brought
            self._end("it sent more than the handshake asks for")
            return
        self._tls, self._on_proved = tls, on_proved
        self._answer(tls)

    def unanswered_for(self, seconds: int) -> None:
        """End it once the peer's machine has not even received for so long what was sent; where nothing is
        sent, the kernel asks."""
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, seconds // 2))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // 2))

    def send(self, frame: bytes) -> None:
        """Send a frame, or buffer it. On a connection that has ended it does nothing: `on_closed` tells."""
        if not self.open:
            return
        header = LENGTH.pack(len(frame))
        parts = [header + frame] if len(frame) < _JOIN_BELOW else [header, frame]
        self._put(parts if self._tls is None else [self._tls.sealed(parts)])

    def close(self) -> None:
        """End the connection now; nothing more is called."""
        self._on_closed = lambda _: None
        self._shut()

    def finish(self, seconds: float) -> None:
        """Block until what was sent has left and the peer has read it, at most `seconds`, then close. For a
        process that ends."""
        if self.open:
            self._on_closed = lambda _: None
            self._reactor.unwatch(self._socket.fileno())
            deadline = time.monotonic() + seconds
            # the peer is gone or too slow: nothing more can be done for what is unsent
            with contextlib.suppress(OSError):
                self._linger(deadline)
            self.open = False
            self._socket.close()
            self._let_go()

    def _linger(self, deadline: float) -> None:
        """Closing with unread input would reset the connection and may destroy what the peer has not read
        yet: wait for its end."""
        for view in self._unsent:
            # Never 0, which makes a socket that does not block: `sendall` would fail at once.
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.sendall(view)
        self._socket.shutdown(socket.SHUT_WR)
        while time.monotonic() < deadline:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            if not self._socket.recv_into(_scratch):
                return

    # --- reading --------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        frames: list[bytes] = []
        ended = self._read(frames) or self._counted()
        if frames:  # also those that came just before the end
            # Looked up behind the read: the bytes that prove a peer may bring its first frames, which are the
            # new owner's.
            self._on_frames(frames)
        # The owner may have closed it over one of these frames: then nothing more is called.
        if ended and self.open:
            self._end(ended)

    def _read(self, frames: list[bytes]) -> str:
        """Collect what is there; returns why it is the last, or ""."""
        for _ in range(_READS_A_TURN):
            try:
                size = self._socket.recv_into(_scratch)
            except BlockingIOError:
                return ""
            except OSError as error:
                return f"cannot receive: {error}"
            if size == 0:
                return "closed by the peer" + (" in the middle of a frame" if self._partial else "")
            if wrong := self._take(_scratch[:size], frames):
                return wrong
            # A read that does not fill the buffer has emptied the socket: another would be in vain, and what
            # has come since is told of in the next turn.
            if size < _SCRATCH_SIZE or not self.open:
                return ""
        return ""

    def _take(self, new: memoryview, frames: list[bytes]) -> str:
        """Collect what has come, through TLS if there is one. Why it is the last, or ""."""
        tls = self._tls
        if tls is None:
            return self._split(new, frames)
        plain, wrong = tls.received(new)
        self._answer(tls)
        if tls.proved and not wrong and self._on_proved is not None:
            on_proved, self._on_proved = self._on_proved, None
            on_proved()
        return (self._split(plain, frames) if self.open else "") or wrong

    def _split(self, new: memoryview, frames: list[bytes]) -> str:
        """Take complete frames out of the partial one and `new`; keep the rest."""
        before = len(frames)
        # the usual case: frames are cut out of what was read, and nothing else is copied
        if not self._partial:
            rest, wrong = _cut(new, self.max_frame, frames, self._first)
            self._partial += rest
        else:
            self._partial += new
            with memoryview(self._partial) as joined:
                rest, wrong = _cut(joined, self.max_frame, frames, self._first)
                taken = len(joined) - len(rest)
                rest.release()  # or the bytearray could not shrink
            del self._partial[:taken]
        if len(frames) > before:
            self._first = 0
        return wrong

    def _counted(self) -> str:
        """Bring the budget up to date. Why this connection must end, or ""."""
        if self._budget is None or not self.open:
            return ""
        now = len(self._partial) + self._unsent_size
        if now != self._held and not self._budget.change(now - self._held):
            return (
                "it and those beside it hold too much: "
                f"it alone {now} bytes of frames that are not whole or not read"
            )
        self._held = now
        return ""

    def _let_go(self) -> None:
        if self._budget is not None:
            self._budget.change(-self._held)
            self._budget = None

    # --- writing --------------------------------------------------------------------------------------------

    def _answer(self, tls: TlsStream) -> None:
        """Send what TLS itself has to say: its handshake, or why it ends."""
        if self.open and (own := tls.to_send()):
            self._put([own])

    def _put(self, parts: list[bytes]) -> None:
        """Write what the kernel takes, and buffer the rest."""
        # Behind what waits: written now it would overtake it.
        if self._unsent:
            self._buffer(_rest(parts, 0))
            return
        try:
            sent = self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except BrokenPipeError:
            return  # (!) what the peer has said before it closed is not read yet: whoever reads finds the end behind it
        except OSError as error:
            self._end(f"cannot send: {error}")
            return
        if rest := _rest(parts, sent):
            self._buffer(rest)
            if self.open:
                self._reactor.watch(self._socket.fileno(), readable=self._readable, writable=self._writable)

    def _buffer(self, views: list[memoryview]) -> None:
        self._unsent.extend(views)
        self._unsent_size += sum(map(len, views))
        if self._unsent_size > self._max_unsent:
            self._end(
                f"the peer does not read: {self._unsent_size} bytes are unsent, more than {self._max_unsent}"
            )
        elif wrong := self._counted():
            self._end(wrong)

    def _writable(self) -> None:
        try:
            sent = self._socket.sendmsg(list(islice(self._unsent, _VIEWS_A_WRITE)))
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = self._unsent_size  # as in `_put`
        except OSError as error:
            self._end(f"cannot send: {error}")
            return
        self._unsent_size -= sent
        while sent:
            first = self._unsent.popleft()
            if sent < len(first):
                self._unsent.appendleft(first[sent:])
            sent -= min(sent, len(first))
        self._counted()  # fewer than before
        if not self._unsent:
            self._reactor.watch(self._socket.fileno(), readable=self._readable)

    # --- the end --------------------------------------------------------------------------------------------

    def _end(self, reason: str) -> None:
        self._shut()
        # In a later turn, since the owner may be in the middle of `send`; and looked up only then, so that a
        # `close` until then silences it.
        self._reactor.soon(lambda: self._on_closed(reason))

    def _shut(self) -> None:
        if self.open:
            self.open = False
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._unsent.clear()
            self._partial.clear()
            self._let_go()


def tune(sock: socket.socket) -> None:
    """Non-blocking, at once, and dead peers are noticed by the kernel in seconds instead of hours."""
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
        # Linux does not probe while something sent is unacknowledged: then this bound counts. For probes it
        # stands in for their number, which need not be set.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_SECONDS * 1000)


def _cut(data: memoryview, max_frame: int, frames: list[bytes], first: int) -> tuple[memoryview, str]:
    """Append the complete frames of `data`; the rest of it, and what is wrong with the rest."""
    start, end, most = 0, len(data), first or max_frame
    while end - start >= HEADER:
        size = LENGTH.unpack_from(data, start)[0]
        if size > most:
            return data[end:], f"a frame of {size} bytes, more than the limit of {most}"
        if start + HEADER + size > end:
            break
        # A copy: what it is cut from is gone with the next read.
        frames.append(bytes(data[start + HEADER : start + HEADER + size]))
        start += HEADER + size
        most = max_frame
    return data[start:], ""


def _rest(parts: list[bytes], sent: int) -> list[memoryview]:
    """`parts` without their first `sent` bytes."""
    rest = []
    for part in parts:
        if sent < len(part):
            rest.append(memoryview(part)[sent:])
        sent = max(0, sent - len(part))
    return rest
