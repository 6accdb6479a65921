"""Delivery: what the barrier releases becomes bundles, one call in flight a sink, and a replay is filtered by
what was delivered.

A call carries the bundles of all of a worker's slots for one sink: whatever was released while the last call
was under way. Each bundle is numbered within its slot and names `t_last`, the meta of its last item; the
consumer keeps the newest. After a recovery the slot drops what is at or below its consumer's `t_last`, and
compares what it computes again with the last bundle: a difference means that the graph is not deterministic.

Keeps: per slot, sequences without gap, released order, nothing twice (invariant 2); a call is resent byte for
byte, never cut anew (!); all that a record leads to at one worker is in one call, unless that is more than a call may
have. Does not: talk to consumers (connectors). Source: delivery, consistency and
determinism: section on the drifting state model; bundles over slots are ours.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flamestream.core.dataflow.barrier import Result
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.events import LastBundle
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, SinkName, Slot
from flamestream.model.meta import LEAST, Meta, floor, record_of, time_of_meta
from flamestream.model.time import END, Time


@dataclass(slots=True)
class _SlotState:
    """`delivered` filters a replay; `expected` are items of the last bundle that a replay must give again,
    ascending."""

    sequence: SequenceNumber = SequenceNumber(0)
    t_last: Meta = LEAST
    delivered: Meta = LEAST
    expected: deque[tuple[bytes, bytes]] = field(default_factory=deque)
    comparing: bool = False
    """The replay has reached the first expected item."""


class Delivery:
    """A sink's delivery by one worker in one attempt."""

    def __init__(self, sink: SinkName, cut: Time, most_items: int) -> None:
        self.sink = sink
        self.number = 0
        self.delivered = 0
        """Items handed over in this attempt."""
        self._cut = floor(cut)
        self._most = most_items
        self._slots: dict[Slot, _SlotState] = {}
        self._expecting: set[Slot] = set()
        """Slots that a replay has to give something again."""
        self._queue: deque[Result] = deque()
        self._in_flight: Meta | None = None

    def opened(self, last: Mapping[Slot, LastBundle], compare: bool) -> None:
        """The consumer's memory. `compare` under exactly-once: filter a replay by it and check the replay
        against it."""
        for slot, bundle in last.items():
            # Under every guarantee: whoever keeps the last bundle takes none whose number does not follow.
            state = self._slots.setdefault(slot, _SlotState(bundle.sequence))
            if compare:
                state.delivered = state.t_last = Meta(bundle.t_last)
                items = ((meta, codec.encode(payload)) for meta, payload in codec.decode_items(bundle.items))
                # the replay begins at the cut, and gives nothing below it again
                state.expected.extend(item for item in items if item[0] >= self._cut)
                self._expecting.add(slot)

    def outputs(self) -> list[SlotOutput]:
        """How far each slot has released."""
        return [
            SlotOutput(self.sink, slot, state.sequence, state.t_last)
            for slot, state in sorted(self._slots.items())
            # `LEAST` is empty: of a slot that has released nothing no consumer remembers anything
            if state.t_last
        ]

    def put(self, results: list[Result]) -> None:
        """Released results, ascending. Those delivered before are checked and dropped. Raises UserError if a
        replay differs."""
        queue, slots = self._queue, self._slots
        for result in results:
            meta, slot, payload = result
            state = slots.get(slot)
            if state is None:
                state = slots[slot] = _SlotState()
            if meta <= state.delivered:
                self._compare(slot, state, meta, payload)
                continue
            # past all that was delivered, and not all of it has come again (!)
            if state.expected:
                self._differs(slot, Meta(state.expected[0][0]), NOT_AGAIN)
            assert meta > state.t_last, (
                f"slot {slot} of {self.sink!r} releases {meta.hex()} after {state.t_last.hex()}"
            )
            state.t_last = meta
            queue.append(result)

    def passed(self, minimal: Time) -> None:
        """All results below `minimal` were put. Raises UserError if one of them was delivered and has not
        come again."""
        for slot in sorted(self._expecting):
            if not (expected := self._slots[slot].expected):
                self._expecting.discard(slot)
            # (!) An epoch that is cut above it would forget that it was ever expected.
            elif expected[0][0] < floor(minimal):
                self._differs(slot, Meta(expected[0][0]), NOT_AGAIN)

    def next_call(self) -> tuple[Bundle, ...] | None:
        """The bundles of the next call; None while one is in flight or nothing waits."""
        # One at a time: behind a crash only the newest bundle of a slot can be in doubt, and that one
        # consumers keep.
        if self._in_flight is not None or not self._queue:
            return None
        self._in_flight = self._queue[0][0]
        self.number += 1
        return self._cut_bundles(self._count())

    def acknowledged(self, number: int) -> None:
        """The call numbered `number` is durable at the consumer."""
        # a late answer to an earlier call says nothing of this one
        if number == self.number:
            self._in_flight = None

    @property
    def settled(self) -> Time:
        """Everything released below it is acknowledged; END if nothing is under way."""
        # in flight is older than what waits, and what waits ascends
        if self._in_flight is not None:
            return time_of_meta(self._in_flight)
        return time_of_meta(self._queue[0][0]) if self._queue else END

    def waiting_times(self) -> set[Time]:
        """The times of the runs whose results wait."""
        return {time_of_meta(meta) for meta, _, _ in self._queue}

    @property
    def waiting(self) -> int:
        """Items released and not acknowledged yet, those in flight apart."""
        return len(self._queue)

    def _count(self) -> int:
        """The number of results of the next call."""
        queue, most = self._queue, self._most
        if len(queue) <= most:
            return len(queue)
        # what a record leads to stays together (!): the rows that a transaction has changed are seen at once
        ends = (end for end in range(most, 0, -1) if record_of(queue[end][0]) != record_of(queue[end - 1][0]))
        return next(ends, most)  # one record alone has more than a call may

    def _cut_bundles(self, count: int) -> tuple[Bundle, ...]:
        items: dict[Slot, list[tuple[bytes, Any]]] = {}
        for _ in range(count):
            meta, slot, payload = self._queue.popleft()
            found = items.get(slot)
            if found is None:
                items[slot] = [(meta, payload)]
            else:
                found.append((meta, payload))
        self.delivered += count
        return tuple(self._bundle(slot, chosen) for slot, chosen in items.items())

    def _bundle(self, slot: Slot, items: list[tuple[bytes, Any]]) -> Bundle:
        state = self._slots[slot]
        state.sequence = SequenceNumber(state.sequence + 1)
        return Bundle(slot, state.sequence, items[-1][0], codec.encode_items(items))

    def _compare(self, slot: Slot, state: _SlotState, meta: Meta, payload: Any) -> None:
        # Only the last bundle of a slot is remembered: what comes before its first item was delivered in
        # older ones, and cannot be compared.
        if not state.expected or (meta < state.expected[0][0] and not state.comparing):
            return
        expected_meta, expected = state.expected.popleft()
        state.comparing = True
        if expected_meta < meta:
            self._differs(slot, Meta(expected_meta), NOT_AGAIN)
        if expected_meta > meta:
            self._differs(slot, meta, NOT_BEFORE)
        if (again := codec.encode(payload)) != expected:
            self._differs(slot, meta, changed(expected, again))

    def _differs(self, slot: Slot, meta: Meta, what: str) -> None:
        raise difference(self.sink, slot, meta, what)


NOT_AGAIN = "was delivered before and is not computed again"
NOT_BEFORE = "was not delivered before, though later ones were"


def changed(expected: bytes, again: bytes) -> str:
    """How a result differs from what was delivered."""
    return f"was delivered as {codec.decode(expected)!r} and is now {codec.decode(again)!r}"


def difference(sink: SinkName, slot: Slot, meta: Meta, what: str) -> UserError:
    """A replay that differs from what was delivered."""
    return UserError(
        f"sink {sink!r}, slot {slot}: "
        f"the result of the run at time {time_of_meta(meta)} (meta {meta.hex()}) {what}. "
        "The functions that lead to this sink are not deterministic, or changed: they must not depend on "
        "clock, randomness, "
        "dict order of foreign data or outside state; `flamestream run --debug` names the function"
    )
