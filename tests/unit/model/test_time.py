"""Global time: one number that orders runs, and the next one of a front."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.model.time import (
    END,
    MAX_FRONTS,
    MAX_TIMESTAMP,
    START,
    FrontId,
    Time,
    Timestamp,
    front_of,
    next_time,
    time_of,
    timestamp_of,
)

TIMESTAMPS = st.one_of(st.integers(0, 5), st.integers(0, MAX_TIMESTAMP - 1)).map(Timestamp)
FRONTS = st.one_of(st.integers(0, 3), st.integers(0, MAX_FRONTS - 1)).map(FrontId)


@given(TIMESTAMPS, FRONTS)
def test_a_time_is_its_timestamp_and_its_front(timestamp: Timestamp, front: FrontId) -> None:
    time = time_of(timestamp, front)
    assert (timestamp_of(time), front_of(time)) == (timestamp, front)
    assert START <= time < END


@given(TIMESTAMPS, FRONTS, TIMESTAMPS, FRONTS)
def test_times_are_ordered_by_timestamp_then_front(
    t: Timestamp, f: FrontId, u: Timestamp, g: FrontId
) -> None:
    assert (time_of(t, f) < time_of(u, g)) == ((t, f) < (u, g))


@given(TIMESTAMPS, FRONTS, FRONTS)
def test_the_next_time_of_a_front_is_greater_and_nothing_of_that_front_is_between(
    t: Timestamp, f: FrontId, front: FrontId
) -> None:
    after = time_of(t, f)
    following = next_time(after, front)
    assert front_of(following) == front
    assert following - MAX_FRONTS <= after < following


@pytest.mark.parametrize(("timestamp", "front"), [(-1, 0), (MAX_TIMESTAMP + 1, 0), (0, -1), (0, MAX_FRONTS)])
def test_what_does_not_fit_is_refused(timestamp: int, front: int) -> None:
    with pytest.raises(AssertionError):
        time_of(Timestamp(timestamp), FrontId(front))


def test_the_greatest_time_has_a_next_one_that_fits_64_bits() -> None:
    greatest = time_of(Timestamp(MAX_TIMESTAMP), FrontId(MAX_FRONTS - 1))
    assert next_time(greatest, FrontId(MAX_FRONTS - 1)) <= END
    assert Time(2**64 - 1) == END
