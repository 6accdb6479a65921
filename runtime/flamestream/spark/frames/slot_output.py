"""Slot output: results of one sink, in the order of metas, become bundles, without a look into a payload;
what was delivered before is checked and dropped.

The same rules as core/dataflow/delivery.py, which has decoded payloads and a barrier before it: a bundle's
items are spliced from their encodings here, and a replay is compared as bytes.

Keeps: per slot, sequences without gap, ascending metas, nothing twice; a difference to the last bundle is an
error that names the place.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from flamestream.core.dataflow.delivery import NOT_AGAIN, NOT_BEFORE
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, time_of_meta
from flamestream.spark.frames.consumer import TaskConsumer

ITEMS_A_CALL: Final = 16_384
BYTES_A_CALL: Final = 8 << 20
BEYOND: Final = b"\xff" * 9
"""Above every meta."""
_HEADS: Final = [b"\x92\xc4" + bytes([length]) for length in range(256)]
"""The bytes that msgpack puts in front of a pair of a meta and something."""


def encoded_item(meta: bytes, payload: bytes) -> bytes:
    """`encode_item` of a payload that is encoded already."""
    length = len(meta)
    head = _HEADS[length] if length < 256 else b"\x92\xc5" + length.to_bytes(2, "big")
    return head + meta + payload


class _Slot:
    """A slot of a sink: what was delivered, and what waits."""

    __slots__ = ("before", "comparing", "expected", "items", "last", "sequence")

    def __init__(self, last: LastBundle | None, compare: bool, floor: bytes) -> None:
        self.sequence = 0 if last is None else last.sequence
        self.before: bytes = LEAST
        """Up to here it was delivered before."""
        self.expected: deque[tuple[bytes, bytes]] = deque()
        self.comparing = False
        self.items: list[bytes] = []
        self.last: bytes = LEAST
        if last is not None and compare:
            self.before = last.t_last
            items = ((meta, codec.encode(payload)) for meta, payload in codec.decode_items(last.items))
            self.expected.extend(item for item in items if item[0] >= floor)


class SinkOutput:
    """The slots of one sink in one partition."""

    def __init__(
        self, sink: str, consumer: TaskConsumer, slots: list[int], *, compare: bool, floor: bytes = b"",
        until: bytes = BEYOND,
    ) -> None:  # fmt: skip
        """From `floor` on it is computed again, and not what is at or above `until`: a later batch's."""
        self._sink, self._consumer, self._until = sink, consumer, until
        last: Mapping[Slot, LastBundle] = consumer.open(slots)
        self._slots = {slot: _Slot(last.get(Slot(slot)), compare, floor) for slot in slots}
        self._waiting = self._size = 0
        self.delivered = self.repeated = 0
        self.outputs: dict[int, tuple[int, bytes]] = {}
        """slot -> (sequence, t_last) of what was delivered now."""

    def put(self, slot: int, meta: bytes, payload: bytes) -> None:
        """The next item: metas ascend."""
        its = self._slots[slot]
        if meta <= its.before:
            self.repeated += 1
            self._check(slot, its, meta, payload)
            return
        if its.expected:
            self._differs(slot, its.expected[0][0], NOT_AGAIN)
        its.items.append(encoded_item(meta, payload))
        its.last = meta
        self._waiting += 1
        self._size += len(payload)
        if self._waiting >= ITEMS_A_CALL or self._size >= BYTES_A_CALL:
            self.flush()

    def flush(self) -> None:
        """Hand over what waits."""
        bundles = [self._bundle(slot, its) for slot, its in self._slots.items() if its.items]
        if bundles:
            self._consumer.deliver(bundles)
            self.delivered += self._waiting
            self._waiting = self._size = 0

    def end(self) -> None:
        """All items have come."""
        for slot, its in self._slots.items():
            # A batch before that never was committed may have come further than this one (!).
            if its.expected and its.expected[0][0] < self._until:
                self._differs(slot, its.expected[0][0], NOT_AGAIN)
        self.flush()

    def _bundle(self, slot: int, its: _Slot) -> Bundle:
        its.sequence += 1
        bundle = Bundle(Slot(slot), SequenceNumber(its.sequence), Meta(its.last), codec.join_items(its.items))
        self.outputs[slot] = (its.sequence, its.last)
        its.items = []
        return bundle

    def _check(self, slot: int, its: _Slot, meta: bytes, payload: bytes) -> None:
        # Of what comes before the last bundle's items nothing is known; from the first of these on each must
        # be there.
        if not its.expected or (meta < its.expected[0][0] and not its.comparing):
            return
        expected_meta, expected = its.expected.popleft()
        its.comparing = True
        if expected_meta < meta:
            self._differs(slot, expected_meta, NOT_AGAIN)
        if expected_meta > meta:
            self._differs(slot, meta, NOT_BEFORE)
        if payload != expected:
            self._differs(
                slot,
                meta,
                f"was delivered as {codec.decode(expected)!r} and is now {codec.decode(payload)!r}",
            )

    def _differs(self, slot: int, meta: bytes, what: str) -> None:
        raise UserError(
            f"sink {self._sink!r}, slot {slot}: the result of the run at time {time_of_meta(Meta(meta))} "
            f"(meta {meta.hex()}) {what}. "
            "The functions or the input that lead to this sink changed since, or the functions are not "
            "deterministic; to begin anew, give the sink another place"
        )
