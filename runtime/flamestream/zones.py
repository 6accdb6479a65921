"""Zones: reads what a place's clocks show from the machine's files, when a graph is built.

It stands outside of the model because it reads files. What it gives is a table (model/windows/zone.py), and
that is all that windows use: no worker looks into a file between two items.

Does not: follow a change of the rules while a job runs. The files belong to the image, as the application
does.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from flamestream.model.duration import Duration
from flamestream.model.errors import GraphError
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.windows import shapes
from flamestream.model.windows.zone import Zone

FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(days=4)
"""Clocks are not put there and back within it."""
_SECOND: Final = timedelta(seconds=1)


def tumbling(
    size: Duration, *, offset: Duration = "0s", zone: str | None = None
) -> shapes.Grid | shapes.Calendar:
    """Windows of length `size`, one behind the other. They begin at multiples of it since 1970 in UTC,
    `offset` later.

    `zone`: a name as "Europe/Berlin": they begin where its clocks show these multiples, so a day with a
    change of summer time has 23 or 25 hours. `size` is then whole days, or hours that divide a day. Raises
    GraphError.
    """
    return shapes.tumbling(size, offset=offset, zone=None if zone is None else zone_of(zone))


@lru_cache(maxsize=64)
def zone_of(name: str) -> Zone:
    """The table of a zone from 1900 to 2200. Raises GraphError if this machine knows none of this name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # which few jobs need

    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise GraphError(
            f'zone={name!r}: this machine knows no such zone; a name is one as "Europe/Berlin" or "UTC"'
        ) from error
    since, offsets, at = [FIRST], [_offset(zone, FIRST)], FIRST
    # zoneinfo says what clocks show, and not when that changes: it is looked for.
    while at < LAST:
        at, before = at + _STEP, at
        if (offset := _offset(zone, at)) != offsets[-1]:
            since.append(_changed(zone, before, at))
            offsets.append(offset)
    return Zone(
        name, tuple(map(_micros, since)), tuple(offset // MICROSECOND for offset in offsets), _micros(LAST)
    )


def _changed(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The first second with the offset of `after`."""
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        before, after = (
            (middle, after) if _offset(zone, middle) == _offset(zone, before) else (before, middle)
        )
    return after


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None, "an aware time has an offset"
    return offset


def _micros(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND
