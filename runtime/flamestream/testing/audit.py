"""The audit: did every result that had to be there arrive once, in its slot and in order?

`audit` compares what the sinks were given with what the reference interpreter gives for the recorded input,
item by item, by meta and payload: by values with their types, and not by an encoding, whose mistakes would be
on both sides.

What a slot lacks before its own last item is lost. What it lacks behind that is lost if it is `due`, and else
not due yet: who audits says which results had to be there, so that a slot which is silent for ever is lost
output and not output under way.

>>> from flamestream.model.meta import meta_of
>>> from flamestream.model.time import Time
>>> item = (meta_of(Time(4096), 0), "a")
>>> audit({"texts": [Result(*item)]}, {"texts": [Delivered(item[0], Slot(0), SequenceNumber(1), "a")] * 2}).doubled
1
>>> verdict = audit({"texts": [Result(*item, due=False)]}, {})
>>> verdict.lost, verdict.not_due
(0, 1)

Keeps: nothing counts twice: an item is right, doubled, foreign or (if absent) lost or not due. Does not: know
how outputs were read, or what had to be there (audit/job_audit.py). Source: "Delivery, consistency and
determinism" (the delivery paper), definition 6.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, time_of_meta
from flamestream.model.payloads.exact import exact


class Delivered(NamedTuple):
    """An item as a consumer keeps it, in the order it came."""

    meta: Meta
    slot: Slot
    sequence: SequenceNumber
    payload: Any


class Result(NamedTuple):
    """An item as the reference gives it."""

    meta: Meta
    payload: Any
    slot: Slot | None = None
    """The slot where it belongs; None: that is not looked at."""
    due: bool = True
    """It has to be there whatever else is."""


Expected = Mapping[str, Iterable[Result]]
History = Mapping[str, Sequence[Delivered]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of an audit."""

    expected: int
    """Results of the reference, those that are not due included."""
    delivered: int
    lost: int
    not_due: int
    """Results that are missing, and need not be there yet."""
    doubled: int
    foreign: int
    """Items that the reference does not have at all."""
    misplaced: int
    """Items in a slot where they do not belong."""
    reordered: int
    """Items behind a later one of their slot, or in a bundle with an older sequence number."""
    first_difference: str

    @property
    def clean(self) -> bool:
        """Byte for byte what the reference gives."""
        return not (self.lost or self.doubled or self.foreign or self.misplaced or self.reordered)

    def keeps(self, guarantee: str) -> bool:
        """Whether a job with this guarantee may have delivered so. Under at-least-once repeats of equal
        (meta, bytes) do not count."""
        wrong = self.lost or self.foreign or self.misplaced or self.reordered
        return not wrong if guarantee == "at-least-once" else self.clean


class _Identity(NamedTuple):
    """The identity of an item: two with an equal one are the same."""

    meta: Meta
    sink: str
    payload: Hashable
    """Its exact form."""


def audit(expected: Expected, delivered: History) -> Verdict:
    """Compare the outputs of all sinks."""
    results = {
        _Identity(each.meta, sink, exact(each.payload)): each
        for sink, given in expected.items()
        for each in given
    }
    items = [
        (_Identity(item.meta, sink, exact(item.payload)), item)
        for sink, given in delivered.items()
        for item in given
    ]
    got = Counter(identity for identity, _ in items)  # by meta and exact value, not by an encoding (!)
    newest = _newest(results, got)
    absent = [identity for identity in results if identity not in got]
    lost = [i for i in absent if results[i].due or i.meta < newest.get((i.sink, results[i].slot), LEAST)]
    doubled, foreign = (
        Counter({i: n - 1 for i, n in got.items() if i in results and n > 1}),
        [i for i, _ in items if i not in results],
    )
    misplaced = [i for i, item in items if i in results and results[i].slot not in (None, item.slot)]
    late = [i for sink in delivered for i in _behind(sink, delivered[sink])]
    told = {"lost": lost, "doubled": doubled, "foreign": foreign, "misplaced": misplaced, "reordered": late}
    first = min(
        ((i, what) for what, found in told.items() for i in found),
        key=lambda each: (each[0].meta, each[0].sink, each[1]),
        default=None,
    )
    return Verdict(
        expected=len(results), delivered=len(items), lost=len(lost), not_due=len(absent) - len(lost),
        doubled=doubled.total(), foreign=len(foreign), misplaced=len(misplaced), reordered=len(late),
        first_difference=_told(*first, results, items) if first else "",
    )  # fmt: skip


def _newest(
    results: Mapping[_Identity, Result], got: Iterable[_Identity]
) -> dict[tuple[str, Slot | None], Meta]:
    """The last item that each slot has of those that belong there."""
    newest: dict[tuple[str, Slot | None], Meta] = {}
    for identity in got:
        if (result := results.get(identity)) is not None:
            place = identity.sink, result.slot
            newest[place] = max(identity.meta, newest.get(place, LEAST))
    return newest


def _behind(sink: str, items: Iterable[Delivered]) -> Iterator[_Identity]:
    """Items that came after a later one of their slot. An exact repeat is doubled, not late."""
    newest: dict[Slot, tuple[SequenceNumber, Meta]] = defaultdict(lambda: (SequenceNumber(0), LEAST))
    seen: set[tuple[Slot, Meta, Hashable]] = set()
    for item in items:
        data = exact(item.payload)
        if (item.slot, item.meta, data) in seen:
            continue
        seen.add((item.slot, item.meta, data))
        sequence, meta = newest[item.slot]
        if item.meta < meta or item.sequence < sequence:
            yield _Identity(item.meta, sink, data)
        newest[item.slot] = (max(sequence, item.sequence), max(meta, item.meta))


def _told(
    identity: _Identity,
    what: str,
    results: Mapping[_Identity, Result],
    items: Iterable[tuple[_Identity, Delivered]],
) -> str:
    result = results.get(identity)
    value = repr(
        next(item.payload for each, item in items if each == identity) if result is None else result.payload
    )
    short = value if len(value) <= 200 else f"{value[:200]}..."
    return (
        f"{what} in sink {identity.sink!r}: {short} at time {time_of_meta(identity.meta)} (meta "
        f"{identity.meta.hex()})"
    )
