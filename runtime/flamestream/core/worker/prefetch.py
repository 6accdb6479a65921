"""Prefetch: what a worker has of the committed snapshot before it is given any slot of it, so that taking over
reads no more than what was committed since, and puts no more than that into its state.

    Warm     -> Prefetch, of the segments that are new; one is under way, and the newest word waits
    Prefetched -> its chains go into the state, a slice a pass
    Recover  -> of slots that are at hand `Load` reads rows of newer epochs alone

A job's commits are one line, no epoch number comes twice, and a key has one row an epoch: so whatever a commit
adds to the one before is in the segments that are new, in rows of newer epochs, and the rest of those (a merge
carries old rows along) is at hand.

Keeps: what is at hand is one committed snapshot, whole or all of some slots, and nothing touches it before a
recovery gives them to this worker; memory is bounded by that snapshot. Does not: fail. Segments that cannot be
read are read with the next commit; rows that cannot are not read again before a recovery, and that is told.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from flamestream.core.dataflow.parts import States
from flamestream.core.protocol import actions
from flamestream.core.protocol.actions import Action, Wake
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.events import Prefetched
from flamestream.core.protocol.messages import Warm
from flamestream.core.protocol.snapshot import SegmentRef, SnapshotIndex
from flamestream.core.protocol.stored_rows import Known, Numbers, states_of
from flamestream.model.errors import FlameStreamError
from flamestream.model.ids import Slot

NOTHING = -1
"""The newest epoch of what is at hand, if that is nothing."""


class Prefetch:
    """The prefetch of one worker. `mine` gives the slots that it has, whose state is not to be overwritten."""

    def __init__(
        self, states: Mapping[int, States], numbers: Numbers, mine: Callable[[], AbstractSet[Slot]]
    ) -> None:
        self._states, self._numbers, self._mine = states, numbers, mine
        self._wanted: tuple[SnapshotIndex, frozenset[Slot]] | None = None
        self._asked: SnapshotIndex | None = None
        """The snapshot whose segments are being read, or on their way into the state."""
        self._number = 0
        self.problem = ""
        """The reason why rows could not be read; "": none is known."""
        self._rest: Sequence[Chain] = ()
        self._place = 0
        self._forget()

    def _forget(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._newest = NOTHING
        self._slots: frozenset[Slot] = frozenset()
        """The slots whose state is at hand; none: all."""
        self._known: Known | None = None

    @property
    def warm(self) -> bool:
        """Whether a committed snapshot is at hand."""
        return bool(self._names)

    def want(self, message: Warm) -> list[Action]:
        """Have at hand what the message says."""
        if message.index is None:
            self._drop()
            return []
        if self.problem:  # the whole snapshot would be read in vain with each commit
            return []
        mine = self._mine()
        # (!) What is committed of a slot that this worker has is older than its state.
        slots = frozenset(message.slots) - mine
        if slots or not mine:
            self._wanted = message.index, slots
        return self._ask()

    def read(self, event: Prefetched) -> None:
        """An answer: its chains go into the state from now on."""
        if event.number != self._number or self._asked is None:
            return
        if event.chains:
            self._rest, self._place = event.chains, 0
        elif event.chains is None:
            self._asked = None
        else:
            self._done()

    def go_on(self, count: int) -> list[Action]:
        """Put some more chains into the state."""
        if not self._rest:
            return self._ask()
        self._put(count)
        return [Wake()]

    def taken(self, slots: AbstractSet[Slot], index: SnapshotIndex | None) -> int:
        """A recovery gives these slots to this worker, as they are in the snapshot of `index`. The newest epoch
        of what is in its state already; `NOTHING`: all has to be loaded, and what is there is to be dropped."""
        if self._rest:
            self._put(len(self._rest))
        self._wanted, self._asked, self.problem = None, None, ""
        if not slots or index is None or not self._covers(slots) or not self._goes_on(index):
            self._forget()
        self._slots = frozenset(slots)
        return self._newest

    def fresh(self, segments: Sequence[SegmentRef], slots: AbstractSet[Slot]) -> list[SegmentRef]:
        """Those segments with rows of `slots` of which not all is at hand."""
        return [
            each
            for each in segments
            if each.name not in self._names and (not slots or not slots.isdisjoint(each.slots))
        ]

    def loaded(self) -> None:
        """The recovery has its state: nothing is at hand any more that is not this worker's own."""
        if self._asked is None:
            self._forget()

    def _covers(self, slots: AbstractSet[Slot]) -> bool:
        # (!) A slot that was not asked for looks empty here.
        return self.warm and (not self._slots or slots <= self._slots)

    def _goes_on(self, index: SnapshotIndex) -> bool:
        """Whether what is at hand is of operations that a newer snapshot has."""
        # (!) One that went and came back meanwhile has none of the rows that are there.
        before, now = self._known, self._numbers.known(index).operations
        return before is None or all(
            vertex in now and (now[vertex].since, now[vertex].tables) == (each.since, each.tables)
            for vertex, each in before.operations.items()
        )

    def _ask(self) -> list[Action]:
        if self._asked is not None or self._wanted is None:
            return []
        (index, slots), self._wanted = self._wanted, None
        if slots != self._slots or not self._goes_on(index):
            self._drop()
        self._slots, self._known = slots, self._numbers.known(index)
        segments = self.fresh(index.segments, slots)
        self._number, self._asked = self._number + 1, index
        if not segments:
            self._done()
            return []
        of = sorted(slots) if slots else None
        return [actions.Prefetch(self._number, segments, of, self._newest)]

    def _put(self, count: int) -> None:
        some = self._rest[self._place : self._place + count]
        self._place += len(some)
        assert self._known is not None
        try:
            for vertex, its in states_of(some, self._known).items():
                self._states[vertex].load(its)
        except FlameStreamError as error:  # nobody needs it yet: a recovery that does fails of it
            self._drop()
            self.problem = f"committed state cannot be read ahead: {error}"
            return
        self._newest = max(self._newest, *(chain.epoch for chain in some))
        if self._place == len(self._rest):
            self._done()

    def _done(self) -> None:
        assert self._asked is not None
        self._names = frozenset(segment.name for segment in self._asked.segments)
        self._asked, self._rest = None, ()

    def _drop(self) -> None:
        """Forget all that is at hand, and what is being read."""
        self._wanted, self._asked, self._rest = None, None, ()
        if self._newest != NOTHING:
            for state in self._states.values():
                state.keep(self._mine())
        self._forget()
