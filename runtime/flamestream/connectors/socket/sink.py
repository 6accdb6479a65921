"""A sink over TCP: the worker dials a consumer of the user's and hands it bundles.
docs/reference/wire-protocol.md is the contract.

A broken connection is dialled again, the slots are opened again under the same fence, and a delivery without
an answer is sent again, byte for byte; the consumer acknowledges what it has already if it is equal. A
consumer that comes back with less than it had acknowledged has lost data, and that fails the sink.

Keeps: what is acknowledged was taken once; one call in flight. Does not: know what items are, or prove who it
is (keep the port inside a trusted network).
"""

import socket
from collections.abc import Callable
from typing import Final

from flamestream.connectors.socket.wire import (
    MAX_FRAME,
    PROTOCOL,
    AcknowledgedFrame,
    Answer,
    DeliverFrame,
    FailedFrame,
    FencedFrame,
    OpenedFrame,
    OpenFrame,
    decode_answer,
    encode,
)
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    LastBundle,
    SinkFailed,
    SinkFenced,
    SinkOpened,
)
from flamestream.loop.silence import Silence
from flamestream.model.decoding import DecodeError
from flamestream.model.ids import NO_FENCE, Fence, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.quoted import quoted
from flamestream.net.dial import Dialer
from flamestream.net.framing import FrameConnection
from flamestream.ports import Post, Reactor

MAX_UNSENT: Final = 2 * MAX_FRAME
SLOW_SECONDS: Final = 3.0
"""An answer that takes longer is told."""


class SocketConsumer:
    """`ports.Consumer`."""

    def __init__(
        self,
        address: tuple[str, int],
        sink: SinkName,
        writer: WorkerId,
        job: str,
        post: Post,
        reactor: Reactor,
    ) -> None:
        self._where = f"sink {sink}: the consumer at {address[0]}:{address[1]}"
        self._sink = sink
        self._writer = writer
        self._job = job
        self._post = post
        self._reactor = reactor
        self._dialer = Dialer(reactor, address, self._connected)
        self._connection: FrameConnection | None = None
        self._fence: Fence = NO_FENCE
        self._opening = b""
        """The open frame, sent first on every connection."""
        self._told_open = False
        self._ready = False
        """The consumer has answered the open frame on this connection."""
        self._in_flight: Deliver | None = None
        self._frame = b""
        self._acknowledged: dict[Slot, SequenceNumber] = {}
        self._silence = Silence(SLOW_SECONDS)

    @property
    def problem(self) -> str:
        """Why there is no connection, or that it brings no answer; "" if all is well."""
        silence = self._silence.problem
        return self._dialer.problem or (silence and f"{self._where} {silence}")

    def open(self, action: OpenSink) -> None:
        if action.fence < self._fence:
            return
        self._fence = action.fence
        self._told_open = False
        self._in_flight = None
        self._acknowledged = {}
        self._opening = encode(
            OpenFrame(PROTOCOL, action.fence, self._job, self._sink, self._writer, list(action.slots))
        )
        self._hang_up()
        self._dialer.dial()

    def deliver(self, action: Deliver) -> None:
        if action.fence != self._fence:
            return
        self._in_flight = action
        self._frame = encode(DeliverFrame(action.fence, action.number, list(action.bundles)))
        if len(self._frame) > MAX_FRAME:
            self._fail(
                "bug", f"would have to take a delivery of {len(self._frame)} bytes, more than {MAX_FRAME}"
            )
        # Else it leaves once the slots are open: `_opened` sends what is in flight.
        elif self._ready and self._connection is not None:
            self._ask(self._connection, self._frame)

    def close(self) -> None:
        self._hang_up()

    def _ask(self, connection: FrameConnection, frame: bytes) -> None:
        self._silence.begin()
        connection.send(frame)

    def _hang_up(self) -> None:
        self._ready = False
        self._silence.end()
        self._dialer.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- the connection -------------------------------------------------------------------------------------

    def _connected(self, sock: socket.socket) -> None:
        self._connection = FrameConnection(
            self._reactor, sock, MAX_FRAME, self._frames, self._closed, max_unsent=MAX_UNSENT
        )
        self._ask(self._connection, self._opening)

    def _closed(self, reason: str) -> None:
        self._connection = None
        self._ready = False
        self._silence.end()
        self._dialer.broken(reason)

    def _frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                answer: Answer = decode_answer(frame)
            except DecodeError as error:
                self._misunderstood(str(error))
                return
            if answer.fence == self._fence:
                self._answered(answer)

    def _misunderstood(self, error: str) -> None:
        """Who opened the sink once is a consumer whose bytes were damaged: asked again. Anybody else is
        somebody else."""
        if not self._told_open:
            self._fail("user", f"sent what is no answer ({error}): is it a FlameStream consumer?")
            return
        if self._connection is not None:
            self._connection.close()
        self._closed(f"the consumer is corrupt: it sent what is no answer ({error})")

    def _answered(self, answer: Answer) -> None:
        self._dialer.proved()
        self._silence.end()
        match answer:
            case AcknowledgedFrame(number=number):
                self._acknowledge(number)
            case OpenedFrame():
                self._opened(answer)
            case FencedFrame():
                self._hang_up()
                self._later(lambda: SinkFenced(answer.fence, self._sink))
            case FailedFrame(category=category, message=message):
                self._fail(category, f"says: {quoted(message)}")

    def _acknowledge(self, number: int) -> None:
        if self._in_flight is not None and self._in_flight.number == number:
            for bundle in self._in_flight.bundles:
                self._acknowledged[bundle.slot] = bundle.sequence
            self._in_flight, self._frame = None, b""
            self._post(BundlesAcknowledged(self._fence, self._sink, number))

    def _opened(self, answer: OpenedFrame) -> None:
        last = {slot: LastBundle(sequence, t_last, items) for slot, sequence, t_last, items in answer.last}
        for slot, sequence in self._acknowledged.items():
            had = last[slot].sequence if slot in last else 0
            # (!) A consumer that lost what it acknowledged would get a gap.
            if had < sequence:
                self._fail(
                    "corrupt",
                    f"has lost data: it acknowledged bundle {sequence} of slot {slot} and now has {had}",
                )
                return
        self._ready = True
        if not self._told_open:
            self._told_open = True
            self._acknowledged = {slot: bundle.sequence for slot, bundle in last.items()}
            self._post(SinkOpened(self._fence, self._sink, last))
        if self._in_flight is not None and self._connection is not None:
            self._ask(self._connection, self._frame)

    def _fail(self, category: str, what: str) -> None:
        fence = self._fence
        self._hang_up()
        self._later(lambda: SinkFailed(fence, self._sink, category, f"{self._where} {what}"))

    def _later(self, event: Callable[[], SinkFailed | SinkFenced]) -> None:
        # Not at once: `deliver` may have led here, and a port posts nothing from within a call.
        self._reactor.soon(lambda: self._post(event()))
