"""The operation that decides a batch's transactions, over rows that a stream, a batch or an older release has left."""

from typing import Any

import flamestream as fs
from flamestream.core.protocol.chain import DELETED, Row
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.model import payload as codec
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import floor
from flamestream.model.payloads.state import encode_state
from flamestream.model.slot import slot_of
from flamestream.model.tables.ledger import ALL, Deciding, Rows
from flamestream.model.time import Time
from flamestream.model.windows.process import Side
from flamestream.spark.frames.kept_state import StatePart
from flamestream.spark.frames.origins import Origins
from flamestream.spark.frames.transacting import Transacting
from flamestream.spark.frames.walk import Walk
from flamestream.store.segment import table_of

SLOTS = 16
SLOT = slot_of(ALL, SLOTS)


class Earlier:
    """What a snapshot has, without a store."""

    def __init__(
        self, graph: fs.Graph, *segments: list[tuple[Any, int, bytes]], slots: tuple[int, ...]
    ) -> None:
        numbers = Numbers(graph)
        self.slots, self.known = slots, numbers.of_all()
        (self._number,) = numbers.of_states.values()
        self._tables = [table_of([self._row(*row) for row in segment]) for segment in segments]

    def part(self, vertex: int, slot: int) -> StatePart:
        return StatePart(vertex, self.known, self._tables)

    def _row(self, key: Any, epoch: int, state: bytes) -> Row:
        return Row(self._number, SLOT, codec.encode(key), Epoch(epoch), True, state)


def bank(*, indexed: bool = False) -> fs.Graph:
    graph = fs.Graph("bank")
    sums = graph.table("sums", initial=int)
    if indexed:
        sums.index("by_sum", key=lambda total: total)

    def add(state: Any, pair: tuple[str, int]) -> int:
        if pair[1]:
            state[sums, pair[0]] += pair[1]
        else:
            del state[sums, pair[0]]
        return int(state[sums, pair[0]])

    graph.source("pairs").transact(add).committed.sink("out")
    return graph


def left(graph: fs.Graph, earlier: Any, *pairs: tuple[str, int]) -> dict[Any, Any]:
    """The rows that these transactions leave: values, or DELETED."""
    (vertex,) = (each for each in graph.vertices if isinstance(each.combine, Deciding))
    walk = Walk(graph, SLOTS, Origins(graph, {}), fail=True)
    transacting = Transacting(vertex, walk, False, earlier)
    for number, pair in enumerate(pairs):
        transacting.take(floor(Time((number + 1) << 12)), Side(0, pair))
    rows = {}
    for _, slot, key, _, state in transacting.end():
        assert slot == SLOT and state[:1] == b"\x01"
        rows[codec.decode(key)] = DELETED if state[1:] == DELETED else codec.decode(state[1:])
    return rows


def test_only_rows_that_have_changed_are_left() -> None:
    graph = bank()
    earlier = Earlier(
        graph,
        [(("sums", key), 1, encode_state(number)) for key, number in (("a", 1), ("b", 2), ("c", 3))],
        [(("sums", "b"), 2, encode_state(20)), (("sums", "d"), 2, DELETED)],
        slots=(SLOT,),
    )
    found = left(graph, earlier, ("b", 1), ("c", 0), ("d", 5), ("e", 4), ("e", 0))
    assert found == {("sums", "b"): 21, ("sums", "c"): DELETED, ("sums", "d"): 5}


def test_rows_that_a_release_before_has_left_as_one_are_older_than_those_by_themselves() -> None:
    graph = bank(indexed=True)
    together = Rows(
        fs.Map({("sums", "a"): 1, ("sums", "b"): 1, ("sums", "c"): 7, ("by_sum", 9): fs.Set(["c"])})
    )
    earlier = Earlier(
        graph, [(None, 1, encode_state(together))], [(("sums", "b"), 2, encode_state(5))], slots=(SLOT,)
    )
    assert left(graph, earlier) == {
        ("by_sum", 1): fs.Set(["a"]),
        ("by_sum", 5): fs.Set(["b"]),
        ("by_sum", 7): fs.Set(["c"]),
        ("by_sum", 9): DELETED,
    }, "none of them is written anew, and the index that they had not is made"
    assert left(graph, earlier, ("a", 1), ("c", 0)) == {
        ("sums", "a"): 2,
        ("sums", "c"): DELETED,
        ("by_sum", 2): fs.Set(["a"]),
        ("by_sum", 5): fs.Set(["b"]),
        ("by_sum", 9): DELETED,
    }


def test_a_task_of_other_slots_leaves_nothing() -> None:
    graph = bank(indexed=True)
    together = Rows(fs.Map({("sums", "a"): 1}))
    other = Slot((SLOT + 1) % SLOTS)
    assert left(graph, Earlier(graph, [(None, 1, encode_state(together))], slots=(other,))) == {}
