"""Links: frames between the workers of one attempt, over TCP.

Of each pair the lexicographically smaller WorkerId dials, so there is one connection a pair. Both prove the
attempt's key (handshake.py) for this job, fence and both names, and speak TLS from then on. A dialler may
know the attempt before the acceptor does: its greeting is held until this worker hears of the attempt too, or
the handshake's deadline passes and it dials again. Frames sent before a link is up wait in it. A link that is
not up `link_seconds` after LinkPeers, ends, stalls or brings a malformed frame is broken, once, for good:
only a new attempt brings a new one, because a frame may be lost.

Keeps: FromPeer in the sender's order; nothing of an older fence, another job, or an unproved peer reaches the
worker's core (invariant 6); queues bounded in bytes, each and together. Does not: check a frame's meaning, or
repeat a frame.

The first frame each way is the sender's vocabulary. Workers of two releases end their link there, with words that say
so: the coordinator chooses workers of one, but may be of a release that does not know of this.
"""

import socket
from dataclasses import dataclass, field
from typing import Final

import msgspec

from flamestream.core.protocol.actions import LinkPeers, ToPeer
from flamestream.core.protocol.events import FromPeer, LinkBroken
from flamestream.core.protocol.messages import Frame
from flamestream.core.protocol.vocabulary import vocabulary
from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.model.errors import Bug, PayloadError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, WorkerId
from flamestream.net.acceptor import Acceptor
from flamestream.net.dial import Dial
from flamestream.net.framing import Budget, FrameConnection
from flamestream.net.handshake import Accepted, Limits, Purpose
from flamestream.net.tls import LinkKey
from flamestream.ports import Post, Reactor

PROTOCOL: Final = "flamestream-link/3"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(Frame)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds of all links of a worker."""

    limits: Limits = field(default_factory=lambda: Limits(max_frame=64 << 20, max_unsent=256 << 20))
    link_seconds: float = 10.0
    """Seconds from LinkPeers until every link must be up."""
    max_held: int = 1 << 30
    """Bytes held for all links together: frames that are not whole, and what is not read."""


class TcpLinks:
    """`ports.Links` of one worker."""

    def __init__(
        self,
        reactor: Reactor,
        post: Post,
        listener: socket.socket,
        job: str,
        me: WorkerId,
        settings: LinkSettings | None = None,
    ) -> None:
        self._reactor, self._post, self._job, self._me = reactor, post, job, me
        self._settings = settings or LinkSettings()
        self._fence = NO_FENCE
        # Nobody is welcomed with this one: before the first LinkPeers there is no link, so whoever greets
        # waits or is refused.
        self._key = LinkKey(b"")
        self._links: dict[WorkerId, _Link] = {}
        self._held = Budget(self._settings.max_held)
        self.acceptor = Acceptor(reactor, listener, self._greeted, self._settings.limits)

    def link(self, action: LinkPeers) -> None:
        """Close every link of older fences and begin those of this one."""
        self._close_links()
        self._fence, self._key = action.fence, LinkKey(action.key.encode())
        for peer, address in action.addresses.items():
            if peer != self._me:
                self._links[peer] = self._begin(peer, address)
        # Who heard of this fence sooner has dialled already, and waits for us.
        for handshake in self.acceptor.unproved:
            if handshake.greeted:
                self._greeted(handshake)

    def send(self, action: ToPeer) -> None:
        """Send, or queue until the link is up. A frame of another fence than the current one has no link, and
        goes nowhere."""
        if action.frame.fence != self._fence:
            return
        link = self._links.get(action.peer)
        if link is None:
            raise Bug(
                f"worker {self._me} has no link to {action.peer} under {self._fence}: "
                "it is not in that layout"
            )
        encoded = _encode(action.frame)
        if len(encoded) > self._settings.limits.max_frame:
            raise PayloadError(
                f"one pass of worker {self._me} has {len(encoded)} bytes for worker {action.peer}, "
                "more than a frame's"
                f" {self._settings.limits.max_frame}: split the payloads, or send a reference to large ones"
            )
        link.send(encoded)

    def close(self) -> None:
        """End every link and listen no more."""
        self._close_links()
        self.acceptor.close()

    def _close_links(self) -> None:
        for link in self._links.values():
            link.close()
        self._links = {}

    def _begin(self, peer: WorkerId, address: str) -> "_Link":
        link = _Link(self._reactor, self._post, self._fence, peer, (self._settings, self._held))
        if self._me < peer:
            link.dial(address, self._purpose(self._me, peer), self._key)
        return link

    def _greeted(self, handshake: Accepted) -> None:
        """Judge a greeting. Called again for those that came before this worker knew of their fence."""
        purpose = handshake.purpose
        fence = Fence(Attempt(purpose.attempt), LayoutVersion(purpose.layout))
        peer = WorkerId(purpose.dialler)
        if (purpose.job, purpose.acceptor) != (self._job, self._me):
            handshake.refuse("it does not look for this worker")
        elif purpose.protocol != PROTOCOL:
            handshake.refuse(f"{peer} is of another release: it speaks {purpose.protocol}, not {PROTOCOL}")
        elif fence > self._fence:
            return  # held until LinkPeers comes, or the deadline of the handshake
        elif fence < self._fence:
            handshake.refuse("it belongs to an older attempt")
        # Only the smaller name dials, and once: frames of a second connection could overtake those of the
        # first (!).
        elif (link := self._links.get(peer)) is None or peer > self._me or not link.waiting:
            handshake.refuse("no link is open for it")
        else:
            handshake.welcome(self._key, lambda connection: self._established(handshake, link, connection))

    def _established(self, handshake: Accepted, link: "_Link", connection: FrameConnection) -> None:
        self.acceptor.proved(handshake)
        if link.waiting:
            link.up(connection)
        else:  # a second connection of the same peer, or the fence has moved on meanwhile
            connection.close()

    def _purpose(self, dialler: WorkerId, acceptor: WorkerId) -> Purpose:
        return Purpose(PROTOCOL, self._job, self._fence.attempt, self._fence.layout, dialler, acceptor)


class _Link:
    """The link to one peer under one fence: waiting, then up, then over."""

    def __init__(
        self, reactor: Reactor, post: Post, fence: Fence, peer: WorkerId, bounds: tuple[LinkSettings, Budget]
    ) -> None:
        self._reactor, self._post, self._fence, self._peer = reactor, post, fence, peer
        self._settings, self._held = bounds
        self._queue: list[bytes] = []
        self._queued = 0
        self._connection: FrameConnection | None = None
        self._dial: Dial | None = None
        self._over = False
        self._understood = False
        """Whether the peer has said that it knows the same messages."""
        self._deadline = reactor.later(self._settings.link_seconds, self._late)

    @property
    def waiting(self) -> bool:
        return self._connection is None and not self._over

    def dial(self, address: str, purpose: Purpose, key: LinkKey) -> None:
        self._dial = Dial(self._reactor, address, (purpose, key), self.up, self._settings.limits)

    def up(self, connection: FrameConnection) -> None:
        """Take over a proved connection and send what has waited."""
        self._deadline.cancel()
        self._connection = connection
        connection.handle(self._received, self.break_off, self._settings.limits.max_frame, budget=self._held)
        queue, self._queue, self._queued = self._queue, [], 0
        for frame in (vocabulary().encode(), *queue):
            connection.send(frame)

    def send(self, frame: bytes) -> None:
        if self._connection is not None:
            self._connection.send(frame)
        elif not self._over:
            self._queue.append(frame)
            self._queued += len(frame)
            if self._queued > self._settings.limits.max_unsent:
                self.break_off(
                    f"{self._queued} bytes wait for the link, more than {self._settings.limits.max_unsent}"
                )

    def close(self) -> None:
        """End the link; nobody is told."""
        self._over = True
        self._deadline.cancel()
        self._queue = []
        if self._dial is not None:
            self._dial.cancel()
        if self._connection is not None:
            self._connection.close()

    def break_off(self, reason: str) -> None:
        """End the link and tell the core, once."""
        if not self._over:
            self.close()
            # In a later turn: `send` may have led here, and a port posts nothing from within a call.
            self._reactor.soon(lambda: self._post(LinkBroken(self._fence, self._peer, reason)))

    def _late(self) -> None:
        dial = self._dial
        tried = (
            f"dialled {dial.failures} times in vain, the last time: {dial.last_failure}"
            if dial
            else "it did not dial"
        )
        self.break_off(f"no link within {self._settings.link_seconds} s ({tried})")

    def _received(self, frames: list[bytes]) -> None:
        if not self._understood and frames:
            theirs, *frames = frames
            if theirs != vocabulary().encode():
                self.break_off(_of_another_release(self._peer, theirs))
                return
            self._understood = True
        try:
            for frame in frames:
                self._post(FromPeer(self._peer, _decode(frame)))
        except DecodeError as error:
            self.break_off(f"a malformed frame: {error}")


def _of_another_release(peer: WorkerId, theirs: bytes) -> str:
    return (
        f"{peer} is of another release of FlameStream: its messages are {theirs[:32]!r}, here they are "
        f"{vocabulary()!r}. The next attempt begins once the job's workers are of one release; if they stay of two, "
        "give all pods of the job the same image"
    )
