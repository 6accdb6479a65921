"""The audit: was every input counted once, and did every result arrive once and in order?

`audit` compares what the sinks were given with what the reference interpreter gives for the recorded input, item by item, by meta and
canonical bytes. `classify` says which guarantee of the formal model a history keeps: definition 6 (exactly once: some run over the input
gives this output), 7 (at most once: some run over a part of the input does), 8 (at least once: some run over the input with repeats).

>>> item = (meta_of(Time(4096), 0), "a")
>>> audit({"texts": [item]}, {"texts": [Delivered(item[0], Slot(0), SequenceNumber(1), "a")] * 2}).doubled
1

Keeps: nothing counts twice: an item is right, doubled, foreign or (if absent) lost. Does not: know how outputs were read (cli/audit.py).
Source: "Delivery, consistency and determinism" (the delivery paper), definitions 6 to 8.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

from flamestream.model import payload as payloads
from flamestream.model.graph import Graph
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, meta_of, time_of_meta
from flamestream.model.slot import DEFAULT_SLOTS, slot_of
from flamestream.model.time import Time, Timestamp, front_of, time_of
from flamestream.testing.reference import Run, interpret

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


Expected = Mapping[str, Sequence[tuple[Meta, Any]]]
History = Mapping[str, Sequence[Delivered]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit found."""

    expected: int
    delivered: int
    lost: int
    doubled: int
    foreign: int
    """Items that the reference does not have at all."""
    reordered: int
    """Items behind a later one of their slot, or in a bundle with an older sequence number."""
    first_difference: str

    @property
    def clean(self) -> bool:
        """Byte for byte what the reference gives."""
        return not (self.lost or self.doubled or self.foreign or self.reordered)

    def keeps(self, guarantee: str) -> bool:
        """Whether a job with this guarantee may have delivered so. Under at-least-once repeats of equal (meta, bytes) do not count."""
        return not (self.lost or self.foreign or self.reordered) if guarantee == "at-least-once" else self.clean


class _Identity(NamedTuple):
    """What makes two items the same."""

    meta: Meta
    sink: str
    payload: bytes


def audit(expected: Expected, delivered: History) -> Verdict:
    """Compare the outputs of all sinks."""
    wanted = Counter(_Identity(meta, sink, payloads.encode(value)) for sink, items in expected.items() for meta, value in items)
    got = Counter(_Identity(item.meta, sink, payloads.encode(item.payload)) for sink, items in delivered.items() for item in items)
    lost, extra = wanted - got, got - wanted
    doubled = sum(count for identity, count in extra.items() if identity in wanted)
    late = [item for sink in delivered for item in _behind(sink, delivered[sink])]
    differences = sorted([*((i, "lost") for i in lost), *((i, "doubled" if i in wanted else "foreign") for i in extra), *late])
    return Verdict(
        expected=wanted.total(), delivered=got.total(), lost=lost.total(), doubled=doubled, foreign=extra.total() - doubled,
        reordered=len(late), first_difference=_told(*differences[0]) if differences else "",
    )  # fmt: skip


def _behind(sink: str, items: Iterable[Delivered]) -> Iterator[tuple[_Identity, str]]:
    """Items that came after a later one of their slot. An exact repeat is doubled, not late."""
    newest: dict[Slot, tuple[SequenceNumber, Meta]] = defaultdict(lambda: (SequenceNumber(0), LEAST))
    seen: set[tuple[Slot, Meta, bytes]] = set()
    for item in items:
        data = payloads.encode(item.payload)
        sequence, meta = newest[item.slot]
        if (item.slot, item.meta, data) not in seen and (item.meta < meta or item.sequence < sequence):
            yield _Identity(item.meta, sink, data), "reordered"
        seen.add((item.slot, item.meta, data))
        newest[item.slot] = (max(sequence, item.sequence), max(meta, item.meta))


def _told(identity: _Identity, what: str) -> str:
    value = repr(payloads.decode(identity.payload))
    short = value if len(value) <= 200 else f"{value[:200]}..."
    return f"{what} in sink {identity.sink!r}: {short} at time {time_of_meta(identity.meta)} (meta {identity.meta.hex()})"


def classify(graph: Graph, runs: Sequence[Run], history: History, slots: int = DEFAULT_SLOTS) -> Guarantee:
    """The strongest definition that `history` satisfies for the input `runs`. An output that is still under way is not lost."""
    verdict = audit(interpret(graph, runs), history)
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
        Counter(payloads.encode(value) for _, value in outputs[sink]) == Counter(payloads.encode(item.payload) for item in items)
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
