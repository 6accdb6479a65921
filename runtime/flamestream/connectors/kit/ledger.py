"""The ledger of a consumer: the last bundle of each slot, and the rule of what may follow it.

>>> ledger = Ledger()
>>> first = Bundle(Slot(7), SequenceNumber(1), b"t", b"items")
>>> ledger.check([first]), ledger.take([first]), ledger.check([first])
([Bundle(slot=7, sequence=1, t_last=b't', items=b'items')], None, [])

A sequence number follows the last one, or repeats it with the same bytes. Everything else is a fault of
whoever delivers, or of whoever kept the last bundle, and is never acknowledged.

Keeps: each slot's bundles are taken once, in the order of their numbers. Does not: fence (fences.py,
testing/consumer.py).
"""

from collections.abc import Iterable, Mapping, Sequence

from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Bug, Corrupt
from flamestream.model.ids import SequenceNumber, Slot


class Ledger:
    """The last bundle of each slot."""

    def __init__(self, last: Mapping[Slot, LastBundle] | None = None) -> None:
        self._last: dict[Slot, Bundle | LastBundle] = dict(last or {})

    def check(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """The bundles that are new. Raises Bug if one may not follow what is there; then none is to be
        taken."""
        fresh: list[Bundle] = []
        last = self._last
        ahead: dict[Slot, Bundle] = {}
        for bundle in bundles:
            # A delivery may have several bundles of a slot, each behind one that is not taken yet.
            before = ahead.get(bundle.slot) or last.get(bundle.slot)
            had = before.sequence if before is not None else 0
            if bundle.sequence == had + 1:
                fresh.append(bundle)
                ahead[bundle.slot] = bundle
            # (!) A repeat is acknowledged only if its bytes are equal: the same number with others is a
            # second history.
            elif (
                before is None
                or bundle.sequence != had
                or bundle.items != before.items
                or bundle.t_last != before.t_last
            ):
                raise Bug(refusal(bundle, had))
        return fresh

    def take(self, fresh: Iterable[Bundle]) -> None:
        """Remember bundles that `check` gave."""
        for bundle in fresh:
            self._last[bundle.slot] = bundle

    def reopened(self, last: Mapping[Slot, LastBundle], place: str) -> "Ledger":
        """A ledger of what `place` has now, over a new connection. Raises Corrupt if that is less than was
        known to be there."""
        for slot, before in self._last.items():
            had = last[slot].sequence if slot in last else 0
            if had < before.sequence:
                raise Corrupt(
                    f"{place} has lost data: it had bundle {before.sequence} of slot {slot} and now has {had}"
                )
        return Ledger(last)

    def last(self, slots: Iterable[Slot]) -> dict[Slot, LastBundle]:
        """The last bundle of each of `slots` that has one."""
        found = ((slot, self._last.get(slot)) for slot in slots)
        return {
            slot: LastBundle(last.sequence, last.t_last, last.items)
            for slot, last in found
            if last is not None
        }


def refusal(bundle: Bundle, had: int) -> str:
    """Why a bundle may not follow number `had`."""
    if bundle.sequence == had:
        what = "came again with other bytes: the job is not deterministic, or two jobs deliver to this sink"
    else:
        what = f"cannot follow {SequenceNumber(had)}: the next is {had + 1}"
    return f"slot {bundle.slot}: bundle {bundle.sequence} {what}"
