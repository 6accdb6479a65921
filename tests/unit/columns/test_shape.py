"""Payloads become arrays and arrays become payloads, by their annotations alone."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import flamestream as fs
from flamestream.columns.shape import array, conformed, payloads, shape_of
from flamestream.model.errors import GraphError


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Inner:
    share: float
    note: str | None


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    number: int
    flag: bool
    raw: bytes
    places: tuple[int, ...]
    inner: Inner
    inners: tuple[Inner, ...]
    other: Inner | None


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Vague:
    anything: Any


OUTERS = [
    Outer("ä", -(1 << 63), True, b"\0", (), Inner(0.5, None), (Inner(-0.0, "n"), Inner(1e300, None)), None),
    Outer("", (1 << 63) - 1, False, b"", (1, 2, 3), Inner(2.0, ""), (), Inner(1.0, "x")),
]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_payloads_come_back_as_they_were(count: int) -> None:
    shape = shape_of(Outer, "it")
    assert payloads(shape, conformed(shape, array(shape, OUTERS[:count]), "it")) == OUTERS[:count]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (str, ["a", ""]),
        (int, [1, -1]),
        (tuple[str, ...], [("a",), ()]),
        (int | None, [None, 3]),
        (bytes, [b"x"]),
    ],
)
def test_so_do_payloads_that_are_no_instances(kind: Any, values: list[Any]) -> None:
    shape = shape_of(kind, "it")
    assert payloads(shape, conformed(shape, array(shape, values), "it")) == values


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (Vague, r"it\.anything"),
        (list[int], "it is"),
        (tuple[int, str], "it is"),
        (int | str, "it is"),
        (fs.Vector, "it is"),
    ],
)
def test_an_annotation_that_has_no_arrow_type_is_refused_with_its_place(kind: Any, place: str) -> None:
    with pytest.raises(GraphError, match=place):
        shape_of(kind, "it")


def test_an_array_of_a_near_type_becomes_the_type() -> None:
    shape = shape_of(Inner, "it")
    near = pa.StructArray.from_arrays(
        [pa.array(["n", None]).dictionary_encode(), pa.array([1, 2], pa.int8())], ["note", "share"]
    )
    assert payloads(shape, conformed(shape, near, "it")) == [Inner(1.0, "n"), Inner(2.0, None)]


def test_a_piece_of_an_array_is_that_piece() -> None:
    shape = shape_of(Outer, "it")
    piece = array(shape, [*OUTERS, *OUTERS])[1:3]
    assert payloads(shape, conformed(shape, piece, "it")) == [OUTERS[1], OUTERS[0]]


@pytest.mark.parametrize(
    "lists",
    [
        pa.array([["a"], ["b", None]])[:1],
        pa.array([["b", None], ["a"]])[1:],
        pa.ListArray.from_arrays([0, 1, 3], ["a", "b", None], mask=pa.array([False, True]))[:1],
        pa.FixedSizeListArray.from_arrays(["a", None], 1)[:1],
    ],
)
def test_nulls_among_elements_that_no_list_shows_are_none(lists: Any) -> None:
    shape = shape_of(tuple[str, ...], "it")
    assert payloads(shape, conformed(shape, lists, "it")) == [("a",)]


def test_nor_are_those_behind_a_list_that_is_missing() -> None:
    shape = shape_of(tuple[str, ...] | None, "it")
    lists = pa.ListArray.from_arrays([0, 2, 3], ["b", None, "a"], mask=pa.array([True, False]))
    assert payloads(shape, conformed(shape, lists, "it")) == [None, ("a",)]


@pytest.mark.parametrize(
    ("values", "error", "told"),
    [
        (pa.array([1]), TypeError, "struct with the fields share, note"),
        (pa.array([{"share": 1.0}]), TypeError, "struct with the fields share, note"),
        (
            pa.StructArray.from_arrays([pa.nulls(1), pa.nulls(1)], ["share", "note"]),
            ValueError,
            r"it\.share has 1 nulls",
        ),
        (pa.array([{"share": "x", "note": "y"}]), TypeError, r"it\.share is string"),
        ([1.0], TypeError, "is a list"),
    ],
)
def test_what_is_not_of_the_type_is_said_with_its_place(
    values: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        conformed(shape_of(Inner, "it"), values, "it")
