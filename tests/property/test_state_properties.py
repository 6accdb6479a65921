"""Persistent collections against plain lists, dicts and sets, and deltas between any two versions of their
history.

Each example is a history: operations on any earlier version, so there are forks, resets and dead ends. Every
version must equal its plain model, and the delta between every pair of versions that has one must be right,
whether or not one came from the other.
"""

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.model import payload
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.payloads.state import apply_state_delta, delta_state
from support.payloads import SCALARS

KEYS = st.one_of(st.integers(0, 12), st.sampled_from(["a", "b", True, 1.0, (1,), None]))
VALUES = st.one_of(st.integers(0, 3), SCALARS, st.builds(Vector, st.lists(st.integers(0, 3), max_size=3)))
SIZES = st.sampled_from([0, 1, 2, 31, 32, 33, 64, 65, 1055, 1056, 1057, 1100])
PICK = st.integers(0, 10_000)


def check_all_deltas(versions: list[Any]) -> int:
    """Every delta that is given leads from the one to the other. How many were given."""
    given_ = 0
    for old, new in itertools.product(versions, versions):
        change = delta_state(old, new)
        if change is not None:
            given_ += 1
            assert payload.encode(apply_state_delta(old, change)) == payload.encode(new)
    return given_


@settings(max_examples=60)
@given(
    SIZES,
    st.lists(
        st.tuples(st.sampled_from(["append", "extend", "set", "pop", "first", "again"]), PICK, PICK, VALUES),
        max_size=10,
    ),
)
def test_a_vector_is_a_list_and_its_deltas_are_right(
    size: int, steps: list[tuple[str, int, int, Any]]
) -> None:
    models: list[list[Any]] = [[], list(range(size))]
    versions: list[Vector[Any]] = [Vector(), Vector(models[1])]
    for operation, pick, place, value in steps:
        # mostly the newest version, sometimes an older one: a fork
        at = len(models) - 1 if pick % 3 else pick % len(models)
        model, vector = list(models[at]), versions[at]
        if operation == "append":
            model, vector = [*model, value], vector.append(value)
        elif operation == "extend":
            more = [value] * (place % 70)
            model, vector = model + more, vector.extend(more)
        elif operation == "set" and model:
            model[place % len(model)] = value
            vector = vector.set(place % len(model), value)
        elif operation == "pop" and model:
            for _ in range(min(len(model), 1 + place % 40)):
                model.pop()
                vector = vector.pop()
        elif operation == "first":
            model, vector = model[: place % 1200], vector[: place % 1200]
        elif operation == "again":
            vector = Vector(model)
        models.append(model)
        versions.append(vector)
    for model, vector in zip(models, versions, strict=True):
        assert (len(vector), payload.encode(tuple(vector))) == (len(model), payload.encode(tuple(model)))
        assert payload.encode(vector) == payload.encode(Vector(model))
        assert [vector[i] is value for i, value in enumerate(model)] == [True] * len(model)
        payload.check(vector)
    assert check_all_deltas(versions) >= len(versions)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "set", "delete", "nest", "empty", "again"]), PICK, KEYS, VALUES),
        max_size=25,
    )
)
def test_a_map_is_a_dict_and_its_deltas_are_right(steps: list[tuple[str, int, Any, Any]]) -> None:
    models: list[dict[bytes, Any]] = [{}]
    versions: list[Map[Any, Any]] = [Map()]
    for operation, pick, key, value in steps:
        at = len(models) - 1 if pick % 4 else pick % len(models)
        model, mapping, code = dict(models[at]), versions[at], payload.encode(key)
        if operation == "set":
            model[code], mapping = value, mapping.set(key, value)
        elif operation == "nest" and isinstance(model.get(code), Vector):
            model[code] = model[code].append(pick)
            mapping = mapping.set(key, model[code])
        elif operation == "delete" and code in model:
            del model[code]
            mapping = mapping.delete(key)
        elif operation == "empty":
            model, mapping = {}, Map()
        elif operation == "again":
            mapping = Map(mapping.items())
        models.append(model)
        versions.append(mapping)
    for model, mapping in zip(models, versions, strict=True):
        assert {payload.encode(k): payload.encode(v) for k, v in mapping.items()} == {
            k: payload.encode(v) for k, v in model.items()
        }
        assert payload.encode(mapping) == payload.encode(Map(mapping.items()))
        assert all(mapping[payload.decode(code)] is value for code, value in model.items())
    assert check_all_deltas(versions) >= len(versions)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "add", "discard", "empty", "again"]), PICK, KEYS), max_size=25)
)
def test_a_set_is_a_set_and_its_deltas_are_right(steps: list[tuple[str, int, Any]]) -> None:
    models: list[set[bytes]] = [set()]
    versions: list[Set[Any]] = [Set()]
    for operation, pick, element in steps:
        at = len(models) - 1 if pick % 4 else pick % len(models)
        model, elements, code = set(models[at]), versions[at], payload.encode(element)
        if operation == "add":
            model, elements = model | {code}, elements.add(element)
        elif operation == "discard":
            model, elements = model - {code}, elements.discard(element)
        elif operation == "empty":
            model, elements = set(), Set()
        elif operation == "again":
            elements = Set(elements)
        models.append(model)
        versions.append(elements)
    for model, elements in zip(models, versions, strict=True):
        assert [payload.encode(element) for element in elements] == sorted(model)
        assert payload.encode(elements) == payload.encode(Set(elements))
    assert check_all_deltas(versions) >= len(versions)


@settings(max_examples=40)
@given(st.lists(st.tuples(KEYS, st.integers(0, 2)), min_size=1, max_size=20), st.integers(1, 5))
def test_a_chain_of_deltas_restores_the_newest_state(items: list[tuple[Any, int]], every: int) -> None:
    """A state of several parts, snapshotted every few items, as a worker does it."""
    state: tuple[Any, ...] = (0, Map(), Vector(), Set())
    stored, restored = state, payload.decode(payload.encode(state))
    for number, (key, value) in enumerate(items):
        count, postings, log, seen = state
        state = (
            count + 1,
            postings.set(key, postings.get(key, Vector()).append(value)),
            log.append((key, value)),
            seen.add(key),
        )
        if number % every == 0:
            change = delta_state(stored, state)
            restored = (
                payload.decode(payload.encode(state))
                if change is None
                else apply_state_delta(restored, change)
            )
            stored = state
            assert payload.encode(restored) == payload.encode(state)
