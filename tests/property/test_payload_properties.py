"""Payloads of all kinds: the encoding is faithful, canonical, and safe to read from anyone."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from flamestream.model import payload
from flamestream.model.collections import Map, Vector
from flamestream.model.errors import Corrupt
from flamestream.model.payloads.state import apply_state_delta
from support.payloads import PAYLOADS, SCALARS, Slotted, same


@given(PAYLOADS)
def test_a_decoded_payload_is_what_was_encoded_with_the_same_types(value: Any) -> None:
    assert same(payload.decode(payload.encode(value)), value)


@given(PAYLOADS, PAYLOADS)
@example(1, True)
@example(1, 1.0)
@example(0.0, -0.0)
@example(float("nan"), -float("nan"))
@example((), Vector())
@example("a", b"a")
def test_payloads_have_equal_bytes_exactly_when_they_are_the_same(left: Any, right: Any) -> None:
    assert (payload.encode(left) == payload.encode(right)) == same(left, right)


@given(PAYLOADS)
def test_what_passes_the_check_can_be_encoded(value: Any) -> None:
    payload.check(value)
    assert payload.is_payload(value)


@given(st.lists(PAYLOADS, max_size=20))
def test_many_payloads_come_back_as_each_would(values: list[Any]) -> None:
    decoded = payload.decode_many(payload.encode_many(values))
    assert [payload.encode(value) for value in decoded] == [payload.encode(value) for value in values]


@given(st.lists(st.tuples(st.binary(max_size=12), PAYLOADS), max_size=20))
def test_joined_items_are_the_items_encoded_together(items: list[tuple[bytes, Any]]) -> None:
    joined = payload.join_items([payload.encode_item(meta, value) for meta, value in items])
    assert joined == payload.encode_items(items)
    assert [(meta, payload.encode(value)) for meta, value in payload.decode_items(joined)] == [
        (m, payload.encode(v)) for m, v in items
    ]


@given(st.lists(st.tuples(SCALARS, SCALARS), max_size=20), st.randoms(use_true_random=False))
def test_a_map_is_the_same_in_whatever_order_it_was_filled(pairs: list[tuple[Any, Any]], random: Any) -> None:
    filled = Map(pairs)
    shuffled = list(filled.items())
    random.shuffle(shuffled)
    assert payload.encode(Map(shuffled)) == payload.encode(filled)
    assert [payload.encode(key) for key in Map(shuffled)] == [payload.encode(key) for key in filled]


ANY_BYTES = st.one_of(st.binary(max_size=40), PAYLOADS.map(payload.encode))


@given(ANY_BYTES, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4))
def test_damaged_bytes_give_a_payload_or_corrupt_and_nothing_else(
    data: bytes, damage: list[tuple[int, int]]
) -> None:
    damaged = bytearray(data)
    for place, byte in damage:
        damaged[place % (len(damaged) + 1) : place % (len(damaged) + 1) + 1] = bytes([byte])
    state = (Vector(range(5)), Map({"a": Slotted("a", 1, ())}))
    for read in (
        payload.decode,
        payload.decode_many,
        payload.decode_items,
        lambda d: apply_state_delta(state, d),
    ):
        try:
            read(bytes(damaged))
        except Corrupt:
            continue
