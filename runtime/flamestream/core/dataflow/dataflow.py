"""Dataflow: one worker's copy of the graph; moves items from vertex to vertex.

Stateless vertices run where the item is. The input of a grouping, a reduce, a sink, or of any vertex with a
balancing function is routed: hash -> slot -> owner. What another worker owns goes into the outbox under the
current cause; what this one owns is processed at once. A cycle never recurses: what goes round waits in a
heap, and everything at hand is processed in the order of metas, so that speculation is rarely wrong.

Everything sent while processing a message inherits its cause, also a tombstone with an older or newer meta
(!).

Does not: say what a vertex does (operations.py); ack, stamp, release (worker.py).
Source: EDBT 2018, sections 2 and 3.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final, Protocol

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.grouping import Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.meter import Clock, Cost, Meter, OperationCount
from flamestream.core.dataflow.operations import Enter, Fail, Handle, Operations
from flamestream.core.dataflow.outbox import Gathered
from flamestream.core.dataflow.placing import Place
from flamestream.core.dataflow.reduce import Reduce
from flamestream.core.dataflow.stored import Reading
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.dataflow.tables.patience import Patience
from flamestream.core.dataflow.tables.transactions import Transactions
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.tables.ledger import Deciding
from flamestream.model.time import END, Time
from flamestream.model.vertex import Kind, Vertex
from flamestream.model.windows.process import Steps, late_among

Work = tuple[Meta, Time, int, Any, bool]
"""(meta, cause, vertex, payload, is it a tombstone): an item at this worker's door."""
_Round = tuple[Meta, int, Time, int, Any, bool]
"""(meta, number, cause, vertex, payload, is it a tombstone): an item that goes round a loop. Numbers keep
heap order total."""
NO_DOORS: Final[Mapping[int, Sequence[WorkerId]]] = {}
_IN_ORDER = itemgetter(0, 4)
"""The order of work: by meta, an item before its tombstone. A frame groups by cause, so a tombstone of an
older cause may stand before its item (!)."""


class Output(Protocol):
    """Where items leave the dataflow."""

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: Any, tombstone: bool
    ) -> None:
        """To another worker."""

    def send_gathered(self, owner: WorkerId, cause: Time, items: Gathered) -> None:
        """To another worker, several items at once."""

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        """With where the item at `meta` came from that failed in `vertex`, or at the door to it. The same for
        its tombstone."""

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        """An error item."""

    def late(self, meta: Meta, number: int, tombstone: bool) -> None:
        """So many items came too late for a program in event time, or with their tombstone not after all."""


class Dataflow(Operations):
    """The graph on one worker."""

    def __init__(
        self, graph: Graph, settings: WorkerSettings, me: WorkerId, cuts: LiveCuts, output: Output
    ) -> None:
        super().__init__(graph, settings.slots, settings.debug, output.located)
        self.states: dict[int, Grouping | Reduce | Transactions] = {}
        self.cause = Time(0)
        self.owners: Sequence[WorkerId] = [me] * settings.slots
        self._doors = NO_DOORS
        self._me = me
        self._cuts = cuts
        self._output = output
        self._patience = settings.patience, settings.judged
        self._meter: Meter | None = None
        self._ledger: tuple[Transactions, Enter] | None = None
        """The transactions of the graph, and where their results go."""
        self._barriers: Mapping[int, Barrier] = {}
        self._came: list[Work] = []
        self._waiting: list[Work] = []
        """This worker's share of new runs, put off by `share`."""
        self._others_first = False
        self._round: list[_Round] = []
        self._rounds = 0
        self._going: dict[tuple[Meta, int], list[_Round]] = {}
        self._annihilated: set[int] = set()
        # An error item that this door cannot place is held, as under `onError: fail`: given to the door
        # again, it would fail for ever.
        handle = self._metered(self.errors, self._sink(self.errors), votes=False)
        errors = self._place_of_errors(), handle, output.error
        self._dead_letter = (
            output.error if settings.dead_letter is None else self._routed(self.errors, *errors)
        )
        """Error items go to the slot of the sink that `dead_letter` names, or to whoever holds minimal
        time."""
        self._compile()
        self._handlers.append(self._at_door(*errors))
        # Compiled last first; rows and chores go by the graph's order, as the kernel's do (invariant 10).
        self.states = dict(sorted(self.states.items()))

    def reset(
        self,
        owners: Sequence[WorkerId],
        barriers: Mapping[int, Barrier],
        doors: Mapping[int, Sequence[WorkerId]] = NO_DOORS,
    ) -> None:
        """A new attempt: who owns each slot, and the barrier of each sink. `doors`: who owns it at some sinks
        instead. Whatever was on its way is forgotten."""
        self.owners, self._doors = owners, doors
        self._barriers = barriers
        self._round.clear()
        self._going.clear()
        self._annihilated.clear()
        self._came = []
        self._waiting = []

    def receive(self, message: Data) -> None:
        """Items of another worker join the next `run`."""
        payloads = codec.decode_many(message.payloads)
        columns = zip(message.metas, message.vertices, payloads, message.tombstones, strict=True)
        self._came += [
            (Meta(meta), message.cause, vertex, payload, gone) for meta, vertex, payload, gone in columns
        ]

    @property
    def has_work(self) -> bool:
        """Is there anything for `run` but new runs?"""
        return bool(self._came or self._waiting) or self.undecided < self._cuts.reached

    @property
    def undecided(self) -> Time:
        """The time of the lowest transaction that is put off, which minimal time must not pass (!). END: there is
        none."""
        return END if self._ledger is None else self._ledger[0].undecided

    @property
    def waits(self) -> bool:
        """Did `share` put anything off?"""
        return bool(self._waiting)

    def share(self, runs: list[Work]) -> bool:
        """Process new runs up to the doors of keyed vertices: what is others' there is sent, what is this
        worker's waits for `run`.

        True if anything waits.

        Only new runs: what comes from a keyed vertex may be followed by its tombstone, which must not
        overtake it (!).
        """
        self._others_first = True  # what is for other workers leaves before this one's share is begun
        try:
            self._process(runs)
        finally:
            self._others_first = False
        return self.waits

    def run(self, runs: list[Work]) -> None:
        """Process new runs, what arrived and what waits, and everything that follows on this worker, in the
        order of metas."""
        work, self._waiting, self._came = runs + self._waiting + self._came, [], []
        self._process(work)

    def _process(self, work: list[Work]) -> None:
        work.sort(key=_IN_ORDER)
        if self._ledger is not None:
            self._ledger[0].next_pass()
        around, handlers, meter = self._round, self._handlers, self._meter
        for meta, cause, vertex, payload, tombstone in work:
            while around and around[0][0] < meta:
                self._go_round()
            # (!) All that this item leads to is acked under its cause, also a tombstone of another time.
            self.cause = cause
            if meter is not None:
                meter.take_up(vertex)
            # Not `_enter`: its owner was looked up where it was sent or put off, and lasts for an attempt.
            handlers[vertex](meta, payload, tombstone)
        while around or self._look_again():
            while around:
                self._go_round()
        # every list in it is empty by now, but its keys would pile up
        self._going.clear()
        if meter is not None:
            meter.end()

    def _go_round(self) -> None:
        item = heappop(self._round)
        meta, number, cause, vertex, payload, tombstone = item
        if number in self._annihilated:
            self._annihilated.remove(number)
            return
        # numbers differ, so payloads, which need not compare, are never looked at
        self._going[meta, vertex].remove(item)
        self.cause = cause
        self._enter[vertex](meta, payload, tombstone)

    def _go(self, meta: Meta, vertex: int, payload: Any, tombstone: bool) -> None:
        """Begin a round. An item and its tombstone that both still wait annihilate, or each late item would
        double what goes round."""
        waiting = self._going.setdefault((meta, vertex), [])
        for other in waiting:
            if other[5] != tombstone and codec.encode(other[4]) == codec.encode(payload):
                waiting.remove(other)
                # it stays in the heap, out of whose middle nothing can be taken, and is passed over there
                self._annihilated.add(other[1])
                return
        self._rounds += 1
        item = (meta, self._rounds, self.cause, vertex, payload, tombstone)
        waiting.append(item)
        heappush(self._round, item)

    # --- doors ----------------------------------------------------------------------------------------------

    def _routed(self, vertex: int, place: Place, handle: Handle, fail: Fail) -> Enter:
        me, send = self._me, self._output.send

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key, tombstone)
            elif (owner := self._doors.get(vertex, self.owners)[slot]) != me:
                send(owner, self.cause, vertex, meta, payload, tombstone)
            elif self._others_first:
                self._waiting.append((meta, self.cause, vertex, payload, tombstone))
            else:
                handle(key, slot, meta, payload, tombstone)

        return enter

    def _keyed(self, vertex: Vertex) -> Handle:
        if vertex.kind is Kind.SINK:
            return self._metered(vertex.id, self._sink(vertex.id), votes=False)
        if isinstance(vertex.combine, Deciding):
            return self._metered(vertex.id, self._transacting(vertex), votes=True)
        state = self.states[vertex.id] = self._state(vertex)
        forward, fail = self.forward(vertex), self.failed(vertex)
        insert, remove, led_on, number = state.insert, state.remove, self._led_on, vertex.id
        in_event_time = isinstance(vertex.combine, Steps)

        def handle(key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            for at, value, gone in (remove if tombstone else insert)(key, slot, meta, payload):
                if in_event_time and (late := late_among(value)):
                    self._output.late(at, late, gone)
                if type(value) is ErrorValue:
                    fail(at, value, gone)
                else:
                    led_on[number] += 1
                    forward(at, value, gone)

        return self._metered(number, handle, votes=True)

    def _transacting(self, vertex: Vertex) -> Handle:
        assert isinstance(vertex.combine, Deciding)
        decide = user_code.decided(vertex, self._debug)
        reading, indexes = Reading.of(vertex), vertex.combine.indexes
        state = Transactions(vertex.id, self._cuts, decide, reading, indexes, Patience(*self._patience))
        forward, fail = self.forward(vertex), self.failed(vertex)
        self.states[vertex.id] = state

        def tell(at: Meta, value: Any, gone: bool) -> None:
            self._led_on[vertex.id] += type(value) is not ErrorValue
            (fail if type(value) is ErrorValue else forward)(at, value, gone)

        def handle(_key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            self._look_again(meta)
            for change in (state.remove if tombstone else state.insert)(slot, meta, payload):
                tell(*change)

        self._ledger = state, tell
        return handle

    def _look_again(self, limit: Meta | None = None) -> bool:
        """Look at all transactions that wait, below `limit` if it is given. Were there any?"""
        # not between others' share and this worker's: what is decided here may be followed by its tombstone (!)
        if self._ledger is None or self._others_first or not self._ledger[0].waits(limit):
            return False
        (state, tell), cause, meter = self._ledger, self.cause, self._meter
        before = None if meter is None else meter.enter(state.slot, state.operation, b"")
        while state.waits(limit):
            for change in state.look():
                # (!) Under its own time: that of the item at hand may be above it, and what had changed below may have
                # been passed. Until this pass is acked minimal time has not passed it: one or the other holds it.
                self.cause = time_of_meta(change[0])
                tell(*change)
        if meter is not None:
            meter.leave(before)
        self.cause = cause
        return True

    def _state(self, vertex: Vertex) -> Grouping | Reduce:
        if vertex.kind is Kind.GROUPING:
            return Grouping(vertex.id, self._cuts, vertex.window, Reading.of(vertex))
        return Reduce(vertex.id, self._cuts, user_code.folded(vertex, self._debug), Reading.of(vertex))

    def _sink(self, sink: int) -> Handle:
        def handle(_key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            if tombstone:
                self._barriers[sink].drop(meta, payload)
            else:
                self._barriers[sink].hold(meta, slot, payload)

        return handle

    # --- error items ----------------------------------------------------------------------------------------

    def _error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        self._dead_letter(meta, error, tombstone)

    # --- what slots cost ------------------------------------------------------------------------------------

    def measure(self, every: int, clock: Clock | None = None) -> None:
        """From now on measure what each slot costs, by every so manieth entrance (meter.py)."""
        self._meter = Meter(every, clock)

    def contended(self) -> Contended:
        """How often transactions were decided here so far."""
        return Contended() if self._ledger is None else self._ledger[0].contended()

    def by_operation(self) -> list[OperationCount]:
        """Counts of each vertex, in the order of the graph: what it has led on, costs and keeps."""
        cost = Counter[int]() if self._meter is None else self._meter.by_vertex
        sizes = {vertex: (len(state.buckets), state.size) for vertex, state in self.states.items()}
        return [
            OperationCount(led_on, cost[vertex], *sizes.get(vertex, (0, 0)))
            for vertex, led_on in enumerate(self._led_on)
        ]

    def measured(self) -> list[Cost]:
        """The cost of each slot since the last call; nothing unless it is measured."""
        return [] if self._meter is None else self._meter.take()

    def _metered(self, vertex: int, handle: Handle, *, votes: bool) -> Handle:
        def metered(key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            if (meter := self._meter) is None:
                handle(key, slot, meta, payload, tombstone)
                return
            before = meter.enter(slot, vertex, key if votes else b"")
            handle(key, slot, meta, payload, tombstone)
            meter.leave(before)

        return metered

    def bad_record(self, cause: Time, meta: Meta, error: ErrorValue) -> None:
        """A record that its source could not read: it enters as an error item."""
        self.cause = cause
        self._error(meta, error, False)
