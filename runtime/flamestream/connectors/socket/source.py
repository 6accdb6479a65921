"""A source over TCP: the worker dials a producer of the user's, by the contract
docs/reference/wire-protocol.md.

The worker dials, not the producer, because the front's worker changes: after a failure another worker dials
the same address, says from which record on it needs them, and the producer sends again from there. Records
that were had already are dropped, so each enters the journal once; a missing number fails the source. The
producer learns which records are in the journal and may forget those.

Without credit the socket is not read, so the kernel's buffers fill and the producer waits. Read but not yet
given is at most what one turn of the loop reads.

Keeps: records leave in the order of their numbers, without gap or repeat. Does not: read again what was
journalled (the payloads are in the journal), or prove to the producer who dials (keep the port inside a
trusted network).
"""

import socket
from collections import deque
from typing import Final

import msgspec

from flamestream.connectors.kit.credit import THE_PARTITION, CreditProducer
from flamestream.connectors.kit.producer import MAX_RECORD, error_item
from flamestream.core.protocol.actions import Follow, ReadRun
from flamestream.core.protocol.events import SourceFailed
from flamestream.model.errors import Bug
from flamestream.model.ids import Offset
from flamestream.model.time import FrontId, Time
from flamestream.net.dial import Dialer
from flamestream.net.framing import FrameConnection
from flamestream.ports import Post, Reactor, Timer

PROTOCOL: Final = 1
OFFSET_BYTES: Final = 8
MAX_UNSENT: Final = 1 << 20
TELL_AGAIN_SECONDS: Final = 0.05

_json: Final = msgspec.json.Encoder().encode


class PausableConnection(FrameConnection):
    """A connection that can be left unread."""

    def pause(self) -> None:
        """Read nothing until `resume`. What waits to be sent waits too."""
        if self.open:
            self._reactor.unwatch(self._socket.fileno())

    def resume(self) -> None:
        """Read on."""
        if self.open:
            self._reactor.watch(
                self._socket.fileno(),
                readable=self._readable,
                writable=self._writable if self._unsent else None,
            )

    @property
    def waits(self) -> bool:
        """Whether the peer has not taken everything that was sent."""
        return bool(self._unsent)


class SocketProducer(CreditProducer):
    """`ports.Producer`."""

    def __init__(
        self,
        address: tuple[str, int],
        as_bytes: bool,
        source: str,
        job: str,
        front: FrontId,
        post: Post,
        reactor: Reactor,
    ) -> None:
        super().__init__(front, post, reactor)
        self._where = f"source {source}: the producer at {address[0]}:{address[1]}"
        self._decode = bytes if as_bytes else self._text
        self._source, self._job = source, job
        self._dialer = Dialer(reactor, address, self._connected)
        self._connection: PausableConnection | None = None
        self._buffer: deque[tuple[object, int]] = deque()
        self._given = 0
        """The number of the buffer's first record."""
        self._expected = 0
        self._durable = 0
        """Records below are in the journal; without one, in a committed snapshot."""
        self._telling: Timer | None = None
        self._at_end = False
        self._paused = False

    @property
    def problem(self) -> str:
        """Why there is no connection; "" if there is one."""
        return self._dialer.problem

    def read(self, action: ReadRun) -> None:
        raise Bug(f"{self._where} cannot be read again; the journal has the payloads of {action.entry}")

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._hang_up()
            self._given = self._expected = action.offsets.get(THE_PARTITION, Offset(0))
            # (!) What was skipped may be asked for yet: the next attempt goes on below it if nobody knows of
            # that.
            saved = action.offsets if action.saved is None else action.saved
            self._durable = saved.get(THE_PARTITION, Offset(0))
            self._following = True
            self._dialer.dial()

    def durable(self, time: Time, partition: str, upto: int) -> None:
        self._durable = max(self._durable, upto)
        self._tell_durable()

    def close(self) -> None:
        self._hang_up()

    def _forget(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        self._following = self._at_end = self._paused = False
        self._buffer.clear()
        self._dialer.cancel()
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _tell_durable(self) -> None:
        """Tell the producer the durable number, now or once it has taken what was sent before: a slow one
        gets fewer and newer numbers."""
        if self._connection is None:
            return  # the next connection begins with it
        if not self._connection.waits:
            self._connection.send(_json({"durable": {THE_PARTITION: self._durable}}))
        elif self._telling is None:
            self._telling = self._reactor.later(TELL_AGAIN_SECONDS, self._tell_again)

    def _tell_again(self) -> None:
        self._telling = None
        self._tell_durable()

    # --- the connection -------------------------------------------------------------------------------------

    def _connected(self, sock: socket.socket) -> None:
        self._paused = False
        self._connection = PausableConnection(
            self._reactor, sock, OFFSET_BYTES + MAX_RECORD, self._frames, self._closed, max_unsent=MAX_UNSENT
        )
        hello = {
            "flamestream": PROTOCOL,
            "job": self._job,
            "source": self._source,
            "attempt": self._fence.attempt,
            "next": {THE_PARTITION: self._expected},
        }
        self._connection.send(_json(hello))
        self._tell_durable()

    def _closed(self, reason: str) -> None:
        """The producer is away: what was received stays, the rest is asked for again."""
        self._connection = None
        if not self._following or self._at_end:
            return
        # framing.py's words for a frame that is too long: dialled again, the same one would come.
        if "more than the limit" in reason:
            self._fail(f"sent {reason}: cut the record, or is it no FlameStream producer?")
        else:
            self._dialer.broken(reason)

    def _frames(self, frames: list[bytes]) -> None:
        if not self._following:
            return
        self._dialer.proved()
        expected, decode, buffer = self._expected, self._decode, self._buffer
        for frame in frames:
            if len(frame) < OFFSET_BYTES:
                self._short(frame)
                break
            offset = int.from_bytes(frame[:OFFSET_BYTES], "big")
            # A lower number was had already: the producer sends again from where the last connection was sure
            # of.
            if offset == expected:
                # Counted before it is decoded: `_text` names the record that it cannot read by that.
                self._expected = expected = expected + 1
                buffer.append((decode(frame[OFFSET_BYTES:]), len(frame)))
            elif offset > expected:
                self._fail(
                    f"sent record {offset} where {expected} was next: "
                    f"records {expected} to {offset - 1} are missing"
                )
                break
        self._turn()

    def _short(self, frame: bytes) -> None:
        if frame:
            self._fail(
                f"sent a frame of {len(frame)} bytes: a record has 8 bytes of number and its payload, "
                "the end has none"
            )
        else:
            self._at_end = True

    def _text(self, data: bytes) -> object:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            message = (
                f"record {self._expected - 1}, "
                f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8: {error.reason}"
            )
            return error_item(self._source, "UnicodeDecodeError", message)

    def _fail(self, what: str) -> None:
        fence = self._fence
        self._hang_up()
        self._reactor.soon(
            lambda: self._post(SourceFailed(fence, self._front, "user", f"{self._where} {what}"))
        )

    # --- giving ---------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Post what the credit allows, as one event, and read on if there is credit left."""
        if not self._following:
            return
        payloads: list[object] = []
        size, buffer = 0, self._buffer
        while buffer and len(payloads) < self._records and size < self._size:
            payload, length = buffer.popleft()
            payloads.append(payload)
            size += length
        if payloads:
            self._post_records(THE_PARTITION, self._given, payloads, size)
            self._given += len(payloads)
        if self._at_end and not buffer:
            self._end()
        else:
            self._set_reading(bool(self._records > 0 and self._size > 0))

    def _set_reading(self, wanted: bool) -> None:
        if self._connection is not None and wanted == self._paused:
            self._paused = not wanted
            if wanted:
                self._connection.resume()
            else:
                self._connection.pause()
