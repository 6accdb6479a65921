"""Grouping and reduce: whatever the order of arrival, the live results are those of the sequential order."""

import random
from collections import Counter
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.grouping import Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.reduce import Reduce
from flamestream.core.dataflow.user_code import folded
from flamestream.core.protocol.chain import Row, chains_of
from flamestream.model import payload as codec
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor, meta_of
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads.state import delta_state, encode_state
from flamestream.model.time import START, Time

SLOT = Slot(0)


def _at(n: int) -> Meta:
    return meta_of(Time(n), 0)


def _grouping(window: int) -> Grouping:
    return Grouping(1, LiveCuts(START), window)


def _joined(accumulator: str, item: str) -> str:
    if item == "bad":
        raise ValueError("bad item")
    return accumulator + item


def _reduce(cuts: LiveCuts | None = None) -> Reduce:
    graph = fs.Graph("g")
    graph.source("s").reduce(key=lambda p: "k", initial=str, combine=_joined).sink("t")
    return Reduce(1, cuts or LiveCuts(START), folded(graph.vertices[1], debug=False))


class Live:
    """The multiset of what went out and was not taken back. A tombstone without its item is refused."""

    def __init__(self) -> None:
        self.items: Counter[tuple[Meta, bytes]] = Counter()

    def apply(self, changes: list[tuple[Meta, Any, bool]]) -> None:
        for meta, value, gone in changes:
            item = (meta, codec.encode(value))
            self.items[item] += -1 if gone else 1
            assert self.items[item] >= 0, "a tombstone left without its item"

    @property
    def sorted(self) -> list[tuple[Meta, Any]]:
        return sorted(
            ((meta, codec.decode(value)) for meta, value in self.items.elements()), key=lambda item: item[0]
        )


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(20))
def test_windows_are_those_of_the_sequential_order_for_every_order_of_arrival(window: int, seed: int) -> None:
    rng, live, operation = random.Random(seed), Live(), _grouping(window)
    kept, gone = list(range(12)), list(range(100, 104))
    todo = [(n, False) for n in kept + gone]
    rng.shuffle(todo)
    for n in gone:
        todo.insert(rng.randint(todo.index((n, False)) + 1, len(todo)), (n, True))
    for n, tombstone in todo:
        at = _at(n % 100 * 2 + (n >= 100))
        live.apply((operation.remove if tombstone else operation.insert)(b"k", SLOT, at, n))
    assert live.sorted == [(_at(n * 2), tuple(kept[max(0, n - window + 1) : n + 1])) for n in kept]


@pytest.mark.parametrize("seed", range(40))
def test_a_fold_is_that_of_the_sequential_order_for_every_order_of_arrival(seed: int) -> None:
    rng, live, operation = random.Random(seed), Live(), _reduce()
    letters = "abcdefghij"
    todo = [(n, letters[n], False) for n in range(10)] + [(20 + n, "X", False) for n in range(3)]
    rng.shuffle(todo)
    for n in range(3):
        todo.insert(rng.randint(todo.index((20 + n, "X", False)) + 1, len(todo)), (20 + n, "X", True))
    for n, item, tombstone in todo:
        at = _at(n * 3 if n < 20 else (n - 20) * 6 + 1)
        live.apply((operation.remove if tombstone else operation.insert)(b"k", SLOT, at, item))
    assert live.sorted == [(_at(n * 3), letters[: n + 1]) for n in range(10)]


def test_versions_of_one_item_share_a_meta_and_are_told_apart_by_their_payload() -> None:
    live, operation = Live(), _grouping(1)
    live.apply(operation.insert(b"k", SLOT, _at(1), "old"))
    live.apply(operation.insert(b"k", SLOT, _at(1), "new"))
    live.apply(operation.remove(b"k", SLOT, _at(1), "old"))
    assert live.sorted == [(_at(1), ("new",))]


def test_a_tombstone_without_its_item_is_a_bug() -> None:
    operation = _grouping(2)
    operation.insert(b"k", SLOT, _at(1), "x")
    with pytest.raises(UserError, match="two results for one input"):
        operation.remove(b"k", SLOT, _at(1), "y")


def test_a_failed_combine_leaves_the_accumulator_and_gives_an_error() -> None:
    operation = _reduce()
    operation.insert(b"k", SLOT, _at(1), "a")
    [(meta, error, _)] = operation.insert(b"k", SLOT, _at(2), "bad")
    assert (meta, type(error)) == (_at(2), ErrorValue)
    assert "ValueError" in error.error
    assert operation.insert(b"k", SLOT, _at(3), "b") == [(_at(3), "ab", False)]


def test_results_that_do_not_change_are_not_taken_back() -> None:
    graph = fs.Graph("g")
    graph.source("s").reduce(key=lambda p: "k", initial=int, combine=max).sink("t")
    operation = Reduce(1, LiveCuts(START), folded(graph.vertices[1], debug=False))
    operation.insert(b"k", SLOT, _at(1), 9)
    operation.insert(b"k", SLOT, _at(5), 3)
    assert operation.insert(b"k", SLOT, _at(3), 4) == [(_at(3), 9, False)]


@pytest.mark.parametrize("window", [2, 3])
def test_trimming_keeps_what_every_live_cut_needs(window: int) -> None:
    cuts = LiveCuts(START)
    operation = Grouping(1, cuts, window)
    for n in range(100):
        operation.insert(b"k", SLOT, _at(n), n)
        if n == 30:
            cuts.advance(Time(20))
            cuts.announce(Epoch(1), Time(20))
        if n > 30:
            cuts.advance(Time(n - 5))
    assert len(operation.buckets[b"k"].metas) < 40
    assert operation.state_at(b"k", Time(20)) == tuple(range(20 - window + 1, 20))
    assert operation.state_at(b"k", cuts.minimal) == tuple(range(94 - window + 1, 94))


def test_a_reduce_keeps_one_accumulator_a_live_cut() -> None:
    cuts = LiveCuts(START)
    operation = _reduce(cuts)
    for n in range(100):
        operation.insert(b"k", SLOT, _at(n), "x")
        if n == 30:
            cuts.advance(Time(20))
            cuts.announce(Epoch(1), Time(20))
        if n > 30:
            cuts.advance(Time(n - 5))
    assert len(operation.buckets[b"k"].entries) < 40
    assert operation.state_at(b"k", Time(20)) == "x" * 20


@pytest.mark.parametrize("kind", ["grouping", "reduce"])
def test_going_back_to_the_cut_forgets_exactly_what_is_above(kind: str) -> None:
    cuts = LiveCuts(START)
    operation: Any = Grouping(1, cuts, 3) if kind == "grouping" else _reduce(cuts)
    for n in range(10):
        operation.insert(b"k", SLOT, _at(n), "abcdefghij"[n])
    operation.insert(b"other", SLOT, _at(9), "z")
    cuts.advance(Time(6))
    cuts.announce(Epoch(1), Time(6))
    before = operation.state_at(b"k", Time(6))
    cuts.commit(Time(6))
    for _ in operation.committed(Time(6)):
        pass
    operation.go_back(Time(6))
    assert operation.state_at(b"k", Time(6)) == before
    assert list(operation.buckets) == [b"k"]
    again = operation.insert(b"k", SLOT, _at(6), "g")
    assert again == [(_at(6), ("e", "f", "g") if kind == "grouping" else "abcdefg", False)]


@pytest.mark.parametrize("kind", ["grouping", "reduce"])
def test_rows_of_several_epochs_restore_the_state_at_the_last_cut(kind: str) -> None:
    cuts = LiveCuts(START)
    make: Any = (lambda c: Grouping(1, c, 3)) if kind == "grouping" else _reduce
    operation, rows = make(cuts), []
    for n in range(60):
        operation.insert(f"k{n % 4}".encode(), SLOT, _at(n), "ab"[n % 2])
        if n % 10 == 9:
            cuts.advance(Time(n - 2))
            cuts.announce(Epoch(n), Time(n - 2))
            rows += [row for row in operation.rows(1, Epoch(n), Time(n - 2)) if row is not None]
            cuts.commit(Time(n - 2))
            for _ in operation.committed(Time(n - 2)):
                pass
    restored = make(LiveCuts(cuts.committed))
    random.Random(1).shuffle(rows)
    restored.load(chains_of(rows))
    for key in operation.buckets:
        assert restored.state_at(key, cuts.committed) == operation.state_at(key, cuts.committed)


def test_only_changed_buckets_have_rows() -> None:
    cuts = LiveCuts(START)
    operation = _reduce(cuts)
    operation.insert(b"a", SLOT, _at(1), "a")
    operation.insert(b"b", SLOT, _at(2), "b")
    cuts.advance(Time(3))
    cuts.announce(Epoch(1), Time(3))
    assert {row.key for row in operation.rows(1, Epoch(1), Time(3)) if row} == {b"a", b"b"}
    cuts.commit(Time(3))
    list(operation.committed(Time(3)))
    operation.insert(b"b", SLOT, _at(5), "b")
    cuts.advance(Time(9))
    assert {row.key for row in operation.rows(1, Epoch(2), Time(9)) if row} == {b"b"}


def test_a_growing_accumulator_costs_a_delta_and_not_itself() -> None:
    graph = fs.Graph("g")
    graph.source("s").reduce(key=lambda p: "k", initial=fs.Vector, combine=lambda a, p: a.append(p)).sink("t")
    cuts = LiveCuts(START)
    operation = Reduce(1, cuts, folded(graph.vertices[1], debug=False))
    sizes = []
    for n in range(3000):
        operation.insert(b"k", SLOT, _at(n), n)
        if n % 100 == 99:
            cuts.advance(Time(n + 1))
            cuts.announce(Epoch(n), Time(n + 1))
            sizes += [len(row.state) for row in operation.rows(1, Epoch(n), Time(n + 1)) if row]
            cuts.commit(Time(n + 1))
            list(operation.committed(Time(n + 1)))
    full = len(codec.encode(operation.state_at(b"k", cuts.committed)))
    assert sorted(sizes)[len(sizes) // 2] < full / 4
    assert floor(cuts.committed) == cuts.all[0]


def _row(epoch: int, full: bool, state: bytes) -> Row:
    return Row(1, SLOT, b"k", Epoch(epoch), full, state)


def test_a_change_whose_base_was_compacted_away_is_superseded() -> None:
    vector = fs.Vector([1, 2])
    delta = delta_state(vector, vector.append(3))
    assert delta is not None
    restored = _reduce()
    restored.load(chains_of([_row(2, False, delta), _row(3, True, encode_state("newest"))]))
    assert restored.state_at(b"k", Time(9)) == "newest"


def test_changes_without_what_they_change_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="not what they change"):
        _reduce().load(chains_of([_row(2, False, b"")]))
