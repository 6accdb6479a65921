"""Slots: a fixed cut of the hash range, even and the same everywhere."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flamestream.model.payload import encode
from flamestream.model.slot import DEFAULT_SLOTS, INT32_MAX, INT32_MIN, hash_of, slot_of, slot_of_hash

HASHES = st.integers(INT32_MIN, INT32_MAX)
COUNTS = st.integers(1, 4096)


@given(st.binary(), COUNTS)
def test_a_keys_slot_is_the_slot_of_its_hash(canonical: bytes, slots: int) -> None:
    assert INT32_MIN <= hash_of(canonical) <= INT32_MAX
    assert slot_of(canonical, slots) == slot_of_hash(hash_of(canonical), slots)


@given(HASHES, HASHES, COUNTS)
def test_slots_cut_the_hash_range_in_order(low: int, high: int, slots: int) -> None:
    low, high = sorted((low, high))
    assert 0 <= slot_of_hash(low, slots) <= slot_of_hash(high, slots) < slots


@given(COUNTS)
def test_the_ends_of_the_range_are_the_first_and_the_last_slot(slots: int) -> None:
    assert (slot_of_hash(INT32_MIN, slots), slot_of_hash(INT32_MAX, slots)) == (0, slots - 1)


def test_usual_keys_are_spread_evenly() -> None:
    filled = Counter(slot_of(encode(f"word{i}"), DEFAULT_SLOTS) for i in range(25_600))
    assert len(filled) == DEFAULT_SLOTS
    assert max(filled.values()) < 200 < 2 * min(filled.values()) + 100


def test_slots_of_keys_are_fixed_for_ever() -> None:
    """State and consumers are filed under these numbers."""
    assert [slot_of(encode(key), 256) for key in ("a", 1, ("a", 1))] == [204, 165, 131]
