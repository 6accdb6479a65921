"""The native kernel gives what its Python reference gives: the same bytes, values, refusals and messages."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.dataflow.stored import Reading
from flamestream.model.collections import Vector
from flamestream.model.collections.vector import append_in_python
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.kernel import kernel
from flamestream.model.payloads import codec, encoding, state
from support.payloads import PAYLOADS, same

pytestmark = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)

NO_PAYLOADS = st.sampled_from(
    [[1], {"a": 1}, {1}, 2**64, -(2**63) - 1, "\ud800", object, (1, [2]), (("\udfff",),), 1j, Vector([1, 2])]
)
ANYTHING = st.one_of(PAYLOADS, NO_PAYLOADS, st.tuples(PAYLOADS, NO_PAYLOADS))


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (PayloadError, Corrupt) as error:
        return type(error), str(error)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


@given(ANYTHING)
def test_what_is_encoded_or_refused(value: Any) -> None:
    assert outcome(codec.encode, value) == outcome(encoding.encode, value)
    assert outcome(codec.check, value) == outcome(encoding.check, value)
    assert outcome(codec.checked_size, value) == outcome(encoding.checked_size, value)
    assert outcome(codec.height_of, value) == outcome(encoding.height_of, value)


@pytest.mark.parametrize("levels", [62, 63, 64, 65, 66, 200])
def test_the_same_depth_is_too_deep(levels: int) -> None:
    value = deep(levels)
    assert outcome(codec.encode, value) == outcome(encoding.encode, value)
    assert outcome(codec.height_of, value, 63) == outcome(encoding.height_of, value, 63)
    assert outcome(codec.encode_many, [value]) == outcome(encoding.encode_many, [value])


@given(st.lists(ANYTHING, max_size=20))
def test_many_at_once(values: list[Any]) -> None:
    items = [(b"meta", value) for value in values]
    assert outcome(codec.encode_many, values) == outcome(encoding.encode_many, values)
    assert outcome(codec.encode_items, items) == outcome(encoding.encode_items, items)


@given(
    st.one_of(st.binary(max_size=40), PAYLOADS.map(encoding.encode)),
    st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=2))),
)
def test_damaged_bytes_are_read_or_refused_alike(data: bytes, damage: list[tuple[int, bytes]]) -> None:
    damaged = bytearray(data)
    for place, new in damage:
        damaged[place % (len(damaged) + 1) : place % (len(damaged) + 1) + len(new)] = new
    for native, reference in (
        (codec.decode, encoding.decode),
        (codec.decode_many, encoding.decode_many),
        (codec.decode_items, encoding.decode_items),
    ):
        ours, theirs = outcome(native, bytes(damaged)), outcome(reference, bytes(damaged))
        assert type(ours) is type(theirs)
        assert (
            ours == theirs
            if isinstance(ours, tuple) and ours and isinstance(ours[0], type)
            else same(_tupled(ours), _tupled(theirs))
        )


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


@given(st.integers(0, 1200), st.lists(PAYLOADS, max_size=40))
def test_a_vector_grows_to_the_same_vector(before: int, values: list[Any]) -> None:
    native = reference = Vector(range(before))
    for value in values:
        native, reference = native.append(value), append_in_python(reference, value)
    slots = ("_size", "_level", "_counts")
    assert [getattr(native, slot) for slot in slots] == [getattr(reference, slot) for slot in slots]
    assert codec.encode(native) == encoding.encode(reference)


@given(st.integers(0, 1200), st.lists(st.one_of(st.integers(), st.sampled_from(["pop", "set"])), max_size=80))
def test_an_accumulator_s_change_is_the_delta_that_the_reference_writes(
    before: int, steps: list[Any]
) -> None:
    """The kernel writes the delta of a Vector that only grew itself; of any other it asks the reference, so
    both must restore."""
    old: Vector[Any] = Vector(range(before))
    new = old
    for step in steps:
        if step == "pop":
            new = new.pop() if len(new) else new
        elif step == "set":
            new = new.set(len(new) // 2, "changed") if len(new) else new
        else:
            new = new.append(str(step))
    assert kernel is not None
    assert kernel.delta(old, new) in (None, state.delta_state(old, new))


def shape(vector: Any) -> list[Any]:
    """All that a Vector is made of."""
    return [
        vector._size,
        vector._level,
        vector._counts,
        codec.encode(vector._root),
        codec.encode(tuple(vector._tail)),
    ]


@given(st.one_of(st.integers(0, 1200).map(lambda size: list(range(size))), st.lists(PAYLOADS, max_size=80)))
def test_a_vector_is_read_as_its_constructor_makes_it(values: list[Any]) -> None:
    assert shape(codec.decode(codec.encode(Vector(values)))) == shape(Vector(values))


@given(
    st.integers(0, 100),
    st.lists(st.one_of(st.integers(0, 60), st.sampled_from(["pop", "set", "lost"])), max_size=6),
    st.data(),
)
def test_a_stored_chain_is_restored_as_the_reference_does(
    before: int, steps: list[Any], data: st.DataObject
) -> None:
    """Of deltas that append the kernel makes the Vector itself; any other chain it leaves to the
    reference."""
    assert kernel is not None
    vector: Vector[Any] = Vector(range(before))
    stored = [codec.encode(vector)]
    for step in steps:
        newer = vector
        if isinstance(step, int):
            newer = vector.extend([data.draw(PAYLOADS) for _ in range(step % 7)] + ["more"] * (step // 2))
        elif len(vector):
            newer = vector.pop() if step == "pop" else vector.set(0, "changed")
        if step != "lost" and (change := state.delta_state(vector, newer)) is not None:
            stored.append(change)
        vector = newer
    native = kernel.restored(tuple(stored))
    if native is None:
        assert not all(isinstance(step, int) for step in steps)
    else:
        assert shape(native) == shape(Reading().accumulator(tuple(stored)))
