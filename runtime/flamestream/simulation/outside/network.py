"""Links between workers: in order within a connection, lossy and breakable as the faults say.

A connection of two workers exists under one fence. Frames sent before the other side has linked under that
fence wait (bounded by what a worker sends before it hears from anyone); frames to a side that has moved on or
died are lost, and the sender is told after a while, as a TCP connection would tell it. A partition holds
frames back and at its end either delivers them or breaks the link.

Does not: look into frames, except that a random tenth of the runs encodes and decodes each of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from flamestream.core.protocol.events import Event, FromPeer, LinkBroken
from flamestream.core.protocol.messages import Frame
from flamestream.model.ids import NO_FENCE, Fence, WorkerId
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

MAX_WAITING = 10_000
"""Frames that may wait for a peer that has not linked yet (invariant 8)."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


@dataclass(slots=True)
class Endpoint:
    """A worker process as the network sees it."""

    worker: WorkerId
    post: Callable[[Event], None]
    fence: Fence = NO_FENCE
    peers: frozenset[WorkerId] = frozenset()
    vocabulary: str = ""
    """Which messages it knows, as it has said under this fence."""
    alive: bool = True


@dataclass(slots=True)
class Direction:
    """A connection's one way."""

    arrives: int = 0
    """When the newest frame arrives: the next may not overtake it."""
    waiting: list[Frame] = field(default_factory=list)
    broken: bool = False


class Network:
    """All links between workers."""

    def __init__(self, world: World, delay: int, encode: bool) -> None:
        self._world = world
        self._delay = delay
        self._encode = encode
        self._ends: dict[WorkerId, Endpoint] = {}
        self._ways: dict[tuple[Fence, WorkerId, WorkerId], Direction] = {}
        self._silent: dict[tuple[WorkerId, WorkerId], int] = {}
        self._is_far: Callable[[WorkerId], bool] = lambda worker: False
        self._split_until = 0

    def join(self, worker: WorkerId, post: Callable[[Event], None]) -> None:
        """A worker process listens."""
        self._ends[worker] = Endpoint(worker, post)

    def leave(self, worker: WorkerId) -> None:
        """A worker process is gone: its peers notice, each in its own time."""
        end = self._ends[worker]
        end.alive = False
        # Sorted wherever a set is walked: its own order is that of Python's hash seed (invariant 10).
        for peer in sorted(end.peers):
            self._break(end.fence, peer, worker, "connection reset")

    def link(
        self, worker: WorkerId, fence: Fence, peers: Mapping[WorkerId, str], vocabulary: str = ""
    ) -> None:
        """Close all older links of `worker`; from now on it talks to `peers` under `fence`."""
        end = self._ends[worker]
        for peer in sorted(end.peers):
            self._break(end.fence, peer, worker, "closed by peer")
        end.fence, end.peers, end.vocabulary = fence, frozenset(peers) - {worker}, vocabulary
        for peer in sorted(end.peers):
            self._meet(fence, worker, peer)

    def send(self, sender: WorkerId, peer: WorkerId, frame: Frame) -> None:
        """Send in order. Nothing is said about its arrival."""
        end, other = self._ends[sender], self._ends.get(peer)
        # What an older attempt still says goes nowhere: `link` has closed its connections.
        if not end.alive or frame.fence != end.fence or peer not in end.peers:
            return
        way = self._way(end.fence, sender, peer)
        if way.broken:
            return
        if other is None or not other.alive or other.fence > end.fence:
            self._break(end.fence, sender, peer, "connection refused")
        elif other.fence < end.fence:
            way.waiting.append(frame)  # the peer has not heard of this attempt yet
            self._world.require(
                len(way.waiting) <= MAX_WAITING,
                "8 bounds",
                f"{len(way.waiting)} frames wait for {peer} to link",
            )
        else:
            self._carry(way, sender, peer, frame)

    def break_random(self) -> None:
        """Break one live link."""
        links = [(end.worker, peer) for end in self._living() for peer in sorted(end.peers)]
        if links:
            self._world.faults.happened(Fault.LINK_BREAK)
            sender, peer = self._world.rng.choice(links)
            self._break(self._ends[sender].fence, sender, peer, "broken")
            self._break(self._ends[sender].fence, peer, sender, "broken")

    def partition_random(self, one_way: bool, lasts: int) -> None:
        """Silence between two live workers; at its end what was sent arrives, or the link is found broken."""
        links = [(end.worker, peer) for end in self._living() for peer in sorted(end.peers)]
        if not links:
            return
        sender, peer = self._world.rng.choice(links)
        self._world.faults.happened(Fault.PARTITION_ONE_WAY if one_way else Fault.PARTITION)
        for pair in [(sender, peer)] if one_way else [(sender, peer), (peer, sender)]:
            self._silent[pair] = self._world.now + lasts
        if self._world.rng.random() < 0.5:
            fence = self._ends[sender].fence
            self._world.after(lasts, self._break, fence, sender, peer, "timed out")
            self._world.after(lasts, self._break, fence, peer, sender, "timed out")

    def split(self, is_far: Callable[[WorkerId], bool], lasts: int) -> None:
        """Silence between the far workers and the others, also those whose lives begin meanwhile. At its end
        what was sent arrives, or the links are found broken."""
        self._is_far, self._split_until = is_far, self._world.now + lasts
        if self._world.rng.random() < 0.5:
            for sender, peer in [(end.worker, peer) for end in self._living() for peer in sorted(end.peers)]:
                if is_far(sender) != is_far(peer):
                    self._world.after(lasts, self._break, self._ends[sender].fence, sender, peer, "timed out")

    def heal(self) -> None:
        """No more silence."""
        self._silent.clear()
        self._split_until = 0

    # --- inside ---------------------------------------------------------------------------------------------

    def _living(self) -> list[Endpoint]:
        return [end for _, end in sorted(self._ends.items()) if end.alive and end.peers]

    def _way(self, fence: Fence, sender: WorkerId, peer: WorkerId) -> Direction:
        key = (fence, sender, peer)
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = Direction()
        return way

    def _meet(self, fence: Fence, worker: WorkerId, peer: WorkerId) -> None:
        """Both sides have linked: what the peer sent already is on its way; or the peer is elsewhere, and
        that shows."""
        other = self._ends.get(peer)
        if other is not None and other.alive and other.fence == fence:
            mine = self._ends[worker].vocabulary
            self._world.require(
                mine == other.vocabulary,
                "15 releases",
                f"{worker} knows the messages {mine!r}, {peer} {other.vocabulary!r}",
            )
            way = self._way(fence, peer, worker)
            waiting, way.waiting = way.waiting, []
            for frame in waiting:
                self._carry(way, peer, worker, frame)
        elif other is None or not other.alive or other.fence > fence:
            self._break(fence, worker, peer, "connection refused")

    def _carry(self, way: Direction, sender: WorkerId, peer: WorkerId, frame: Frame) -> None:
        world = self._world
        if world.hits(Fault.FRAME_LOSS):
            return
        frame = _decoder.decode(_encoder.encode(frame)) if self._encode else frame
        delay = world.between(self._delay // 2, self._delay * 2)
        if world.hits(Fault.FRAME_DELAY):
            delay *= world.faults.late
        silent_until = self._silent.get((sender, peer), 0)
        if self._world.now < self._split_until and self._is_far(sender) != self._is_far(peer):
            silent_until = max(silent_until, self._split_until)
        way.arrives = max(way.arrives, world.now + delay, silent_until)
        world.after(way.arrives - world.now, self._arrive, way, sender, peer, frame)
        if world.hits(Fault.FRAME_DUPLICATE):
            # It takes no place in the order, and may come behind later frames.
            again = way.arrives - world.now + world.between(0, 4 * self._delay)
            world.after(again, self._arrive, way, sender, peer, frame)

    def _arrive(self, way: Direction, sender: WorkerId, peer: WorkerId, frame: Frame) -> None:
        end = self._ends[peer]
        if end.alive and end.fence == frame.fence and not way.broken:
            end.post(FromPeer(sender, frame))

    def _break(self, fence: Fence, told: WorkerId, peer: WorkerId, reason: str) -> None:
        """The link is gone in both directions; `told` hears of it after a while."""
        for way in (self._way(fence, told, peer), self._way(fence, peer, told)):
            way.broken = True
            way.waiting.clear()
        self._world.after(
            self._world.between(self._delay, 10 * self._delay), self._tell, fence, told, peer, reason
        )

    def _tell(self, fence: Fence, told: WorkerId, peer: WorkerId, reason: str) -> None:
        end = self._ends.get(told)
        if end is not None and end.alive and end.fence == fence:
            end.post(LinkBroken(fence, peer, reason))
