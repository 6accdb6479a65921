"""Payloads of every kind, for hypothesis, and what "equal, with the same types" means, written down without
the encoding."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
from hypothesis import strategies as st

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.payload import event, payload_type

FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)  # noqa: DTZ001 (of any zone)


@payload_type
@dataclass(frozen=True, slots=True)
class Slotted:
    """Three fields, as users write them."""

    word: Any
    count: Any
    places: Any


@payload_type
@dataclass(frozen=True)
class Open:
    """With a `__dict__`."""

    only: Any


@payload_type
class Packed(msgspec.Struct, frozen=True):
    """A msgspec struct."""

    left: Any
    right: Any


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), -float("nan")]),
    st.text(max_size=8),
    st.binary(max_size=8),
)
VALUES = st.one_of(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=-30))]),
        min_value=FIRST,
        max_value=LAST,
    ).map(
        lambda at: at.replace(fold=0)  # which these zones have no use for
    ),
    st.dates(),
    st.decimals(allow_nan=False, allow_infinity=False),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=4)
    return st.one_of(
        some.map(tuple),
        some.map(Vector),
        some.map(Set),
        st.lists(st.tuples(inner, inner), max_size=4).map(Map),
        st.builds(Slotted, inner, inner, inner),
        st.builds(Open, inner),
        st.builds(Packed, inner, inner),
    )


PAYLOADS = st.recursive(st.one_of(SCALARS, VALUES), _containers, max_leaves=12)


def same(left: Any, right: Any) -> bool:
    """Equal with the same types all the way down, with one NaN and two zeros."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (
            math.isnan(left) and math.isnan(right)
            if math.isnan(left)
            else left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, Map):
        return _all_same(left.items(), right.items(), len(left), len(right))
    if isinstance(left, tuple | Vector | Set):
        return _all_same(left, right, len(left), len(right))
    if isinstance(left, Packed):
        return same(left.left, right.left) and same(left.right, right.right)
    if isinstance(left, Slotted | Open):
        return all(same(getattr(left, field.name), getattr(right, field.name)) for field in fields(left))
    # datetimes of two zones and decimals of two lengths are equal, but not the same
    return repr(left) == repr(right)


def _all_same(left: Any, right: Any, left_size: int, right_size: int) -> bool:
    return left_size == right_size and all(same(a, b) for a, b in zip(left, right, strict=True))


def defined(name: str, of: Mapping[str, Any], defaults: Mapping[str, Any] = {}) -> Any:
    """The class of this module with these annotations, from now on instead of the one before."""
    return event(type(name, (), {"__module__": __name__, "__annotations__": dict(of), **defaults}))
