"""Native parts: the worker's hot paths in the kernel, behind the interfaces of dataflow.py, keyed_state.py,
barrier.py and delivery.py.

Keeps: the same trace as the reference parts, for every seed (tests/sim/test_native.py). Does not: know the
protocol; these classes translate between the core's types and the kernel's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from types import ModuleType
from typing import Any, Final

from flamestream.core.dataflow.dataflow import NO_DOORS, Output, Work
from flamestream.core.dataflow.delivery import NOT_AGAIN, NOT_BEFORE, changed, difference
from flamestream.core.dataflow.keyed_state import AT_ONCE
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.meter import Clock, Cost, OperationCount
from flamestream.core.dataflow.native_vertices import described
from flamestream.core.dataflow.outbox import Gathered
from flamestream.core.dataflow.parts import REFERENCE, Flow, Parts
from flamestream.core.dataflow.stored import Reading, behind
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.dataflow.tables.transactions import NO_INDEXES, index_chains, missing, parted, unfolded
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import LastBundle
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.queries import Matching
from flamestream.core.protocol.settings import ERRORS, WorkerSettings
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model import payload as codec
from flamestream.model.failure import failure
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.kernel import kernel
from flamestream.model.meta import Meta, floor
from flamestream.model.payload import ErrorValue
from flamestream.model.tables.ledger import Deciding
from flamestream.model.time import END, Time
from flamestream.model.vertex import Kind, Vertex

_ROW: Final = partial(tuple.__new__, Row)
"""Makes a row of a tuple; `Row` itself takes three times as long."""


class NativeFlow:
    """dataflow.Dataflow."""

    def __init__(
        self,
        kernel: ModuleType,
        graph: Graph,
        settings: WorkerSettings,
        me: WorkerId,
        cuts: LiveCuts,
        output: Output,
    ) -> None:
        self.errors = len(graph.vertices)
        self._me = me
        self._cuts = cuts
        self._output = output
        self._names: list[WorkerId] = [me]
        vertices = [*graph.vertices, Vertex(self.errors, Kind.SINK, ERRORS)]
        self._flow = kernel.Flow(
            [described(vertex, graph, settings.debug, settings=settings) for vertex in vertices],
            slots=settings.slots,
            me=0,
            dead_letter=settings.dead_letter is not None,
            make_error=failure,
            error_type=ErrorValue,
            located=output.located,
            on_error=output.error,
            on_late=output.late,
        )
        keyed = [vertex for vertex in graph.vertices if vertex.kind in (Kind.GROUPING, Kind.REDUCE)]
        self.states: dict[int, NativeState] = {
            vertex.id: NativeState(self._flow, vertex, cuts) for vertex in keyed
        }

    @property
    def has_work(self) -> bool:
        return self._flow.has_work or self.undecided < self._cuts.reached

    @property
    def waits(self) -> bool:
        return self._flow.waits  # type: ignore[no-any-return]

    @property
    def undecided(self) -> Time:
        """As `Dataflow.undecided`."""
        return self._flow.undecided  # type: ignore[no-any-return]

    def reset(
        self,
        owners: Sequence[WorkerId],
        barriers: Mapping[int, Any],
        doors: Mapping[int, Sequence[WorkerId]] = NO_DOORS,
    ) -> None:
        """A new attempt: who owns each slot, everywhere or at some `doors`, and the barrier of each sink."""
        # this worker is 0 to the kernel in every layout (`me=0`)
        self._names = [self._me, *sorted({*owners, *chain.from_iterable(doors.values())} - {self._me})]
        numbers = {name: number for number, name in enumerate(self._names)}
        self._flow.reset(
            [numbers[owner] for owner in owners],
            dict(barriers),
            {vertex: [numbers[owner] for owner in its] for vertex, its in doors.items()},
        )

    def receive(self, message: Data) -> None:
        """Items of another worker join the next `run`."""
        self._flow.receive(
            message.cause, message.vertices, message.metas, message.tombstones, message.payloads
        )

    def share(self, runs: list[Work]) -> bool:
        """Process new runs up to the doors of keyed vertices. True if anything waits there."""
        self._flow.share(runs, self._cuts.all)
        if self.waits or not self.has_work:
            self._send()  # else `run` follows, and adds to the same messages
        return self.waits

    def run(self, runs: list[Work]) -> None:
        """Process new runs, what arrived and what waits, and everything that follows."""
        self._flow.run(runs, self._cuts.all, floor(self._cuts.reached))
        self._send()

    def bad_record(self, cause: Time, meta: Meta, error: ErrorValue) -> None:
        """A record that its source could not read."""
        self._flow.bad_record(cause, meta, error)
        self._send()

    def measure(self, every: int, clock: Clock | None = None) -> None:
        """From now on measure what each slot costs, by every so manieth entrance; with a clock by the
        kernel's own."""
        self._flow.measure(every, clock is not None)

    def measured(self) -> list[Cost]:
        """The cost of each slot since the last call; nothing unless it is measured."""
        return self._flow.measured()  # type: ignore[no-any-return]

    def by_operation(self) -> list[OperationCount]:
        """As `Dataflow.by_operation`."""
        return [OperationCount(*count) for count in self._flow.by_operation()]

    def contended(self) -> Contended:
        """As `Dataflow.contended`."""
        return Contended(*self._flow.contended(self._cuts.all))

    def _send(self) -> None:
        for owner, cause, *items in self._flow.take_messages():
            self._output.send_gathered(self._names[owner], cause, Gathered(*items))


class NativeState:
    """keyed_state.KeyedState."""

    def __init__(self, flow: Any, vertex: Vertex, cuts: LiveCuts) -> None:
        self.operation = vertex.id
        self._flow = flow
        self._cuts = cuts
        self._vertex, self._reading, self._was_folded = vertex, Reading.of(vertex), False

    def rows(self, number: int, epoch: Epoch, cut: Time) -> Iterator[Row | None]:
        """Rows of what changed since the committed cut, a bucket a step (None: nothing after all)."""
        committed, announced = floor(self._cuts.committed), floor(cut)
        # What becomes dirty from here on is above the cut, and has no row to give (keyed_state.py).
        self._flow.begin_rows(self.operation)
        while rows := self._flow.rows(self.operation, AT_ONCE, number, epoch, committed, announced, _ROW):
            yield from rows

    def committed(self, cut: Time) -> Iterator[None]:
        """Epoch's cut `cut` is committed: forget what only older cuts needed, a bucket a step."""
        limit = floor(cut)
        self._flow.begin_trimming(self.operation)
        while count := self._flow.trim(self.operation, AT_ONCE, self._cuts.all, limit):
            yield from repeat(None, count)

    def go_back(self, cut: Time) -> None:
        """Be as at the live cut `cut`."""
        self._flow.go_back(self.operation, floor(cut))

    def keep(self, slots: Iterable[Slot]) -> None:
        """Forget every other slot."""
        self._flow.keep(self.operation, set(slots))

    def load(self, chains: Iterable[Chain]) -> None:
        """Take states from a snapshot, or what newer epochs have of some that were taken and not touched. Raises
        Corrupt if rows are missing."""
        if self._vertex.kind is Kind.GROUPING:  # it takes items at once, and no rows of an older version
            chains = map(self._reading.loaded, chains)
        elif isinstance(self._vertex.combine, Deciding):
            deleted, chains, was_folded = unfolded(chains, self._reading)
            self._was_folded |= was_folded
            self._flow.drop(self.operation, deleted)
        stored = self._flow.stored
        self._flow.load(
            self.operation,
            [chain if chain.full else behind(chain, stored(self.operation, chain.key)) for chain in chains],
        )

    def complete(self, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
        """Make the rows of indexes that are new. Raises UserError if a row has none that can be made."""
        deciding = self._vertex.combine
        indexes = deciding.indexes if isinstance(deciding, Deciding) else NO_INDEXES
        if not (wanted := missing(indexes, fresh, was_folded=self._was_folded)):
            return
        gone, rows = parted([(key, slot) for key, slot in self.keys() if slot in slots], wanted)
        self._flow.drop(self.operation, gone)
        stored = partial(self._flow.stored, self.operation)
        for made in index_chains(self.operation, rows, wanted, self._reading, stored):
            if made is not None:
                self._flow.load(self.operation, [made])
                self._flow.unstored(self.operation, [made.key])
            yield

    def order(self, count: int) -> bool:
        """Put about so many more keys in order, for pages. Whether some are left."""
        return self._flow.order(self.operation, count)  # type: ignore[no-any-return]

    def page(self, after: bytes, count: int, matching: Matching) -> tuple[list[bytes], bool]:
        """The least keys behind `after` that are meant, no more than `count`, and whether there are more. Of those that
        are in order: all, once nothing is left to be put so."""
        text = None if matching.text is None else matching.text.encode()
        return self._flow.page(self.operation, after, count, matching.head, text)  # type: ignore[no-any-return]

    def keys(self) -> list[tuple[bytes, Slot]]:
        """Every key with its slot."""
        return [(key, slot) for slot, key in self._flow.keys(self.operation)]

    def state_at(self, key: bytes, cut: Time) -> Any:
        """The state at a live cut. Raises KeyError if there is none."""
        state = self._flow.state_at(self.operation, key, floor(cut))
        if state is None:
            raise KeyError(key)
        return state

    def states_at(self, keys: Sequence[bytes], cut: Time) -> list[bytes | None]:
        """The states of keys at a live cut, encoded; None for one that has none."""
        return self._flow.states_at(self.operation, keys, floor(cut))  # type: ignore[no-any-return]


class NativeDelivery:
    """delivery.Delivery."""

    def __init__(self, kernel: ModuleType, sink: SinkName, cut: Time, most_items: int) -> None:
        self.sink = sink
        self.number = 0
        self.delivered = 0
        self._cut = floor(cut)
        self._most = most_items
        self._queue = kernel.Queue()
        self._expects = False
        """A replay has to give something again."""
        self._in_flight: Time | None = None

    def opened(self, last: Mapping[Slot, LastBundle], compare: bool) -> None:
        """The consumer's memory."""
        for slot, bundle in last.items():
            decoded = codec.decode_items(bundle.items) if compare else []
            items = [(meta, codec.encode(payload)) for meta, payload in decoded if meta >= self._cut]
            self._queue.opened(slot, bundle.sequence, bundle.t_last if compare else b"", items)
            self._expects |= bool(items)

    def outputs(self) -> list[SlotOutput]:
        """How far each slot has released."""
        return [
            SlotOutput(self.sink, slot, SequenceNumber(number), t_last)
            for slot, number, t_last in self._queue.outputs()
        ]

    def put(self, released: Any) -> None:
        """Released results, ascending. Raises UserError if a replay differs."""
        self._judge(self._queue.put(released))

    def passed(self, minimal: Time) -> None:
        """All results below `minimal` were put. Raises UserError if one of them was delivered and has not
        come again."""
        if self._expects:
            self._judge(self._queue.passed(floor(minimal)))
            self._expects = self._queue.expects

    def _judge(self, found: tuple[Slot, bytes, str, bytes, bytes] | None) -> None:
        if found is not None:
            slot, meta, kind, expected, again = found
            what = {"missing": NOT_AGAIN, "new": NOT_BEFORE}.get(kind) or changed(expected, again)
            raise difference(self.sink, slot, Meta(meta), what)

    def next_call(self) -> tuple[Bundle, ...] | None:
        """The bundles of the next call; None while one is in flight or nothing waits."""
        if self._in_flight is not None or not len(self._queue):
            return None
        self._in_flight = Time(self._queue.first())
        self.number += 1
        count = self._queue.count(self._most)
        self.delivered += count
        return self._queue.cut(count, Bundle)  # type: ignore[no-any-return]

    def acknowledged(self, number: int) -> None:
        """The call numbered `number` is durable at the consumer."""
        if number == self.number:
            self._in_flight = None

    @property
    def settled(self) -> Time:
        """Everything released below it is acknowledged; END if nothing is under way."""
        if self._in_flight is not None:
            return self._in_flight
        return END if (first := self._queue.first()) is None else Time(first)

    def waiting_times(self) -> set[Time]:
        """The times of the runs whose results wait."""
        return {Time(time) for time in self._queue.times()}


def native(kernel: ModuleType) -> Parts:
    """The parts of the kernel."""

    def flow(graph: Graph, settings: WorkerSettings, me: WorkerId, cuts: LiveCuts, output: Output) -> Flow:
        return NativeFlow(kernel, graph, settings, me, cuts, output)

    return Parts(
        flow,
        kernel.Barrier,
        lambda sink, cut, most_items: NativeDelivery(kernel, sink, cut, most_items),
    )


FASTEST = REFERENCE if kernel is None else native(kernel)
"""The parts of a real worker."""
