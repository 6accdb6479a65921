"""Durations, as people write them: "500ms", "1.5s", "30m", "1h", "7d", or a timedelta.

>>> micros("1.5s", "late")
1500000
"""

import re
from datetime import timedelta
from typing import Final, NewType

from flamestream.model.errors import GraphError

Micros = NewType("Micros", int)
"""A duration in microseconds."""
UNITS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
Duration = str | timedelta
_WRITTEN: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?\s*(us|ms|s|m|h|d)")


def micros(duration: Duration, what: str, *, least: int = 0) -> Micros:
    """A duration in microseconds, at least `least`. Raises GraphError that says that `what` is wrong."""
    if isinstance(duration, timedelta):
        found = duration // timedelta(microseconds=1)
    elif isinstance(duration, str) and (written := _WRITTEN.fullmatch(duration.strip())):
        sign, whole, part, unit = written.groups(default="")
        # In integers: as a float 1.001 s would be 1000999 us.
        size, rest = divmod(int(whole + part) * UNITS[unit], 10 ** len(part))
        if rest:
            raise GraphError(f"{what}={duration!r}: the shortest duration is 1us")
        found = -size if sign else size
    else:
        raise GraphError(
            f'{what}={duration!r}: a duration is a timedelta, or a number and a unit as in "500ms", "30s", '
            '"1m", "1h", "1d"'
        )
    if found < least:
        raise GraphError(f"{what}={duration!r}: it must be at least {least} us")
    return Micros(found)


def shown(duration: int) -> str:
    """Microseconds as people write them, in the largest unit that makes a whole number.

    >>> shown(90_000_000), shown(3_600_000_000), shown(0)
    ('90s', '1h', '0s')
    """
    unit = next((name for name in reversed(UNITS) if duration and duration % UNITS[name] == 0), "s")
    return f"{duration // UNITS[unit]}{unit}"
