"""Dataflow: one worker's copy of the graph, compiled to closures; moves items from vertex to vertex.

Stateless vertices run where the item is. The input of a grouping, a reduce, a sink, or of any vertex with a balancing function is
routed: hash -> slot -> owner. What another worker owns goes into the outbox under the current cause; what this one owns is processed
at once. A cycle never recurses: what goes round waits in a heap, and everything at hand is processed in the order of metas, so that
speculation is rarely wrong.

Every edge out of a vertex that has several extends the trace by its number (!), or a filter and a merge could make two items tie.
Everything sent while processing a message inherits its cause, also a tombstone with an older or newer meta (!).

Keeps: an item and its tombstone take the same way in the same order. Does not: ack, stamp, release (worker.py).
Source: EDBT 2018, sections 2 and 3; graphs are compiled once a worker, not once a recovery.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Protocol

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.grouping import Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.outbox import Gathered
from flamestream.core.dataflow.placing import Place, place_of
from flamestream.core.dataflow.reduce import Reduce
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.settings import ERRORS, WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.graph import Graph, Kind, Vertex
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.meta import COMPONENTS, Meta, child, components
from flamestream.model.payload import ErrorValue
from flamestream.model.time import Time

Enter = Callable[[Meta, Any, bool], None]
"""(meta, payload, is it a tombstone): an item enters a vertex."""
Handle = Callable[[bytes, Slot, Meta, Any, bool], None]
"""(key, slot, meta, payload, is it a tombstone): an item at a place that this worker owns."""
Fail = Callable[[Meta, ErrorValue, bool], None]
Work = tuple[Meta, Time, int, Any, bool]
"""(meta, cause, vertex, payload, is it a tombstone): an item at this worker's door."""
_Round = tuple[Meta, int, Time, int, Any, bool]
"""(meta, number, cause, vertex, payload, is it a tombstone): an item that goes round a loop. Numbers keep heap order total."""
KEYED = (Kind.GROUPING, Kind.REDUCE, Kind.SINK)
_IN_ORDER = itemgetter(0, 4)
"""By meta, an item before its tombstone: a frame groups by cause, so a tombstone of an older cause may stand before its item (!)."""


class Output(Protocol):
    """Where items leave the dataflow."""

    def send(self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: Any, tombstone: bool) -> None:
        """To another worker."""

    def send_gathered(self, owner: WorkerId, cause: Time, items: Gathered) -> None:
        """To another worker, several items at once."""

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        """With where the item at `meta` came from that failed in `vertex`, or at the door to it. The same for its tombstone."""

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        """An error item."""


class Dataflow:
    """The graph on one worker."""

    def __init__(self, graph: Graph, settings: WorkerSettings, me: WorkerId, cuts: LiveCuts, output: Output) -> None:
        self.states: dict[int, Grouping | Reduce] = {}
        self.errors = len(graph.vertices)
        """The vertex number of the dead-letter sink."""
        self.cause = Time(0)
        self.owners: Sequence[WorkerId] = [me] * settings.slots
        self._graph = graph
        self._me = me
        self._settings = settings
        self._cuts = cuts
        self._output = output
        self._barriers: Mapping[int, Barrier] = {}
        self._came: list[Work] = []
        self._waiting: list[Work] = []
        """This worker's share of new runs, put off by `share`."""
        self._others_first = False
        self._round: list[_Round] = []
        self._rounds = 0
        self._going: dict[tuple[Meta, int], list[_Round]] = {}
        self._annihilated: set[int] = set()
        self._error = self._dead_letters()
        self._enter: list[Enter] = [_not_compiled] * len(graph.vertices)
        self._handlers: list[Enter] = [*self._enter, self._arrived_error()]
        for number in _last_first(graph):
            self._handlers[number] = self._handler(graph.vertices[number])
            self._enter[number] = self._entrance(graph.vertices[number])
        self.states = dict(sorted(self.states.items()))

    def reset(self, owners: Sequence[WorkerId], barriers: Mapping[int, Barrier]) -> None:
        """A new attempt: who owns each slot, and the barrier of each sink. Whatever was on its way is forgotten."""
        self.owners = owners
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
        self._came += [(Meta(meta), message.cause, vertex, payload, gone) for meta, vertex, payload, gone in columns]

    @property
    def has_work(self) -> bool:
        """Is there anything for `run` but new runs?"""
        return bool(self._came or self._waiting)

    @property
    def waits(self) -> bool:
        """Did `share` put anything off?"""
        return bool(self._waiting)

    def share(self, runs: list[Work]) -> bool:
        """Process new runs up to the doors of keyed vertices: what is others' there is sent, what is this worker's waits for `run`.

        True if anything waits.

        Only new runs: what comes from a keyed vertex may be followed by its tombstone, which must not overtake it (!).
        """
        self._others_first = True
        self._process(runs)
        self._others_first = False
        return self.waits

    def run(self, runs: list[Work]) -> None:
        """Process new runs, what arrived and what waits, and everything that follows on this worker, in the order of metas."""
        work, self._waiting, self._came = runs + self._waiting + self._came, [], []
        self._process(work)

    def _process(self, work: list[Work]) -> None:
        work.sort(key=_IN_ORDER)
        around, handlers = self._round, self._handlers
        for meta, cause, vertex, payload, tombstone in work:
            while around and around[0][0] < meta:
                self._go_round()
            self.cause = cause
            handlers[vertex](meta, payload, tombstone)
        while around:
            self._go_round()
        self._going.clear()

    def _go_round(self) -> None:
        item = heappop(self._round)
        meta, number, cause, vertex, payload, tombstone = item
        if number in self._annihilated:
            self._annihilated.remove(number)
            return
        self._going[meta, vertex].remove(item)
        self.cause = cause
        self._enter[vertex](meta, payload, tombstone)

    def _go(self, meta: Meta, vertex: int, payload: Any, tombstone: bool) -> None:
        """Begin a round. An item and its tombstone that both still wait annihilate, or each late item would double what goes round."""
        waiting = self._going.setdefault((meta, vertex), [])
        for other in waiting:
            if other[5] != tombstone and codec.encode(other[4]) == codec.encode(payload):
                waiting.remove(other)
                self._annihilated.add(other[1])
                return
        self._rounds += 1
        item = (meta, self._rounds, self.cause, vertex, payload, tombstone)
        waiting.append(item)
        heappush(self._round, item)

    # --- where items go next --------------------------------------------------------------------------------------------------------

    def _forward(self, vertex: Vertex) -> Enter:
        """All edges out of `vertex`."""
        entrances = [self._enter[output] for output in vertex.outputs]
        if len(entrances) == 1:
            return entrances[0]

        def forward(meta: Meta, payload: Any, tombstone: bool) -> None:
            for edge, enter in enumerate(entrances):
                enter(Meta(meta + COMPONENTS[edge]), payload, tombstone)

        return forward

    def _entrance(self, vertex: Vertex) -> Enter:
        """Into `vertex`, wherever its slot lives."""
        if vertex.kind in KEYED:
            return self._routed(vertex.id, self._place(vertex), self._keyed_handler(vertex), self._failed(vertex, at_door=True))
        if vertex.balance is not None:
            handle = self._handlers[vertex.id]
            return self._routed(vertex.id, self._place(vertex), lambda _key, _slot, *item: handle(*item), self._failed(vertex, True))
        return self._handlers[vertex.id]

    def _routed(self, vertex: int, place: Place, handle: Handle, fail: Fail) -> Enter:
        me, send = self._me, self._output.send

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key, tombstone)
            elif (owner := self.owners[slot]) != me:
                send(owner, self.cause, vertex, meta, payload, tombstone)
            elif self._others_first:
                self._waiting.append((meta, self.cause, vertex, payload, tombstone))
            else:
                handle(key, slot, meta, payload, tombstone)

        return enter

    def _place(self, vertex: Vertex) -> Place:
        return place_of(vertex, self._settings.slots, self._settings.debug)

    # --- what vertices do -----------------------------------------------------------------------------------------------------------

    def _handler(self, vertex: Vertex) -> Enter:
        match vertex.kind:
            case Kind.SOURCE | Kind.MERGE:
                return self._forward(vertex)
            case Kind.MAP:
                return self._map(vertex)
            case Kind.FLAT_MAP:
                return self._flat_map(vertex)
            case Kind.FILTER:
                return self._filter(vertex)
            case Kind.LOOP:
                return self._loop(vertex)
            case Kind.GROUPING | Kind.REDUCE | Kind.SINK:
                return self._arrived(self._place(vertex), self._keyed_handler(vertex), self._failed(vertex, at_door=True))

    def _arrived(self, place: Place, handle: Handle, fail: Fail) -> Enter:
        """An item that another worker has routed here: find its key and slot again."""

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key, tombstone)
            else:
                handle(key, slot, meta, payload, tombstone)

        return enter

    def _map(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.mapped(vertex, self._settings.debug), self._forward(vertex), self._failed(vertex)

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            result = call(payload)
            (fail if type(result) is ErrorValue else forward)(meta, result, tombstone)

        return enter

    def _flat_map(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.flat_mapped(vertex, self._settings.debug), self._forward(vertex), self._failed(vertex)

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            results = call(payload)
            if isinstance(results, ErrorValue):
                fail(meta, results, tombstone)
            else:
                for index, result in enumerate(results):
                    forward(Meta(meta + COMPONENTS[index]) if index < 4096 else child(meta, index), result, tombstone)

        return enter

    def _filter(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.filtered(vertex, self._settings.debug), self._forward(vertex), self._failed(vertex)

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            stays = call(payload)
            if stays is True:
                forward(meta, payload, tombstone)
            elif stays is not False:
                fail(meta, stays, tombstone)

        return enter

    def _loop(self, vertex: Vertex) -> Enter:
        """Round it goes, later: after everything before it in the total order."""
        outputs, several, limit = vertex.outputs, len(vertex.outputs) > 1, self._graph.max_trace
        fail = self._failed(vertex)
        error = too_often(vertex)

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            if len(meta) - 8 > limit and components(meta) > limit:
                fail(meta, error, tombstone)
                return
            for edge, output in enumerate(outputs):
                self._go(Meta(meta + COMPONENTS[edge]) if several else meta, output, payload, tombstone)

        return enter

    def _keyed_handler(self, vertex: Vertex) -> Handle:
        if vertex.kind is Kind.SINK:
            return self._sink_handler(vertex.id)
        state = self.states.setdefault(vertex.id, self._state(vertex))
        forward, fail = self._forward(vertex), self._failed(vertex)
        insert, remove = state.insert, state.remove

        def handle(key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            for at, value, gone in (remove if tombstone else insert)(key, slot, meta, payload):
                (fail if type(value) is ErrorValue else forward)(at, value, gone)

        return handle

    def _sink_handler(self, sink: int) -> Handle:
        def handle(_key: bytes, slot: Slot, meta: Meta, payload: Any, tombstone: bool) -> None:
            if tombstone:
                self._barriers[sink].drop(meta, payload)
            else:
                self._barriers[sink].hold(meta, slot, payload)

        return handle

    def _state(self, vertex: Vertex) -> Grouping | Reduce:
        if vertex.kind is Kind.GROUPING:
            return Grouping(vertex.id, self._cuts, vertex.window)
        return Reduce(vertex.id, self._cuts, user_code.folded(vertex, self._settings.debug))

    # --- error items ----------------------------------------------------------------------------------------------------------------

    def _failed(self, vertex: Vertex, at_door: bool = False) -> Fail:
        """The error items of `vertex`: their trace ends with its id, so errors of several vertices for one item do not tie."""
        located = self._output.located

        def fail(meta: Meta, error: ErrorValue, tombstone: bool) -> None:
            self._error(child(meta, vertex.id), located(vertex.id, meta, error, at_door), tombstone)

        return fail

    def bad_record(self, cause: Time, meta: Meta, error: ErrorValue) -> None:
        """A record that its source could not read: it enters as an error item."""
        self.cause = cause
        self._error(meta, error, False)

    def _arrived_error(self) -> Enter:
        place, handle = self._place(Vertex(self.errors, Kind.SINK, ERRORS)), self._sink_handler(self.errors)
        return self._arrived(place, handle, self._output.error)

    def _dead_letters(self) -> Enter:
        """Where error items go: to the slot of the sink that `dead_letter` names, or to whoever holds minimal time."""
        if self._settings.dead_letter is None:
            return self._output.error
        place, handle = self._place(Vertex(self.errors, Kind.SINK, ERRORS)), self._sink_handler(self.errors)
        return self._routed(self.errors, place, handle, self._output.error)


def _not_compiled(meta: Meta, payload: Any, tombstone: bool) -> None:
    raise AssertionError("an item entered a vertex before the graph was compiled")


def _last_first(graph: Graph) -> list[int]:
    """Every vertex behind those that its results go to, edges out of loops apart (those are looked up when an item goes round)."""
    order: list[int] = []
    state = [0] * len(graph.vertices)
    for start in range(len(graph.vertices)):
        todo = [start]
        while todo:
            number = todo[-1]
            vertex = graph.vertices[number]
            ahead = [] if vertex.kind is Kind.LOOP else [output for output in vertex.outputs if not state[output]]
            if state[number] == 0 and ahead:
                todo.extend(ahead)
                continue
            todo.pop()
            if not state[number]:
                state[number] = 1
                order.append(number)
    return order


def too_often(loop: Vertex) -> ErrorValue:
    """The error item of what goes round without end."""
    return ErrorValue("loop", "LoopLimit", f"loop {loop.name!r} goes round more than {loop.max_iterations} times")
