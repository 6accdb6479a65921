"""Windows by the clocks of a zone: days of 23 and 25 hours, and hours that come twice or never."""

# ruff: noqa: DTZ001 (what clocks show has no zone)
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError, UserError
from flamestream.model.payloads.values import EPOCH
from flamestream.model.windows.zone import Zone
from flamestream.zones import zone_of

HOUR = 3_600_000_000
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "UTC",
]


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def bounds(shape: Any, at: datetime) -> tuple[datetime, datetime]:
    ((start, end),) = shape.windows(micros(at))
    return EPOCH + timedelta(microseconds=start), EPOCH + timedelta(microseconds=end)


@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2026, 3, 29), 23), (datetime(2026, 10, 25), 25), (datetime(2026, 7, 1), 24)]
)
def test_a_day_is_from_midnight_to_midnight_however_long(day: datetime, hours: int) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start, end = bounds(
        fs.tumbling("1d", zone="Europe/Berlin"), day.replace(hour=12, tzinfo=berlin).astimezone(UTC)
    )
    assert (start, end) == (day.replace(tzinfo=berlin), (day + timedelta(days=1)).replace(tzinfo=berlin))
    assert end - start == timedelta(hours=hours)


def test_an_hour_that_comes_twice_makes_one_window_of_two() -> None:
    start, end = bounds(fs.tumbling("1h", zone="Europe/Berlin"), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    assert (start, end - start) == (datetime(2026, 10, 25, 0, tzinfo=UTC), timedelta(hours=2))


def test_a_day_begins_once_where_clocks_go_back_over_midnight() -> None:
    """From midnight on they show 23:00 of the day before again."""
    zone = Zone("odd", (0, 48 * HOUR), (0, -HOUR), 1_000 * HOUR)
    windows = {
        fs.Windowed(None, begin, end, None)
        for time in range(24 * HOUR, 80 * HOUR, HOUR // 2)
        for begin, end in _days(zone, time)
    }
    assert sorted((each.start // HOUR, each.end // HOUR) for each in windows) == [
        (24, 49),
        (49, 73),
        (73, 97),
    ]


def _days(zone: Zone, time: int) -> Any:
    from flamestream.model.windows.shapes import tumbling

    return tumbling("1d", zone=zone).windows(time)


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["1d", "7d", "6h", "1h"]),
    st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)),
)
def test_windows_follow_one_another_and_a_time_is_in_one(zone: str, size: str, at: datetime) -> None:
    shape, time = fs.tumbling(size, zone=zone), micros(at.replace(tzinfo=UTC))
    ((start, end),) = shape.windows(time)
    assert start <= time < end
    assert shape.windows(start) == shape.windows(end - 1) == [(start, end)]
    assert shape.windows(end)[0][0] == end


@given(st.sampled_from(ZONES), st.datetimes(datetime(1901, 1, 1), datetime(2199, 1, 1)))
def test_a_zones_table_says_what_its_files_say(zone: str, at: datetime) -> None:
    there = at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    assert zone_of(zone).local(micros(at.replace(tzinfo=UTC))) == micros(there.replace(tzinfo=UTC))


def test_a_time_beyond_the_table_is_an_error_of_its_item() -> None:
    with pytest.raises(UserError, match="outside of what is known of the zone 'Europe/Berlin'"):
        fs.tumbling("1d", zone="Europe/Berlin").windows(micros(datetime(2300, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("size", ["90m", "5h", "36h", "30s"])
def test_other_lengths_than_days_and_hours_that_divide_one_are_refused(size: str) -> None:
    with pytest.raises(GraphError, match="whole days, or hours that divide a day"):
        fs.tumbling(size, zone="Europe/Berlin")


@pytest.mark.parametrize("name", ["Europe/Berlim", "", "../etc/passwd"])
def test_a_zone_that_nobody_knows_is_told_when_the_graph_is_built(name: str) -> None:
    with pytest.raises(GraphError, match="this machine knows no such zone"):
        fs.tumbling("1d", zone=name)
