"""Slot output: sorted results of one sink become bundles, without a look into a payload; what was delivered before is checked and dropped.

The same rules as core/delivery.py, which has decoded payloads and a barrier before it: a bundle's items are spliced from their
encodings here, and a replay is compared as bytes.

Keeps: per slot, sequences without gap, ascending metas, nothing twice; a difference to the last bundle is an error that names the place.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from flamestream.core.actions import Bundle
from flamestream.core.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, time_of_meta
from flamestream.spark.frames.consumer import TaskConsumer

ITEMS_A_CALL: Final = 16_384
BYTES_A_CALL: Final = 8 << 20
_HEADS: Final = [b"\x92\xc4" + bytes([length]) for length in range(256)]
"""What msgpack puts in front of a pair of a meta and something."""


def encoded_item(meta: bytes, payload: bytes) -> bytes:
    """`encode_item` of a payload that is encoded already."""
    length = len(meta)
    head = _HEADS[length] if length < 256 else b"\x92\xc5" + length.to_bytes(2, "big")
    return head + meta + payload


class SinkOutput:
    """One sink's slots of one partition."""

    def __init__(self, sink: str, consumer: TaskConsumer, slots: list[int], *, compare: bool, floor: bytes = b"") -> None:
        """`floor`: below it nothing is computed again."""
        self._sink, self._consumer = sink, consumer
        self._last: Mapping[Slot, LastBundle] = consumer.open(slots)
        self._compare, self._floor = compare, floor
        self._slot = -1
        self._seen: set[int] = set()
        self._before: bytes = LEAST
        self._expected: deque[tuple[bytes, bytes]] = deque()
        self._comparing = False
        self._sequence = 0
        self._items: list[bytes] = []
        self._meta: bytes = LEAST
        self._bundles: list[Bundle] = []
        self._waiting = self._size = 0
        self.delivered = self.repeated = 0
        self.outputs: dict[int, tuple[int, bytes]] = {}
        """slot -> (sequence, t_last) of what was delivered now."""

    def put(self, slot: int, meta: bytes, payload: bytes) -> None:
        """The next item: slots ascend, and metas within a slot."""
        if slot != self._slot:
            self._begin(slot)
        if meta <= self._before:
            self.repeated += 1
            self._check(meta, payload)
            return
        if self._expected:
            self._differs(self._expected[0][0], "was delivered before and is not computed again")
        self._items.append(encoded_item(meta, payload))
        self._meta = meta
        self._size += len(payload)
        if len(self._items) + self._waiting >= ITEMS_A_CALL or self._size >= BYTES_A_CALL:
            self.flush()

    def flush(self) -> None:
        """Hand over what waits."""
        self._bundle()
        if self._bundles:
            self._consumer.deliver(self._bundles)
            self._bundles = []
            self._waiting = self._size = 0

    def end(self) -> None:
        """All items have come."""
        self._end_slot()
        for slot in self._last.keys() - self._seen if self._compare else ():
            self._begin(slot)
            self._end_slot()
        self.flush()

    def _begin(self, slot: int) -> None:
        self._end_slot()
        self._slot, self._before, self._sequence, self._comparing = slot, LEAST, 0, False
        self._seen.add(slot)
        last = self._last.get(Slot(slot))
        if last is not None:
            self._sequence = last.sequence
            if self._compare:
                self._before = last.t_last
                items = ((meta, codec.encode(payload)) for meta, payload in codec.decode_items(last.items))
                self._expected.extend(item for item in items if item[0] >= self._floor)

    def _end_slot(self) -> None:
        if self._expected:
            self._differs(self._expected[0][0], "was delivered before and is not computed again")
        self._bundle()

    def _bundle(self) -> None:
        if self._items:
            self._sequence += 1
            self._bundles.append(Bundle(Slot(self._slot), SequenceNumber(self._sequence), self._meta, codec.join_items(self._items)))
            self.outputs[self._slot] = (self._sequence, self._meta)
            self.delivered += len(self._items)
            self._waiting += len(self._items)
            self._items = []

    def _check(self, meta: bytes, payload: bytes) -> None:
        if not self._expected or (meta < self._expected[0][0] and not self._comparing):
            return
        expected_meta, expected = self._expected.popleft()
        self._comparing = True
        if expected_meta < meta:
            self._differs(expected_meta, "was delivered before and is not computed again")
        if expected_meta > meta:
            self._differs(meta, "was not delivered before, though later ones were")
        if payload != expected:
            self._differs(meta, f"was delivered as {codec.decode(expected)!r} and is now {codec.decode(payload)!r}")

    def _differs(self, meta: bytes, what: str) -> None:
        raise UserError(
            f"sink {self._sink!r}, slot {self._slot}: the result of the run at time {time_of_meta(Meta(meta))} (meta {meta.hex()}) {what}. "
            "The functions or the input that lead to this sink changed since, or the functions are not deterministic; to begin anew, "
            "give the sink another place"
        )
