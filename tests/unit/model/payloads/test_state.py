"""Deltas of states: small where the change is small, absent where they are not known, and never applied to
the wrong state."""

from typing import Any

import msgspec
import pytest

from flamestream.model import payload
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.collections.changes import LEAST_LIMIT
from flamestream.model.errors import Corrupt
from flamestream.model.payloads import state
from flamestream.model.payloads.state import apply_state_delta, decode_state, delta_state, encode_state
from support.payloads import Slotted

BIG_VECTOR: Vector[Any] = Vector(f"word {i}" for i in range(5000))
BIG_MAP: Map[Any, Any] = Map((f"word {i}", i) for i in range(5000))
BIG_SET: Set[Any] = Set(f"word {i}" for i in range(5000))


def roundtrip(old: Any, new: Any) -> bytes:
    """The delta, after it was applied and was right."""
    change = delta_state(old, new)
    assert change is not None, "there is a cheap delta"
    assert encode_state(apply_state_delta(old, change)) == encode_state(new)
    return change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BIG_VECTOR, BIG_VECTOR),
        (BIG_VECTOR, BIG_VECTOR.append("x").append("y")),
        (BIG_VECTOR, BIG_VECTOR.set(7, "x").set(4999, "y").set(2500, "z")),
        (BIG_VECTOR, BIG_VECTOR.pop().pop()),
        (BIG_VECTOR.append("x"), BIG_VECTOR.append("y")),
        (BIG_MAP, BIG_MAP.set("word 1", 0).set("new", 1).delete("word 2")),
        (BIG_MAP, BIG_MAP.set("new", 1).delete("new")),
        (BIG_SET, BIG_SET.add("new").discard("word 1")),
        (Vector([BIG_MAP]), Vector([BIG_MAP]).set(0, BIG_MAP.set("new", 1))),
        ((1, BIG_MAP), (2, BIG_MAP)),
        ((1, BIG_MAP), (2, BIG_MAP.set("new", 1))),
        (Slotted("a", (1, BIG_VECTOR), BIG_MAP), Slotted("b", (2, BIG_VECTOR.append("x")), BIG_MAP)),
    ],
)
def test_a_small_change_of_a_big_state_is_a_small_delta(old: Any, new: Any) -> None:
    assert len(roundtrip(old, new)) < 200 < len(encode_state(new))


def test_a_value_of_a_map_that_is_a_collection_gets_a_delta_of_its_own() -> None:
    old = Map({"a": BIG_VECTOR})
    assert len(roundtrip(old, old.set("a", BIG_VECTOR.append("x")))) < 100


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, 2),
        ("a", "b"),
        (None, Vector()),
        (Vector(), Map()),
        ((1, 2), (1, 3)),
        ((1,), (1, BIG_MAP)),
        (BIG_MAP, Map(BIG_MAP.items())),
        (BIG_SET, Set(BIG_SET)),
        (BIG_MAP.set("x", 1), BIG_MAP.set("x", 1)),
        (BIG_MAP.set("x", 1), BIG_MAP),
        (Map(), Map()),
        (Vector(), BIG_VECTOR),
        (BIG_VECTOR, Vector()),
        (Vector(range(1000)), Vector(f"{i}" for i in range(1000))),
        ((BIG_MAP, 1), (Map(), 1)),
    ],
)
def test_without_a_cheap_delta_there_is_none(old: Any, new: Any) -> None:
    assert delta_state(old, new) is None


def test_a_journal_is_cut_when_it_is_longer_than_half_the_map_and_so_stays_bounded() -> None:
    start = mapping = Map((i, 0) for i in range(100))
    for i in range(50):
        mapping = mapping.set(1, i + 1)
    assert delta_state(start, mapping) is not None
    longer = mapping.set(1, "cut")
    assert delta_state(start, longer) is None
    assert delta_state(longer, longer.set(2, 1)) is not None
    small = Map({1: 0})
    for i in range(1000):
        small = small.set(1, i + 1)
        assert small._link[2] <= LEAST_LIMIT


def test_a_delta_does_not_fit_another_state() -> None:
    of_vector, of_map, of_set = (
        roundtrip(BIG_VECTOR, BIG_VECTOR.append("x")),
        roundtrip(BIG_MAP, BIG_MAP.set("x", 1)),
        roundtrip(BIG_SET, BIG_SET.add("x")),
    )
    of_members = roundtrip((1, BIG_MAP), (2, BIG_MAP))
    for change, wrong in [
        (of_vector, Vector([1])),
        (of_vector, BIG_MAP),
        (of_map, BIG_MAP.set("y", 1)),
        (of_map, BIG_MAP.delete("word 1").set("x", 1)),
        (roundtrip(BIG_MAP, BIG_MAP.set("word 1", "new")), BIG_MAP.delete("word 1")),
        (of_set, BIG_SET.discard("word 1").add("x")),
        (of_set, None),
        (of_members, (1, 2, 3)),
        (of_members, 1),
    ]:
        with pytest.raises(Corrupt):
            apply_state_delta(wrong, change)


@pytest.mark.parametrize(
    "wire",
    [
        [9, 1],
        [1, 2],
        [1, 2, 2, [5], [[0, 1]], []],
        [1, 2, 2, [-1], [[0, 1]], []],
        [1, 2, 2, [0], [], []],
        [1, 2, -5, [], [], []],
        [1, 2, 9, [], [], []],
        [1, 2, 2, [0], [[0, [77]]], []],
        [1, 2, 2, [0], [[2, 1, 1, [], [], []]], []],
        [0, {"a": 1}],
    ],
)
def test_a_hostile_delta_is_corrupt(wire: Any) -> None:
    with pytest.raises(Corrupt):
        apply_state_delta(Vector([1, 2]), msgspec.msgpack.encode(wire))


def test_a_delta_that_nests_without_end_is_corrupt() -> None:
    wire: Any = [0, 1]
    for _ in range(200):
        wire = [4, 1, [0], [wire]]
    deep: Any = 1
    for _ in range(payload.MAX_DEPTH):
        deep = (deep,)
    with pytest.raises(Corrupt):
        apply_state_delta(deep, msgspec.msgpack.encode(wire))
    with pytest.raises(Corrupt):
        apply_state_delta(deep, b"\x94\x04\x01\x91\x00\x91" * 100_000)


def test_a_full_state_is_the_canonical_encoding() -> None:
    assert decode_state(encode_state(BIG_MAP)) == BIG_MAP
    assert state.FULL_ABOVE > 0
