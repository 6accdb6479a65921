"""Held outputs: those of `exactly-once-2pc` and `at-most-once`, which leave only when the epoch that they
belong to is committed, as Flink's do.

    results -> barrier -> bundles (cut and encoded as minimal time moves)
       -> Cut: prepared, a row each in the epoch's snapshot
    Committed -> ready -> delivered, one call in flight a sink -> settled up to that cut

What an epoch holds is durable before it is committed, so a crash behind the commit delivers the same bundles,
byte for byte, from the snapshot; a crash before it forgets them, and nobody has seen them. Output and state
therefore never disagree, whatever the user's functions do. The next epoch is accepted only when the bundles
of the committed one are with their consumers (!): its snapshot no longer has them. Why the snapshot holds
them instead of a replay computing them again: decision 009.

Keeps: nothing leaves before its commit, nothing committed is lost; a bundle keeps its number and bytes. Does
not: commit, or talk to consumers.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol.actions import Bundle, Deliver
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import BundlesAcknowledged, LastBundle, SinkOpened
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model.ids import Epoch, Fence, SequenceNumber, SinkName, Slot
from flamestream.model.time import END, START, Time

CALL_BYTES = 1 << 20
"""Bytes of bundles that a snapshot held and that are handed over in one call."""
Call = tuple[Time, tuple[Bundle, ...]]
"""With the time of its oldest result; END if that is not known."""


class HeldOutputs(Outputs):
    """Outputs that wait for commits, by the vertex number of the sink."""

    def __init__(
        self, fence: Fence, sinks: Mapping[int, SinkName], cut: Time, most_items: int, parts: Parts
    ) -> None:
        super().__init__(fence, sinks, cut, most_items, parts)
        self._most = most_items
        self._uncut = dict.fromkeys(sinks, 0)
        """Results released since the last bundles of each sink were cut."""
        self._bundled: list[tuple[int, Call]] = []
        """Calls of the epoch that is not announced yet."""
        self._prepared: list[tuple[int, Call]] = []
        """In an epoch's snapshot, and not committed."""
        self._ready: dict[SinkName, deque[Call]] = {name: deque() for name in sinks.values()}
        self._in_flight: dict[SinkName, Call] = {}
        self._numbers = dict.fromkeys(sinks.values(), 0)
        # START: how old the snapshot's output is is not known; while it is on its way nothing is settled.
        self._delivered, self._committed = START, cut
        self._last: dict[SinkName, Mapping[Slot, LastBundle]] = {}
        self._told: dict[tuple[SinkName, Slot], SlotOutput] = {}

    # --- recovery -------------------------------------------------------------------------------------------

    def opened(self, event: SinkOpened, *, compare: bool) -> None:
        """A consumer says what it remembers; deliveries begin behind what the snapshot holds (`resume`)."""
        self._last[event.sink] = event.last
        self._tell(
            event.sink,
            (Bundle(slot, last.sequence, last.t_last, last.items) for slot, last in event.last.items()),
        )

    def resume(self, held: Iterable[Chain]) -> None:
        """Every sink is open, and `held` is what the snapshot holds for slots of this worker: deliver what
        their consumers lack of it."""
        bundles: dict[int, list[Bundle]] = {number: [] for number in self.deliveries}
        for chain in held:
            bundles[chain.operation].append(bundle_in(chain))
        for number, delivery in self.deliveries.items():
            last = dict(self._last.get(delivery.sink, {}))
            lacking = [
                bundle
                for bundle in bundles[number]
                if bundle.slot not in last or bundle.sequence > last[bundle.slot].sequence
            ]
            # chains come in any order; a slot's bundles leave in theirs
            lacking.sort(key=lambda bundle: (bundle.sequence, bundle.slot))
            self._ready[delivery.sink].extend((END, call) for call in _calls(lacking))
            last.update(
                (bundle.slot, LastBundle(bundle.sequence, bundle.t_last, bundle.items)) for bundle in lacking
            )
            # As if consumers had all of it: what is on its way comes again in no bundle behind it.
            delivery.opened(last, compare=True)
            self._tell(delivery.sink, lacking)

    # --- epochs ---------------------------------------------------------------------------------------------

    def release(self, minimal: Time) -> int:
        """Release what is below minimal time, which is final: it is encoded by and by."""
        count = 0
        for number, barrier in self.barriers.items():
            if released := barrier.release(minimal):
                count += len(released)
                self.counts[number] += len(released)
                # before the next line, which may take them out of `released`
                self._uncut[number] += len(released)
                self.deliveries[number].put(released)
                # by and by: to encode all of an epoch's results at its cut would hold up that pass
                if self._uncut[number] >= self._most:
                    self._bundle(number)
            self.deliveries[number].passed(minimal)
        return count

    def prepare(self, epoch: Epoch) -> list[Row]:
        """Minimal time is the cut of `epoch`: all that is held below, which is all that was released and not
        committed."""
        for number in self.deliveries:
            self._bundle(number)
        # Behind those of an aborted epoch, if there was one: no snapshot that counts has them yet.
        self._prepared += self._bundled
        self._bundled = []
        return [_row(number, bundle, epoch) for number, (_, bundles) in self._prepared for bundle in bundles]

    def needed(self, cut: Time) -> Time:
        """An epoch is accepted when that much is settled: what the committed one holds, which the next
        snapshot has not."""
        # (!) Not `cut`: held output leaves behind the commit only.
        return self._committed

    def commit(self, cut: Time) -> None:
        """The epoch cut at `cut` is committed: what it holds may leave. It was accepted, so everything older
        has left."""
        assert not self._busy, f"cut {cut} is committed before the output below {self._committed} has left"
        self._delivered, self._committed = self._committed, cut
        # All of it is this epoch's: a cut that comes before the word on this one is refused (epoch_work.py).
        for number, call in self._prepared:
            sink = self.deliveries[number].sink
            self._ready[sink].append(call)
            self._tell(sink, call[1])
        self._prepared = []

    # --- consumers ------------------------------------------------------------------------------------------

    def calls(self) -> list[Deliver]:
        """The calls that consumers can be given now, one call in flight a sink."""
        made = []
        for sink, ready in self._ready.items():
            if ready and sink not in self._in_flight:
                self._in_flight[sink] = ready.popleft()
                self._numbers[sink] += 1
                made.append(Deliver(self._fence, sink, self._numbers[sink], self._in_flight[sink][1]))
        return made

    def acknowledged(self, event: BundlesAcknowledged) -> tuple[Time, int]:
        """A call is durable at its consumer: the time of its oldest result and its bundles; END and 0 if no
        news."""
        if event.number != self._numbers[event.sink] or event.sink not in self._in_flight:
            return END, 0
        oldest, bundles = self._in_flight.pop(event.sink)
        return oldest, len(bundles)

    def settled(self, minimal: Time) -> Time:
        """All output below it is acknowledged: the committed cut, or the one before while its output is under
        way."""
        return self._delivered if self._busy else self._committed

    def released(self) -> list[SlotOutput]:
        """How far each slot is with what was committed."""
        return [self._told[place] for place in sorted(self._told)]

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return bool(self._in_flight) or any(self._ready.values())

    def _bundle(self, number: int) -> None:
        delivery, self._uncut[number] = self.deliveries[number], 0
        while (bundles := delivery.next_call()) is not None:
            # Still in flight, so `settled` is the time of its oldest result. Acknowledged at once, so that
            # the rest can be cut: consumers get it later, from here.
            self._bundled.append((number, (delivery.settled, bundles)))
            delivery.acknowledged(delivery.number)

    def _tell(self, sink: SinkName, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            self._told[sink, bundle.slot] = SlotOutput(sink, bundle.slot, bundle.sequence, bundle.t_last)


def _row(number: int, bundle: Bundle, epoch: Epoch) -> Row:
    """A bundle in a snapshot."""
    # a key for each bundle: of two rows of one key the newer would supersede the older
    key = bundle.slot.to_bytes(4, "big") + bundle.sequence.to_bytes(8, "big")
    return Row(
        number,
        bundle.slot,
        key,
        epoch,
        True,
        len(bundle.t_last).to_bytes(2, "big") + bundle.t_last + bundle.items,
    )


def bundle_in(chain: Chain) -> Bundle:
    """The way back."""
    state = chain.states[-1]
    end = 2 + int.from_bytes(state[:2], "big")
    return Bundle(chain.slot, SequenceNumber(int.from_bytes(chain.key[4:], "big")), state[2:end], state[end:])


def _calls(bundles: Sequence[Bundle]) -> Iterable[tuple[Bundle, ...]]:
    """In their order, no slot twice in a call."""
    call: dict[Slot, Bundle] = {}
    size = 0
    for bundle in bundles:
        if bundle.slot in call or size > CALL_BYTES:
            yield tuple(call.values())
            call, size = {}, 0
        call[bundle.slot] = bundle
        size += len(bundle.items)
    if call:
        yield tuple(call.values())
