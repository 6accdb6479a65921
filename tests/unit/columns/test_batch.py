"""A function gets from the columns of another what it would get from payloads."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from flamestream.columns.batch import Batch
from flamestream.columns.shape import Shape, array, payloads, shape_of
from flamestream.model.vertex import Kind
from flamestream.simulation.jobs.chains import Item, counted, doubled, entered, kept, renamed, sometimes_none

PAIRS = [("a", "2"), ("b", "3"), ("c", "21"), ("d", "40"), ("e", "51"), ("a", "67"), ("b", "70"), ("c", "8")]
ITEM = shape_of(Item, "Item")


def made(function: Any, kind: Kind, items: Any) -> Batch:
    _, batch = function.for_kind(kind).batch(items)
    assert isinstance(batch, Batch)
    return batch


def items() -> Batch:
    return made(entered, Kind.MAP, PAIRS)


@pytest.mark.parametrize(("first", "count"), [(0, 8), (0, 4), (3, 4)])
def test_columns_are_handed_over_as_they_are(first: int, count: int) -> None:
    batch = made(renamed, Kind.MAP, items()).part(first, count)
    assert batch.given_to(ITEM) is batch.values


def test_what_is_behind_nulls_is_not() -> None:
    batch = made(sometimes_none, Kind.MAP, items())
    missing = batch.values.is_null().to_pylist()
    assert any(missing) and not all(missing)
    given = batch.given_to(shape_of(Item | None, "Item | None"))
    assert given.equals(array(batch.shape, batch.payloads()))
    assert [value is None for value in given.field("value").to_pylist()] == missing
    assert [value is None for value in batch.values.field("value").to_pylist()] != missing, (
        "there was something"
    )


@pytest.mark.parametrize("kind", [Item, Item | None])
def test_what_lists_do_not_show_is_not_there(kind: Any) -> None:
    """A flat_map may return lists that begin behind the first element."""
    batch = made(doubled, Kind.FLAT_MAP, items())
    assert len(batch) == len(batch.payloads()) > 0
    assert batch.given_to(shape_of(kind, "")).to_pylist() == array(ITEM, batch.payloads()).to_pylist()


def test_another_type_is_made_of_payloads() -> None:
    whole = Batch(shape_of(int, ""), pa.array([1, 2]))
    assert whole.given_to(shape_of(float, "")).equals(pa.array([1.0, 2.0]))
    with pytest.raises(AttributeError, match="value"):
        made(counted, Kind.MAP, items()).given_to(ITEM)


def test_parts_join_to_the_whole() -> None:
    whole = items()
    assert whole.part(0, 3).joined(whole.part(3, 5)).payloads() == whole.payloads()


def test_a_filter_leaves_what_is_true_and_says_how_many_of_each() -> None:
    whole = items()
    function = kept.for_kind(Kind.FILTER)
    ends, staying = function.batch(whole)
    answers = [bool(function(item)) for item in whole.payloads()]
    assert isinstance(staying, Batch) and 0 < len(staying) < len(whole)
    assert staying.payloads() == [
        item for item, stays in zip(whole.payloads(), answers, strict=True) if stays
    ]
    counts = pa.Array.from_buffers(pa.int32(), len(whole) + 1, [None, ends]).to_pylist()
    assert [end - start for start, end in pairwise(counts)] == answers
    assert function.batch(whole.payloads())[1] is None


def test_a_part_has_nothing_of_the_others() -> None:
    shape: Shape = shape_of(tuple[int, ...], "")
    part = Batch(shape, pa.array([[1, 2], [3], [4, 5]], pa.list_(pa.int64()))).part(1, 2)
    given = part.given_to(shape)
    assert given.values.to_pylist() == [3, 4, 5] and payloads(shape, given) == [(3,), (4, 5)]
