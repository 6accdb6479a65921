"""fs.Vector, fs.Map and fs.Set as a user meets them: immutable values with the equality of payloads."""

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from flamestream.model import payload
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.collections.vector import values_from
from flamestream.model.errors import PayloadError

ALL = [Vector([1, 2]), Map({"a": 1, "b": 2}), Set([1, 2])]


def shape_of(vector: Vector[Any]) -> tuple[Any, ...]:
    """Of its own part: the list that holds its tail may be shared with versions that grew from it."""
    return vector._level, vector._root, values_from(vector, vector._size - 1 & ~31 if vector._size else 0)


def test_an_operation_leaves_the_old_value_as_it_was() -> None:
    vector, mapping, elements = Vector([1]), Map({"a": 1}), Set([1])
    vector.append(2).set(0, 5).pop().extend([7])
    mapping.set("a", 2).set("b", 3).delete("a")
    elements.add(2).discard(1)
    assert (list(vector), list(mapping.items()), list(elements)) == ([1], [("a", 1)], [1])


@pytest.mark.parametrize("value", ALL)
def test_no_attribute_can_be_added(value: Any) -> None:
    with pytest.raises(AttributeError):
        value.extra = 1


def test_equality_tells_types_apart_and_hashes_follow_it() -> None:
    assert Vector([1]) != Vector([True])
    assert Vector([1]) != (1,)
    assert Vector() != Set()
    assert Map({"a": 1}) != Map({"a": 1.0})
    assert Vector([float("nan")]) == Vector([float("nan")])
    for left, right in [
        (Vector([1]).append(2), Vector([1, 2])),
        (Map({2: 2}).set(1, 1), Map({1: 1, 2: 2})),
        (Set([2, 1]), Set([1, 2])),
    ]:
        assert left == right
        assert hash(left) == hash(right)


def test_keys_that_python_takes_for_one_are_several() -> None:
    keys = [1, True, 1.0, "1", b"1", (1,), Vector([1]), None, b"\x01"]
    mapping = Map((key, place) for place, key in enumerate(keys))
    assert len(mapping) == len(Set(keys)) == len(keys)
    assert [mapping[key] for key in keys] == list(range(len(keys)))
    assert [type(mapping.delete(key).get(key, "gone")) for key in keys] == [str] * len(keys)
    assert True not in Set([1])
    assert True not in Vector([1])
    assert 1 in Vector([1])


def test_a_map_and_a_set_are_walked_in_the_order_of_encoded_keys() -> None:
    keys = ["b", "a", 300, 2, "aa", (1,), None]
    expected = sorted(keys, key=payload.encode)
    assert list(Map((key, 1) for key in keys)) == expected
    assert list(Set(reversed(keys))) == expected
    assert (
        list(Map((key, key) for key in keys).values())
        == list(Map((key, 1) for key in keys).keys())
        == expected
    )


@pytest.mark.parametrize(
    "put",
    [
        lambda bad: Vector([bad]),
        lambda bad: Vector().append(bad),
        lambda bad: Vector().extend([1, bad]),
        lambda bad: Vector([1]).set(0, bad),
        lambda bad: Map({1: bad}),
        lambda bad: Map().set("a", bad),
        lambda bad: Map([((bad,), 1)]),
        lambda bad: Map().set((bad,), 1),
        lambda bad: Set([(bad,)]),
        lambda bad: Set().add((bad,)),
    ],
)
@pytest.mark.parametrize("bad", [[], 1 << 64, "\ud800", (1, {})])
def test_what_is_no_payload_cannot_be_put_in(put: Any, bad: Any) -> None:
    with pytest.raises(PayloadError):
        put(bad)


@pytest.mark.parametrize(
    "wrap", [lambda v: Vector([v]), lambda v: Map({1: v}), lambda v: Set([v]), lambda v: Map({v: 1})]
)
def test_nesting_is_bounded_when_elements_are_put_in(wrap: Any) -> None:
    value = wrap(1)
    for _ in range(payload.MAX_DEPTH - 1):
        value = wrap(value)
    assert payload.decode(payload.encode(value)) == value
    with pytest.raises(PayloadError, match="nests deeper"):
        wrap(value)
    with pytest.raises(PayloadError, match="nests deeper"):
        payload.check((value,))


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


def test_what_was_deep_and_is_not_any_more_nests_again() -> None:
    """The bound depends on the content alone, not on its history: live and restored states must be refused
    alike."""
    deep = _deep(payload.MAX_DEPTH - 1)
    for now_flat in (
        Vector([1, deep]).pop(),
        Vector([1, deep]).set(1, 2),
        Vector([1, deep])[:1],
        Map({1: deep}).set(1, 2),
        Map({1: deep, deep: 2}).delete(1).delete(deep),
        Set([1, deep]).discard(deep),
    ):
        assert payload.is_payload(Vector([now_flat]))


def test_a_vector_is_indexed_and_sliced_like_a_tuple() -> None:
    values = tuple(range(1100))
    vector = Vector(values)
    assert (vector[0], vector[-1], vector[1055], vector[1056]) == (0, 1099, 1055, 1056)
    for part in (
        slice(5, 9),
        slice(None, 1000),
        slice(40, None),
        slice(None, None, -7),
        slice(-3, None),
        slice(9, 5),
        slice(0, 2000),
    ):
        assert tuple(vector[part]) == values[part]
    assert vector[:] is vector
    assert list(reversed(vector)) == list(reversed(values))
    for outside in (1100, -1101):
        with pytest.raises(IndexError, match="outside a Vector of 1100 values"):
            vector[outside]
        with pytest.raises(IndexError):
            vector.set(outside, 1)
    with pytest.raises(IndexError):
        Vector().pop()


@pytest.mark.parametrize("size", [1, 32, 33, 1056, 1057, 32 * 1025])
def test_the_shape_of_a_vector_depends_on_its_length_alone(size: int) -> None:
    """Else a delta would have to compare tries of any two shapes."""
    grown: Vector[int] = Vector()
    for value in range(size):
        grown = grown.append(value)
    for vector in (
        grown,
        Vector(range(size + 100))[:size],
        Vector(range(size // 2)).extend(range(size // 2, size)),
    ):
        assert shape_of(vector) == shape_of(Vector(range(size)))


def test_versions_share_what_did_not_change() -> None:
    """An append to a big Vector makes a few small objects."""
    vector = Vector(range(100_000))
    longer = vector.append(1)
    assert sum(new is not old for new, old in zip(longer._root, vector._root, strict=True)) <= 1


def test_a_map_says_what_is_missing() -> None:
    with pytest.raises(KeyError):
        Map({"a": 1})["b"]
    with pytest.raises(KeyError):
        Map({"a": 1}).delete("b")
    assert Map().get("b", 5) == 5


def test_changing_nothing_gives_the_same_object() -> None:
    mapping, elements, vector = Map({"a": "x"}), Set(["a"]), Vector([1])
    assert mapping.set("a", mapping["a"]) is mapping
    assert elements.add("a") is elements
    assert elements.discard("b") is elements
    assert vector.extend([]) is vector


def test_reprs_can_be_read_and_are_bounded() -> None:
    assert repr(Vector([1, "a"])) == "Vector([1, 'a'])"
    assert repr(Map({"a": 1})) == "Map({'a': 1})"
    assert repr(Set([1])) == "Set([1])"
    assert (repr(Vector()), repr(Map()), repr(Set())) == ("Vector([])", "Map()", "Set()")
    assert repr(Vector(range(1000))).endswith("31, ... 1000 values])")
    assert len(repr(Map((i, i) for i in range(1000)))) < 500


@pytest.mark.parametrize("value", ALL)
def test_other_libraries_can_copy_and_pickle_them(value: Any) -> None:
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_a_long_history_is_freed_without_the_garbage_collector_and_without_recursion() -> None:
    class Watched:
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        watched = Watched()
        alive = weakref.ref(watched)
        mapping = Map((i, i) for i in range(400_000))
        link = mapping._link
        mapping._link = (link, watched, 0)
        for i in range(190_000):
            mapping = mapping.set(i, -1 - i)
        assert mapping._link[2] == 190_000
        del watched, link
        assert alive() is not None
        del mapping
        assert alive() is None
    finally:
        gc.enable()


def test_versions_that_grow_from_one_do_not_see_each_other() -> None:
    """They share the list of their tail; the second to grow copies its part."""
    base = Vector(range(3))
    left, right = base.append("left"), base.append("right")
    longer = left.pop().append("again").append("more")
    assert (list(base), list(left), list(right)) == ([0, 1, 2], [0, 1, 2, "left"], [0, 1, 2, "right"])
    assert list(longer) == [0, 1, 2, "again", "more"]
