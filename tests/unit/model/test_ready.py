"""Ready-made functions are what a user would have written, and say early what cannot be."""

from dataclasses import dataclass
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.ready import Append, Count, Total


@fs.payload_type
@dataclass(frozen=True)
class Item:
    word: str
    number: int


@fs.payload_type
@dataclass(frozen=True)
class Change:
    number: int
    word: str


@dataclass(frozen=True)
class NoPayload:
    word: str


ITEMS = [Item("a", 1), Item("a", 5)]


@pytest.mark.parametrize(
    ("fold", "after"),
    [
        (fs.append("number"), fs.Vector([1, 5])),
        (fs.append("number", "word"), fs.Vector([(1, "a"), (5, "a")])), (fs.count(), 2),
        (fs.total("number"), 6),
    ],
)  # fmt: skip
def test_folds(fold: Append | Count | Total, after: object) -> None:
    accumulator: Any = fold.initial()
    for item in ITEMS:
        accumulator = fold(accumulator, item)
    assert accumulator == after


def test_records_take_fields_by_name_the_accumulator_and_its_size() -> None:
    assert fs.record(Change, "word", number=fs.size)(fs.Vector([1, 2, 3]), ITEMS[0]) == Change(3, "a")
    assert fs.record(Change, "number", word=fs.field("word"))(None, ITEMS[1]) == Change(5, "a")
    assert fs.record(Change, "word", number=fs.state)(7, ITEMS[0]) == Change(7, "a")


def test_a_record_says_each_field_of_its_class() -> None:
    with pytest.raises(GraphError, match=r"says word; the fields of the class are number, word"):
        fs.record(Change, "word")
    with pytest.raises(GraphError, match=r"put @fs\.payload_type above the class"):
        fs.record(NoPayload, "word")


def test_a_fold_of_ones_own_needs_its_beginning() -> None:
    stream = fs.Graph("g").source("s")
    with pytest.raises(GraphError, match="needs initial="):
        stream.reduce(key=fs.field("word"), combine=lambda a, p: a)  # type: ignore[call-overload]


def test_nothing_to_append_is_refused() -> None:
    with pytest.raises(GraphError, match="needs the name of a field"):
        fs.append()
