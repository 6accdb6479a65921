"""The ledger of a Kafka sink: of each slot the last bundle by hash, and the metas that are in the output
above it.

>>> ledger = KafkaLedger({}, {})
>>> first = Bundle(Slot(7), SequenceNumber(1), b"t", codec.encode_items([(b"t", "item")]))
>>> ledger.fresh([first]) == [first]
True
>>> ledger.take([(first, [(b"t", "item")], digest_of(first.items))])
>>> ledger.fresh([first])
[]

The rule of what may follow is the ledger's (ledger.py); a repeated bundle is compared by its hash.

Keeps: each slot's bundles are taken once, in the order of their numbers. Does not: fence.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from flamestream.connectors.kafka.control import SlotState
from flamestream.connectors.kafka.items import digest_of
from flamestream.connectors.kafka.tail import kept_item
from flamestream.connectors.kit.ledger import refusal
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import Bug
from flamestream.model.ids import SequenceNumber, Slot

Items = Sequence[tuple[bytes, Any]]
_NO_ITEMS = codec.encode_items([])


class KafkaLedger:
    """The last bundles of one writer's slots."""

    def __init__(self, states: Mapping[int, SlotState], present: Mapping[int, set[bytes]]) -> None:
        self._states = dict(states)
        self._lasts: dict[int, tuple[bytes, Items]] = {}
        """The last item of states that lack it, encoded if that is at hand. Most are replaced before anybody
        asks."""
        self.present = {slot: set(metas) for slot, metas in present.items()}

    @property
    def states(self) -> list[SlotState]:
        """The state of every slot that has one."""
        self._complete()
        return list(self._states.values())

    @property
    def newest(self) -> bytes:
        """The greatest meta that is in the output of any slot."""
        there = [max(metas) for metas in self.present.values() if metas]
        return max([b"", *there, *(state.t_last for state in self._states.values())])

    def last(self, slots: Iterable[Slot]) -> dict[Slot, LastBundle]:
        """The last bundle of each of `slots` that has one."""
        self._complete()
        found = ((slot, self._states.get(slot)) for slot in slots)
        return {
            # The last item stands for its bundle at a replay: whole ones of all slots would go into every
            # transaction.
            slot: LastBundle(SequenceNumber(s.sequence), s.t_last, s.last or _NO_ITEMS)
            for slot, s in found
            if s is not None
        }

    def fresh(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """The bundles that are new. Raises Bug if one may not follow what is there; then none is to be
        taken."""
        fresh: list[Bundle] = []
        ahead: dict[Slot, int] = {}
        for bundle in bundles:
            state = self._states.get(bundle.slot)
            had = ahead.get(bundle.slot) or (state.sequence if state is not None else 0)
            if bundle.sequence == had + 1:
                fresh.append(bundle)
                ahead[bundle.slot] = bundle.sequence
            elif (
                bundle.slot in ahead
                or state is None
                or bundle.sequence != had
                or digest_of(bundle.items) != state.digest
            ):
                raise Bug(refusal(bundle, had))
        return fresh

    def take(self, fresh: Iterable[tuple[Bundle, Items, bytes]]) -> None:
        """Remember bundles that `fresh` gave, with their items and hash."""
        for bundle, items, digest in fresh:
            self._states[bundle.slot] = SlotState(bundle.slot, bundle.sequence, bundle.t_last, digest, b"")
            self._lasts[bundle.slot] = (bundle.items if len(items) == 1 else b"", items[-1:])
            # What the bundle covers is known by its number from now on.
            if (metas := self.present.get(bundle.slot)) is not None:
                self.present[bundle.slot] = {meta for meta in metas if meta > bundle.t_last}
                if not self.present[bundle.slot]:
                    del self.present[bundle.slot]

    def _complete(self) -> None:
        """Every state has the last item that it keeps."""
        for slot, (encoded, items) in self._lasts.items():
            self._states[slot] = msgspec.structs.replace(
                self._states[slot], last=kept_item(encoded or codec.encode_items(items))
            )
        self._lasts.clear()
