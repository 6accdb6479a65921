"""Rejoin: a worker's side of a recovery.

    Recover  -> drop what is above the cut, open every slot of every sink,
                load the slots whose state is not at hand                             -> Opened
    Seal     -> seal the journals of my fronts; when they are sealed and everything
                is loaded                                                             -> Sealed
    Replay   -> run

A survivor keeps the slots it had, rolled back to the cut, if the cut is one of its live cuts; all other slots
are loaded from the index's segments. State above the cut must not survive (!), and frames of the new
attempt count only once everything is loaded.

Replay reaches each worker in its own time, late if its link or its coordinator is slow, and whoever has heard
it runs. So a worker that is ready must be whole (!): between `Sealed` and Replay there may come

    items, acks, promises   of peers that run: processed and counted as ever
    minimal time            moves only for a worker without fronts, whose promises nobody waits for: it
                            releases, and numbers bundles
    Cut                     behind that, or at the committed cut: it takes part in the epoch, which must wait
                            for what the last one held
    Committed, Abort        of that epoch
    acknowledgements        of held output, which is committed and leaves at once
    Question                the front remembers it, and answers when it begins
    Announce, Drain         from a coordinator that believes it running: the acker tells nothing and no front
                            reads before Replay
    Recover                 ends all of this

Keeps: `opened` comes after *all* sinks refuse older fences, and nothing is sealed before all workers said so
(the coordinator's part). Does not: touch journals or consumers (fronts.py, delivery.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import islice
from typing import Final

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.actions import Action, LinkPeers, Load, OpenSink
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.events import LastBundle
from flamestream.core.protocol.messages import Opened, Recover, Sealed, ToCoordinator
from flamestream.core.protocol.settings import WorkerSettings, numbered
from flamestream.core.protocol.snapshot import SlotOutput, SnapshotIndex
from flamestream.core.protocol.stored_rows import Known, Numbers, states_of
from flamestream.core.worker.prefetch import NOTHING, Prefetch
from flamestream.core.worker.sealing import Sealing
from flamestream.model.ids import Fence, SinkName, Slot, WorkerId
from flamestream.model.meta import LEAST
from flamestream.model.payloads.older import know
from flamestream.model.time import Time


class Phase(IntEnum):
    """The step that a recovery has come to."""

    IDLE = 0
    OPENING = 1
    OPENED = 2
    SEALING = 3
    READY = 4
    RUNNING = 5


class Rejoin:
    """The recoveries of one worker, one after another; the newest counts."""

    def __init__(
        self, me: WorkerId, settings: WorkerSettings, cuts: LiveCuts, states: Mapping[int, States],
        numbers: Numbers,
    ) -> None:  # fmt: skip
        self._me, self._numbers = me, numbers
        self._index: SnapshotIndex | None = None
        self._cuts = cuts
        self._states = states
        self._settings = settings
        self._phase = Phase.IDLE
        self._fence: Fence | None = None
        self._have: set[Slot] = set()
        """Slots whose state is complete at every live cut."""
        self._unopened: set[SinkName] = set()
        self._loading: set[Slot] = set()
        self._waits_for_load = False
        self._mine: frozenset[Slot] = frozenset()
        self._completing: Iterator[None] | None = None
        """Makes what loaded states must have beside what was stored."""
        self._held: list[Chain] = []
        self._requests: list[Chain] = []
        self._t_last = bytes(LEAST)
        self.prefetch: Final = Prefetch(states, numbers, lambda: self.mine)
        self._at_hand = NOTHING
        """The newest epoch whose rows were in the state when a recovery began."""

    @property
    def mine(self) -> set[Slot]:
        """The slots of this worker."""
        return self._have | self._loading

    @property
    def linked(self) -> bool:
        return self._phase is not Phase.IDLE

    @property
    def ready(self) -> bool:
        """Frames of this attempt count."""
        return self._phase >= Phase.READY

    @property
    def running(self) -> bool:
        return self._phase is Phase.RUNNING

    def begin(self, message: Recover, sinks: Sequence[SinkName]) -> list[Action]:
        """A new attempt: link the peers, open every slot of every sink, load what is not at hand."""
        fence, mine = message.assignment.fence, message.assignment.layout.slots_of(self._me)
        self._fence, self._phase, self._t_last = fence, Phase.OPENING, bytes(LEAST)
        self._completing = None
        self._keep(set(mine), message)
        others = {worker: address for worker, address in message.addresses.items() if worker != self._me}
        actions: list[Action] = [LinkPeers(fence, message.key, others), *self._loads(message, mine)]
        self._unopened = set(sinks)
        # Those too that this worker had (!): each slot must refuse its older fence, and say what it has got.
        return actions + [OpenSink(fence, sink, mine) for sink in sinks]

    def left_out(self) -> None:
        """A newer attempt has gone on without this worker, which has no slots now."""
        self._phase, self._have, self._loading, self._completing = Phase.IDLE, set(), set(), None
        for state in self._states.values():
            state.keep(())

    def _loads(self, message: Recover, mine: Sequence[Slot]) -> list[Action]:
        self._held, self._requests, self._mine, self._waits_for_load = [], [], frozenset(mine), False
        index = self._index = message.index
        if index is None:
            return []
        # Journals and consumers may give values of older shapes before any state is loaded, or where none is.
        know(self._numbers.known(index).classes)
        # survivors read it as well: what they held is forgotten with the attempt, and slots move
        held = [segment for segment in index.held if self._mine.intersection(segment.slots)]
        # (!) Requests are of the worker that has their front, whoever has their slot.
        owners = message.assignment.layout.fronts
        fronts = numbered(self._settings.fronts, message.sources)
        asks = any(owners[front.front] == self._me for front in fronts if front.of_call)
        requests = index.requests if asks else ()
        if not (self._loading or held or requests):
            return []
        self._waits_for_load = True
        segments = self.prefetch.fresh(index.segments, self._loading) if self._loading else []
        return [
            Load(message.assignment.fence, segments, sorted(self._loading), held, requests, self._at_hand)
        ]

    def _keep(self, mine: set[Slot], message: Recover) -> None:
        """Find out of which slots the state is at hand, and forget all other state."""
        # not at hand: what was trimmed past the cut cannot be made again, so all is loaded
        have = self._have & mine if self._cuts.holds(message.cut) else set()
        missing = mine - have
        self._at_hand = self.prefetch.taken(missing, message.index)
        self._roll_back(message.cut, have if self._at_hand == NOTHING else mine)
        # without an index nothing was ever committed: an empty slot is complete
        self._have, self._loading = (mine, set()) if message.index is None else (have, missing)

    def _roll_back(self, cut: Time, kept: set[Slot]) -> None:
        for state in self._states.values():
            state.keep(kept)
            state.go_back(cut)  # no state above the cut may survive (!)
        self._cuts.reset(cut)

    def opened(self, sink: SinkName, last: Mapping[Slot, LastBundle], newest: bytes) -> None:
        """A sink refuses older fences from now on."""
        self._unopened.discard(sink)
        # for the bound of new stamps (!)
        self._t_last = max([self._t_last, newest, *(bundle.t_last for bundle in last.values())])

    def loaded(
        self, chains: Sequence[Chain], held: Sequence[Chain] = (), requests: Sequence[Chain] = ()
    ) -> None:
        """The state of the slots that were not at hand. Raises Corrupt if rows are missing, and UserError for an index
        that cannot be made."""
        self.prefetch.loaded()  # also if what follows fails (!): newer rows stand behind those at hand but once
        known = self._numbers.known(self._index)
        for vertex, its in states_of(chains, known).items():
            self._states[vertex].load(its)
        self._completing = self._completed(known)
        self.go_on()
        self._held = self._numbers.for_sinks(chain for chain in held if chain.slot in self._mine)
        self._requests = self._numbers.for_sinks(requests)

    def go_on(self) -> bool:
        """Make some more of what the states must have. Whether it has all just now. Raises UserError for an index that
        cannot be made."""
        if self._completing is None:
            return False
        if sum(1 for _ in islice(self._completing, self._settings.slice_size)) == self._settings.slice_size:
            return False
        self._completing = None
        return True

    @property
    def completes(self) -> bool:
        """Whether there is more to make."""
        return self._completing is not None

    def _completed(self, known: Known) -> Iterator[None]:
        for vertex in known.operations:
            yield from self._states[vertex].complete(known.fresh_tables(vertex), self._loading)
        # only now: a recovery that comes before this loads them once more
        self._have |= self._loading
        self._loading, self._waits_for_load = set(), False

    def take_held(self) -> list[Chain]:
        """Output that the snapshot holds for slots of this worker. It is given once, for it may be great."""
        held, self._held = self._held, []
        return held

    def take_requests(self) -> list[Chain]:
        """All requests that the snapshot holds, if answers enter here."""
        requests, self._requests = self._requests, []
        return requests

    def seal(self) -> None:
        """All workers have opened their sinks."""
        if self._phase is Phase.OPENED:
            self._phase = Phase.SEALING

    def replay(self) -> bool:
        """All workers are ready. False if this one never said so."""
        if self._phase is not Phase.READY:
            return False
        self._phase = Phase.RUNNING
        return True

    def progress(self, outputs: list[SlotOutput], sealing: Sealing) -> list[ToCoordinator]:
        """Messages to the coordinator that have become true: each step is told once."""
        assert self._fence is not None
        told: list[ToCoordinator] = []
        if self._phase is Phase.OPENING and not self._unopened:
            self._phase = Phase.OPENED
            told.append(Opened(self._fence, self._t_last, outputs))
        # the load is awaited only here: it goes on while sinks are opened and journals sealed
        if self._phase is Phase.SEALING and sealing.done and not self._waits_for_load:
            self._phase = Phase.READY
            told.append(Sealed(self._fence, sealing.last, sealing.left))
        return told
