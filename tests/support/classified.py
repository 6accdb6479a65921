"""Which guarantee of the formal model a recorded history keeps, found by trying: a second opinion beside the
audit's own verdict.

Definition 6 is exactly once (some run over the input gives this output), 7 at most once (some run over a part
of the input does), 8 at least once (some run over the input with repeats).

Source: "Delivery, consistency and determinism" (the delivery paper), definitions 6 to 8.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, Literal

from flamestream.model import payload as payloads
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta, meta_of
from flamestream.model.payloads.exact import exact
from flamestream.model.slot import DEFAULT_SLOTS, slot_of
from flamestream.model.time import Time, Timestamp, front_of, time_of
from flamestream.reference import Run, interpret
from flamestream.testing.audit import History, Result, audit

Guarantee = Literal["exactly-once", "at-most-once", "at-least-once", "none"]
MAX_UNSEEN: Final = 12
"""Records without an own result that `classify` tries both with and without: 2^12 runs of the reference."""
MAX_REPLAYS: Final = 64
"""Longest input for which `classify` tries every replayed stretch."""


def classify(graph: Graph, runs: Sequence[Run], history: History, slots: int = DEFAULT_SLOTS) -> Guarantee:
    """The strongest definition that `history` satisfies for the input `runs`. An output that is still under
    way is not lost."""
    verdict = audit(
        {sink: [Result(*item) for item in items] for sink, items in interpret(graph, runs).items()}, history
    )
    clean_so_far = not (verdict.doubled or verdict.foreign or verdict.reordered)
    if clean_so_far and (not verdict.lost or _is_prefix(graph, runs, history, slots)):
        return "exactly-once"
    if not (verdict.doubled or verdict.reordered) and any(
        _gives(graph, part, history) for part in _parts(runs, history)
    ):
        return "at-most-once"
    if not (verdict.foreign or verdict.lost or verdict.reordered) or any(
        _gives(graph, again, history) for again in _replays(runs)
    ):
        return "at-least-once"
    return "none"


def _is_prefix(graph: Graph, runs: Sequence[Run], history: History, slots: int) -> bool:
    """Whether all that each slot lacks comes after all that it has."""
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
    """Whether the reference's outputs for `runs` are the history's, as payloads: dropped and repeated records
    shift metas."""
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
        yield [
            (time, [record for at, record in enumerate(records) if (time, at) not in without])
            for time, records in runs
        ]


def _replays(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """The input with one stretch of records twice: what a recovery that keeps its state and replays counts
    again."""
    records = [(time, record) for time, batch in runs for record in batch]
    if len(records) > MAX_REPLAYS:
        return
    for end in range(1, len(records) + 1):
        for start in range(end):
            again = records[:end] + records[start:]
            yield [
                (time_of(Timestamp(number), front_of(time)), [record])
                for number, (time, record) in enumerate(again, 1)
            ]
