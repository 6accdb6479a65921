"""What a stream that runs on cannot change is one list, for a job of one machine and for one of a cluster."""

from dataclasses import fields, replace
from typing import Any

import pytest

from flamestream.job.settings import Fixed, changed

RUNS: Any = Fixed(
    "exactly-once", 256, "s3://a", {"folder": "j"}, "fail", {"docs": {"files": "a"}}, {"out": {"files": "o"}}
)
NAMES = {
    "guarantee": "spec.guarantee", "slots": "spec.workers.slots", "store": "spec.checkpoint.store",
    "journal": "spec.journal", "on_error": "spec.onError",
}  # fmt: skip


def test_the_same_is_no_change() -> None:
    assert changed(RUNS, replace(RUNS)) == ""


@pytest.mark.parametrize("field", NAMES)
def test_each_field_is_named(field: str) -> None:
    assert changed(RUNS, replace(RUNS, **{field: None})) == NAMES[field]


@pytest.mark.parametrize("kind", ["sources", "sinks"])
def test_a_place_that_moves_is_a_change_and_one_that_comes_or_goes_is_none(kind: str) -> None:
    before = getattr(RUNS, kind)
    (name,) = before
    assert changed(RUNS, replace(RUNS, **{kind: {name: {"files": "elsewhere"}}})) == f"spec.{kind}.{name}"
    assert changed(RUNS, replace(RUNS, **{kind: before | {"new": {}}})) == ""
    assert changed(RUNS, replace(RUNS, **{kind: {}})) == ""


def test_nothing_is_left_out() -> None:
    assert {field.name for field in fields(Fixed)} == {*NAMES, "sources", "sinks"}
