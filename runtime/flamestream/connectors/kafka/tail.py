"""The tail of an output topic: what was delivered after the newest state, and may be in no committed
transaction.

In the low-latency form an item counts once it is in the log. So a recovery reads, uncommitted, everything
behind the offsets that the writers' states name, and finds for each slot its last complete bundle. Of a
delivery that was cut off some items are there and some are not (they go to several partitions); those that
are there are remembered by meta and never written again.

Only the newest bundle of a slot can be incomplete, because the next one is sent after it is acknowledged; and
each record says of how many its bundle consists.

Keeps: an item that is in the log is never written twice, one that is not is never left out. Does not: read
(kafka/writing.py).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from flamestream.connectors.kafka.control import SlotState
from flamestream.connectors.kafka.items import Place, place_in
from flamestream.model import payload as codec
from flamestream.model.errors import Corrupt

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Message

Written = dict[bytes, tuple[Place, bytes | None]]
"""Records of a slot by meta, with their values."""
# Every slot's state goes into each transaction, so what is kept of a slot has to be short.
LONGEST_LAST: Final = 256


class Tail:
    """The records of the slots in `states`, from there on. `add` them in any order, then ask."""

    def __init__(
        self, tag: bytes, slots: Iterable[int], states: dict[int, SlotState], canonical: bool
    ) -> None:
        """`canonical`: values are encoded payloads, so that the last item can be kept for comparison."""
        self._tag = tag
        self._states = states
        self._canonical = canonical
        self._written: dict[int, Written] = {slot: {} for slot in slots}

    def add(self, message: "Message") -> None:
        """A record, ours or not."""
        headers: Any = message.headers()
        place = place_in(headers)
        if place is None or place.tag != self._tag or (written := self._written.get(place.slot)) is None:
            return
        state = self._states.get(place.slot)
        if state is None or place.meta > state.t_last:
            written[place.meta] = (place, message.value())

    def states(self) -> dict[int, SlotState]:
        """The last complete bundle of each slot that has more than was known."""
        found = ((slot, self._last_of(slot, written)) for slot, written in self._written.items() if written)
        return {slot: state for slot, state in found if state is not None}

    def metas(self) -> dict[int, set[bytes]]:
        """Everything that was found, by slot."""
        return {slot: set(written) for slot, written in self._written.items() if written}

    def _last_of(self, slot: int, written: Written) -> SlotState | None:
        # Who opens stores what it found before it writes: what is here of an older fence is left of a
        # delivery that was cut off, and makes no bundle.
        newest = max((place.attempt, place.layout) for place, _ in written.values())
        bundles: dict[int, list[bytes]] = {}
        for meta, (place, _) in sorted(written.items()):
            if (place.attempt, place.layout) == newest:
                bundles.setdefault(place.sequence, []).append(meta)
        last = max(bundles)
        # (!) Only the newest bundle of a slot can be incomplete: the next is sent after it is acknowledged.
        if len(bundles[last]) < written[bundles[last][0]][0].count:
            last -= 1
        if last not in bundles:
            return None
        place, value = written[bundles[last][-1]]
        return SlotState(slot, last, place.meta, place.digest, self._item(place.meta, value))

    def _item(self, meta: bytes, value: bytes | None) -> bytes:
        if not self._canonical:
            return b""
        try:
            return kept_item(codec.encode_items([(meta, None if value is None else codec.decode(value))]))
        except Corrupt:
            return b""


def kept_item(item: bytes) -> bytes:
    """A bundle's last item as `encode_items` gives it, to be compared at a replay; b"" if it is long."""
    return item if len(item) <= LONGEST_LAST else b""
