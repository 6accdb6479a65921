"""Moments as Kubernetes writes them.

>>> written(0)
'1970-01-01T00:00:00Z'
>>> moment("1970-01-01T00:01:00Z")
60.0

Does not: read a clock.
"""

from datetime import UTC, datetime
from typing import Final

from flamestream.model.event_time import END_OF_TIME

CLOCKS_DIFFER: Final = 60.0
"""Seconds by which another node's clock, or this one before it was set, may be ahead."""
DATES: Final = range(100_000_000_000_000, 253_402_300_800_000_000)
"""Microseconds: event times below do not count from 1970, and those of the year 10000 or later are numbers of
another unit."""


def written(seconds: float) -> str:
    """Whole seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float:
    """Seconds since 1970; "" is 0."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def passed(now: float, stamp: str, seconds: float) -> bool:
    """Whether `seconds` have passed since a stamp in an object, which outlives processes and so is wall time.

    One that is far in the future says that a clock was set back since: nobody waits until it comes round
    again.

    >>> passed(100.0, written(40), 60), passed(100.0, written(41), 60), passed(100.0, written(4000), 60)
    (True, False, True)
    """
    since = now - moment(stamp)
    return since >= seconds or since < -CLOCKS_DIFFER


def precise(seconds: float) -> str:
    """To the millisecond.

    >>> precise(1.5)
    '1970-01-01T00:00:01.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event_moment(micros: int | None) -> str:
    """How far event time has come: a moment, seconds where it does not count from 1970, `unknown`, or
    `ended`.

    >>> event_moment(1_700_000_000_500_000), event_moment(90_500_000), event_moment(None), event_moment(END_OF_TIME)
    ('2023-11-14T22:13:20.500Z', '90.5 s', 'unknown', 'ended')
    >>> event_moment(1_700_000_000_000_000_000)  # nanoseconds that were taken for microseconds
    '1.7e+12 s'
    """
    if micros is None or micros >= END_OF_TIME:
        return "unknown" if micros is None else "ended"
    return precise(micros / 1e6) if micros in DATES else f"{micros / 1e6:,.6g} s"
