"""The audit: did every result that had to be there arrive once, in its slot and in order?

`audit` compares what the sinks were given with what the reference interpreter gives for the recorded input, item by item, by meta and
payload: by values with their types, and not by an encoding, whose mistakes would be on both sides. `classify` says which guarantee of the
formal model a history keeps: definition 6 (exactly once: some run over the input gives this output), 7 (at most once: some run over a part
of the input does), 8 (at least once: some run over the input with repeats).

What a slot lacks before its own last item is lost. What it lacks behind that is lost if it is `due`, and else not due yet: who audits
says which results had to be there, so that a slot which is silent for ever is lost output and not output under way.

>>> item = (meta_of(Time(4096), 0), "a")
>>> audit({"texts": [Result(*item)]}, {"texts": [Delivered(item[0], Slot(0), SequenceNumber(1), "a")] * 2}).doubled
1
>>> verdict = audit({"texts": [Result(*item, due=False)]}, {})
>>> verdict.lost, verdict.not_due
(0, 1)

Keeps: nothing counts twice: an item is right, doubled, foreign or (if absent) lost or not due. Does not: know how outputs were read, or
what had to be there (cli/audit.py).
Source: "Delivery, consistency and determinism" (the delivery paper), definitions 6 to 8.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

from flamestream.model import payload as payloads
from flamestream.model.exact import exact
from flamestream.model.graph import Graph
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, meta_of, time_of_meta
from flamestream.model.slot import DEFAULT_SLOTS, slot_of
from flamestream.model.time import Time, Timestamp, front_of, time_of
from flamestream.reference import Run, interpret

Guarantee = Literal["exactly-once", "at-most-once", "at-least-once", "none"]
MAX_UNSEEN: Final = 12
"""Records without an own result that `classify` tries both with and without: 2^12 runs of the reference."""
MAX_REPLAYS: Final = 64
"""Longest input for which `classify` tries every replayed stretch."""


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
    """Where it belongs; None: that is not looked at."""
    due: bool = True
    """It has to be there whatever else is."""


Expected = Mapping[str, Iterable[Result]]
History = Mapping[str, Sequence[Delivered]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit found."""

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
        """Whether a job with this guarantee may have delivered so. Under at-least-once repeats of equal (meta, bytes) do not count."""
        wrong = self.lost or self.foreign or self.misplaced or self.reordered
        return not wrong if guarantee == "at-least-once" else self.clean


class _Identity(NamedTuple):
    """What makes two items the same."""

    meta: Meta
    sink: str
    payload: Hashable
    """Its exact form."""


def audit(expected: Expected, delivered: History) -> Verdict:
    """Compare the outputs of all sinks."""
    results = {_Identity(each.meta, sink, exact(each.payload)): each for sink, given in expected.items() for each in given}
    items = [(_Identity(item.meta, sink, exact(item.payload)), item) for sink, given in delivered.items() for item in given]
    got = Counter(identity for identity, _ in items)
    newest = _newest(results, got)
    absent = [identity for identity in results if identity not in got]
    lost = [i for i in absent if results[i].due or i.meta < newest.get((i.sink, results[i].slot), LEAST)]
    doubled, foreign = Counter({i: n - 1 for i, n in got.items() if i in results and n > 1}), [i for i, _ in items if i not in results]
    misplaced = [i for i, item in items if i in results and results[i].slot not in (None, item.slot)]
    late = [i for sink in delivered for i in _behind(sink, delivered[sink])]
    told = {"lost": lost, "doubled": doubled, "foreign": foreign, "misplaced": misplaced, "reordered": late}
    first = min(
        ((i, what) for what, found in told.items() for i in found), key=lambda each: (each[0].meta, each[0].sink, each[1]), default=None
    )
    return Verdict(
        expected=len(results), delivered=len(items), lost=len(lost), not_due=len(absent) - len(lost), doubled=doubled.total(),
        foreign=len(foreign), misplaced=len(misplaced), reordered=len(late),
        first_difference=_told(*first, results, items) if first else "",
    )  # fmt: skip


def _newest(results: Mapping[_Identity, Result], got: Iterable[_Identity]) -> dict[tuple[str, Slot | None], Meta]:
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


def _told(identity: _Identity, what: str, results: Mapping[_Identity, Result], items: Iterable[tuple[_Identity, Delivered]]) -> str:
    result = results.get(identity)
    value = repr(next(item.payload for each, item in items if each == identity) if result is None else result.payload)
    short = value if len(value) <= 200 else f"{value[:200]}..."
    return f"{what} in sink {identity.sink!r}: {short} at time {time_of_meta(identity.meta)} (meta {identity.meta.hex()})"


def classify(graph: Graph, runs: Sequence[Run], history: History, slots: int = DEFAULT_SLOTS) -> Guarantee:
    """The strongest definition that `history` satisfies for the input `runs`. An output that is still under way is not lost."""
    verdict = audit({sink: [Result(*item) for item in items] for sink, items in interpret(graph, runs).items()}, history)
    clean_so_far = not (verdict.doubled or verdict.foreign or verdict.reordered)
    if clean_so_far and (not verdict.lost or _is_prefix(graph, runs, history, slots)):
        return "exactly-once"
    if not (verdict.doubled or verdict.reordered) and any(_gives(graph, part, history) for part in _parts(runs, history)):
        return "at-most-once"
    if not (verdict.foreign or verdict.lost or verdict.reordered) or any(_gives(graph, again, history) for again in _replays(runs)):
        return "at-least-once"
    return "none"


def _is_prefix(graph: Graph, runs: Sequence[Run], history: History, slots: int) -> bool:
    """What each slot lacks comes after all that it has."""
    outputs = interpret(graph, runs)
    for vertex in graph.sinks:
        newest: dict[Slot, Meta] = {}
        for item in history.get(vertex.name, ()):
            newest[item.slot] = max(item.meta, newest.get(item.slot, LEAST))
        have = {item.meta for item in history.get(vertex.name, ())}
        for meta, value in outputs[vertex.name]:
            key = value if vertex.key is None else vertex.key(value)
            if meta not in have and meta < newest.get(slot_of(payloads.encode(key), slots), LEAST):
                return False
    return True


def _gives(graph: Graph, runs: Sequence[Run], history: History) -> bool:
    """Whether the reference's outputs for `runs` are the history's, as payloads: dropped and repeated records shift metas."""
    outputs = interpret(graph, runs)
    return all(
        Counter(exact(value) for _, value in outputs[sink]) == Counter(exact(item.payload) for item in items)
        for sink, items in history.items()
    )


def _parts(runs: Sequence[Run], history: History) -> Iterator[list[Run]]:
    """The input without some of the records that no delivered item descends from."""
    metas = [item.meta for items in history.values() for item in items]
    unseen = [
        (time, position)
        for time, records in runs
        for position in range(len(records))
        if not any(meta.startswith(meta_of(time, position)) for meta in metas)
    ]
    if len(unseen) > MAX_UNSEEN:
        choices: Iterable[tuple[tuple[Time, int], ...]] = [tuple(unseen)]
    else:
        choices = (without for size in range(len(unseen) + 1) for without in combinations(unseen, size))
    for without in choices:
        yield [(time, [record for at, record in enumerate(records) if (time, at) not in without]) for time, records in runs]


def _replays(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """The input with one stretch of records twice: what a recovery that keeps its state and replays counts again."""
    records = [(time, record) for time, batch in runs for record in batch]
    if len(records) > MAX_REPLAYS:
        return
    for end in range(1, len(records) + 1):
        for start in range(end):
            again = records[:end] + records[start:]
            yield [(time_of(Timestamp(number), front_of(time)), [record]) for number, (time, record) in enumerate(again, 1)]
