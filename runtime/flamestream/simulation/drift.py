"""A function that is not deterministic, and what the engine must say about it.

Its results carry a mark: how often what it depends on had changed when they were computed. So everything else
about them can still be compared with the reference, and it can be known which results a replay computes
differently.

Keeps: a slot whose last bundle has results that an attempt's replay computes differently gets nothing more in
that attempt: the replay is compared with what was delivered, and a difference ends the job with an error that
names the slot (invariant 2). Does not: change anything by itself (cluster.py strikes).
"""

from collections.abc import Sequence

from flamestream.model import payload as codec
from flamestream.model.ids import Attempt, Fence, SinkName, Slot
from flamestream.model.meta import floor
from flamestream.model.time import START, Time
from flamestream.simulation.world import World

Item = tuple[bytes, bytes]
"""(meta, encoded payload)."""


class Drift:
    """A value outside that a function depends on, and the function."""

    def __init__(self) -> None:
        self.changes = 0

    def marked(self, payload: tuple[str, str]) -> tuple[str, str]:
        """The function."""
        return payload[0], f"{payload[1]}#{self.changes}"


def plain(encoded: bytes) -> bytes:
    """A result without its mark."""
    key, value = codec.decode(encoded)
    return codec.encode((key, value.rpartition("#")[0]))


class DriftWatch:
    """Looks at every attempt and every bundle."""

    def __init__(self, world: World, drift: Drift) -> None:
        self._world = world
        self._drift = drift
        self._begun: dict[Attempt, tuple[Time, int]] = {}
        """The cut that an attempt replays from, and how often the function had changed before it began."""
        self._last: dict[tuple[SinkName, Slot], tuple[Fence, Sequence[Item]]] = {}

    def attempt_begins(self, attempt: Attempt, cut: Time) -> None:
        """Take note of an attempt that is in the job record: whatever it computes is computed from now on."""
        self._begun[attempt] = cut, self._drift.changes

    def lost(self, key: tuple[SinkName, Slot]) -> None:
        """A consumer has lost its last bundle: nobody can compare a replay with it."""
        self._last.pop(key, None)

    def taken(self, key: tuple[SinkName, Slot], fence: Fence, items: Sequence[Item]) -> None:
        """A consumer took new results: the attempt that sent them has compared the last ones before."""
        before, last = self._last.get(key, (fence, ()))
        if before.attempt < fence.attempt:
            cut, changes = self._begun.get(fence.attempt, (START, 0))
            marks = {
                meta: int(codec.decode(payload)[1].rpartition("#")[2])
                for meta, payload in last
                # below the cut nothing is computed again
                if meta >= floor(cut)
            }
            differ = [meta.hex() for meta, mark in marks.items() if mark < changes]
            accepted = (
                f"slot {key[1]} of {key[0]} goes on in {fence}, which has computed {differ} of its last "
                "bundle differently"
            )
            self._world.require(not differ, "2 prefix", accepted)
        self._last[key] = fence, items
