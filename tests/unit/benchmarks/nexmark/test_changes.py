"""Flink's lines are read as the rows that other systems give."""

import pytest
from nexmark.changes import change, left


def test_times_are_milliseconds_and_decimals_thousandths() -> None:
    line = (
        b'+I{"auction":1,"EXPR$1":90.8,"at":"2015-07-15 00:00:01.5Z","day":"2015-07-15","ends":"2015-07-15 '
        b'00:00:10"}'
    )
    assert change(line) == ("+I", (1, 90800, 1436918401500, "2015-07-15", 1436918410000))


def test_rows_that_were_withdrawn_are_not_left() -> None:
    lines = [b'+I{"a":1}', b'-U{"a":1}', b'+U{"a":2}', b'+I{"a":2}', b'-D{"a":2}']
    assert left(map(change, lines)) == [(2,)]


def test_the_last_row_of_a_key_is_left() -> None:
    assert left([("+I", (2, "a")), ("+I", (1, "b")), ("+U", (2, "c"))], key=1) == [(1, "b"), (2, "c")]


def test_a_row_that_goes_without_having_come_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 rows go that never came, as"):
        left([("-U", (1,))])
