"""The job record: what is taken for one can be gone on from; anything else is refused where it is read."""

import json
from typing import Any

import msgspec
import pytest

from flamestream.core.protocol.formats import NEWEST
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.ids import MAX_ATTEMPT, MAX_EPOCH
from flamestream.model.time import END, START
from support.core.coordinating import Bench

LAYOUT = {"version": 2, "owners": ["a", "b"], "fronts": ["a"], "acker": "b"}
WHOLE: dict[str, Any] = {
    "attempt": 3, "layout": LAYOUT, "announced": 5, "committed": 4, "cut": 9, "index": "m",
    "index_hash": "00", "job": "j",
}  # fmt: skip
OUT_OF_RANGE: dict[str, dict[str, Any]] = {
    "an attempt of 10^400": {"attempt": 10**400},
    "an attempt without a next one": {"attempt": MAX_ATTEMPT},
    "an attempt below zero": {"attempt": -1},
    "an epoch of 10^400": {"announced": 10**400},
    "an epoch without a next one": {"announced": MAX_EPOCH},
    "an epoch below zero": {"committed": -1},
    "a commit that nobody announced": {"committed": 6},
    "a cut beyond all times": {"cut": END + 1},
    "a cut of 10^400": {"cut": 10**400},
    "a cut below all times": {"cut": START - 1},
    "a version of 10^400": {"layout": LAYOUT | {"version": 10**400}},
    "no slots": {"layout": LAYOUT | {"owners": []}},
    "a million slots": {"layout": LAYOUT | {"owners": ["a"] * 1_000_000}},
    "a million fronts": {"layout": LAYOUT | {"fronts": ["a"] * 1_000_000}},
}


def test_a_record_of_a_newer_release_is_refused_and_a_field_more_alone_is_not() -> None:
    """Who passes over what it does not know would go wrong by the first."""
    known = WHOLE | {"format": NEWEST}
    assert from_json(_text(known | {"more": "of a newer one"}), JobRecord) == from_json(
        _text(known), JobRecord
    )
    newer = f"its format is {NEWEST + 1}, of a newer FlameStream, and this one reads up to {NEWEST}"
    with pytest.raises(DecodeError, match=newer):
        from_json(_text(WHOLE | {"format": NEWEST + 1}), JobRecord)


@pytest.mark.parametrize("changed", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_number_that_no_coordinator_has_written_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        from_json(_text(WHOLE | changed), JobRecord)


def _text(value: Any) -> str:
    """With numbers of any size, which msgspec does not write."""
    return json.dumps(value)


@pytest.mark.parametrize(
    "changed", [{}, {"cut": END, "committed": 5}, {"attempt": MAX_ATTEMPT - 1, "announced": MAX_EPOCH - 1}]
)
def test_what_is_in_range_is_gone_on_from(changed: dict[str, Any]) -> None:
    record = from_json(_text(WHOLE | {"layout": LAYOUT | {"version": 7}} | changed), JobRecord)
    assert from_json(msgspec.json.encode(record), JobRecord) == record
    bench = Bench()
    bench.outside.record, bench.outside.version = record, 1
    bench.say()
    assert bench.finish is None or bench.finish.category != "bug"
