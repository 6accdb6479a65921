"""Outbox: what one pass sends. Items are gathered per receiver and cause, acks per cause, and each peer gets
one frame at the end.

A received message is acked once, after everything that follows from it on this worker was processed: the ack
is the XOR of its id and of the ids of all messages sent under the same cause in this pass, so the acker never
sees the cause done too early.

Keeps: acks before the promise that covers them, in one frame; one sequence a receiver, without gaps. Does
not: own a socket.
"""

from collections.abc import Sequence
from typing import NamedTuple

from flamestream.core.protocol.actions import ToPeer
from flamestream.core.protocol.ids import MessageIds
from flamestream.core.protocol.messages import Acks, Data, Frame, PeerMessage
from flamestream.model import payload as codec
from flamestream.model.ids import Fence, MessageId, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.meta import Meta
from flamestream.model.time import Time

MOST_ITEMS = 4096
"""In one message; more are several messages, so frames stay bounded."""


class _Columns:
    """A message being gathered."""

    __slots__ = ("metas", "payloads", "tombstones", "vertices")

    def __init__(self) -> None:
        self.vertices: list[int] = []
        self.metas: list[bytes] = []
        self.tombstones: list[bool] = []
        self.payloads: list[object] = []


class Gathered(NamedTuple):
    """The items of one message, gathered and encoded elsewhere."""

    vertices: list[int]
    metas: list[bytes]
    tombstones: list[bool]
    payloads: bytes


class Outbox:
    """The outbox of one worker in one attempt."""

    def __init__(self, fence: Fence, me: WorkerId, layout: Layout) -> None:
        self._fence = fence
        # the place in the layout, which all have alike: no two senders of an attempt share a number
        self._ids = MessageIds(fence.attempt, layout.workers.index(me))
        self._columns: dict[tuple[WorkerId, Time], _Columns] = {}
        self._acks: dict[Time, int] = {}
        self._messages: dict[WorkerId, list[PeerMessage]] = {}
        self._sequences: dict[WorkerId, int] = {}

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: object, tombstone: bool
    ) -> None:
        """An item for a vertex of another worker."""
        columns = self._columns.get((owner, cause))
        if columns is None:
            columns = self._columns[owner, cause] = _Columns()
        columns.vertices.append(vertex)
        columns.metas.append(meta)
        columns.tombstones.append(tombstone)
        columns.payloads.append(payload)
        if len(columns.metas) >= MOST_ITEMS:
            self._close(owner, cause, self._columns.pop((owner, cause)))

    def send_gathered(self, owner: WorkerId, cause: Time, items: Gathered) -> None:
        """A whole message for another worker."""
        message = self._ids.next()
        self._acks[cause] = self._acks.get(cause, 0) ^ message
        self.tell(owner, Data(cause, message, *items))

    def received(self, cause: Time, message: MessageId) -> None:
        """A message that this pass processes."""
        self._acks[cause] = self._acks.get(cause, 0) ^ message

    def tell(self, peer: WorkerId, message: PeerMessage) -> None:
        """A message behind everything told so far."""
        self._messages.setdefault(peer, []).append(message)

    def probe(self, peers: Sequence[WorkerId]) -> None:
        """Send each peer a frame, even an empty one: the loss of a last frame would show nowhere else."""
        for peer in peers:
            self._messages.setdefault(peer, [])

    def close(self) -> None:
        """Nothing is added to the data messages gathered so far."""
        # Closed early, they leave their ids in `_acks`: those leave behind this worker's own share, before
        # the promise that passes the run (!).
        for (owner, cause), columns in self._columns.items():
            self._close(owner, cause, columns)
        self._columns = {}

    def acks(self) -> Acks | None:
        """Close the data messages; what the acker must hear of them and of those received."""
        self.close()
        # zero: what was received and sent cancels out, and tells the acker nothing
        acks, self._acks = {cause: ids for cause, ids in self._acks.items() if ids}, {}
        return Acks(list(acks), list(acks.values())) if acks else None

    def frames(self) -> list[ToPeer]:
        """A frame for each peer that there is something for."""
        told, self._messages = self._messages, {}
        return [ToPeer(peer, self._frame(peer, messages)) for peer, messages in told.items()]

    def _close(self, owner: WorkerId, cause: Time, columns: _Columns) -> None:
        payloads = codec.encode_many(columns.payloads)
        self.send_gathered(
            owner, cause, Gathered(columns.vertices, columns.metas, columns.tombstones, payloads)
        )

    def _frame(self, peer: WorkerId, messages: list[PeerMessage]) -> Frame:
        # from 1 in each attempt, as the receiver's inbox is new then; older frames are told by their fence
        sequence = self._sequences[peer] = self._sequences.get(peer, 0) + 1
        return Frame(self._fence, sequence, messages)


class Inbox:
    """Which frame is next from each peer: a repeated one must not be processed (and acked) twice, a gap is a
    loss (!)."""

    def __init__(self) -> None:
        self._sequences: dict[WorkerId, int] = {}
        self.lost: set[WorkerId] = set()

    def admits(self, peer: WorkerId, sequence: int) -> bool:
        """Is this frame to be processed? After a gap nothing of the peer is, and the attempt has to end."""
        expected = self._sequences.get(peer, 0) + 1
        # For good: a promise behind a gap would count without the acks that are missing, and minimal time
        # would pass what is in flight (!).
        if sequence > expected:
            self.lost.add(peer)
        if sequence != expected or peer in self.lost:
            return False
        self._sequences[peer] = sequence
        return True
