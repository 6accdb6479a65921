"""Samples of a snapshot that new code reads before it goes on from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.inventory import inventory_of, next_inventory
from flamestream.core.protocol.snapshot import SegmentRef, SnapshotIndex
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Epoch, Slot
from flamestream.model.payload import encode, encode_items
from flamestream.model.time import Time
from flamestream.node import stored_samples
from flamestream.node.stored_samples import look
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of, written
from flamestream.store.snapshots import checksum_of, put_and_compare
from support.payloads import defined


def graph(up: Callable[[Any], Any] | None = None) -> Graph:
    made = Graph("g")
    named: dict[str, Any] = {} if up is None else {"version": 2, "migrate": {1: up}}
    source = made.source("s")
    source.reduce(key=len, initial=int, combine=lambda a, p: a, name="fold", **named).sink("out")
    source.group(3, key=len, name="last", **named).sink("three")
    return made


def stored(folder: Path, *states: Any) -> tuple[LocalStore, SnapshotIndex]:
    """A snapshot in which each key of the fold, and the only item of each key of the grouping, is one of
    these."""
    store, before = LocalStore(folder, create=True), graph()
    fold, last = (each.number for each in before.operations)
    rows = []
    for key, state in enumerate(states):
        rows.append(Row(fold, Slot(0), encode(key), Epoch(1), True, encode(state)))
        rows.append(Row(last, Slot(0), encode(key), Epoch(1), True, encode_items([(b"m", state)])))
    data = written(table_of(rows))
    put_and_compare(store, "segment", data)
    ref = SegmentRef("segment", len(data), checksum_of(data), len(rows), (Slot(0),))
    return store, SnapshotIndex(
        job="j", graph=before.identity, python="", slots=1, epoch=Epoch(1), fence=NO_FENCE, cut=Time(1),
        segments=(ref,), fronts=(), outputs=(), inventory=next_inventory(None, inventory_of(before)),
    )  # fmt: skip


def test_where_nothing_has_changed_nothing_is_read(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1, 2, 3)
    assert look(graph(), store, lambda: index) == 0
    assert look(graph(), store, lambda: None) == 0


def test_a_step_is_tried_on_states_and_on_items(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1, 2, 3)
    seen: list[int] = []
    assert look(graph(lambda state: seen.append(state) or state), store, lambda: index) == 6  # type: ignore[func-returns-value]
    assert sorted(seen) == [1] * 4 + [2] * 4 + [3] * 4, "each twice, of both operations"


def test_so_many_keys_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_samples, "MOST_KEYS", 2)
    store, index = stored(tmp_path, 1, 2, 3)
    assert look(graph(lambda state: state), store, lambda: index) == 4


def test_a_step_that_fails_names_itself_and_its_version(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1, "two")
    with pytest.raises(
        UserError, match=r"fails for a state of version 1: TypeError.*migrate=\{1: ...\} has to take"
    ):
        look(graph(lambda state: state + 1), store, lambda: index)


def test_a_step_that_gives_no_payload_is_found(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1)
    with pytest.raises(UserError, match="a list is not a payload"):
        look(graph(lambda state: [state]), store, lambda: index)


def test_a_step_that_is_not_pure_is_found(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1)
    numbers = iter(range(100))
    with pytest.raises(UserError, match=r"migrate= of operation 'fold' of .* is not pure"):
        look(graph(lambda state: state + next(numbers)), store, lambda: index)


def test_a_class_that_does_not_fit_is_found(tmp_path: Path) -> None:
    store, index = stored(tmp_path, defined("Sampled", {"a": int})(1))
    defined("Sampled", {"a": str})
    with pytest.raises(UserError, match="the state of operation 'fold' cannot be read: payload class"):
        look(graph(), store, lambda: index)


def test_a_snapshot_that_is_replaced_meanwhile_is_looked_up_again(tmp_path: Path) -> None:
    store, index = stored(tmp_path, 1)
    gone = renamed(index, "other")
    found: Iterator[SnapshotIndex] = iter([gone, index])
    assert look(graph(lambda state: state), store, lambda: next(found)) == 2
    with pytest.raises(Corrupt, match="other"):
        look(graph(lambda state: state), store, lambda: gone)


def renamed(index: SnapshotIndex, name: str) -> SnapshotIndex:
    return replace(index, segments=(replace(index.segments[0], name=name),))
