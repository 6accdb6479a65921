"""Moments as Kubernetes writes them.

>>> written(0)
'1970-01-01T00:00:00Z'
>>> moment("1970-01-01T00:01:00Z")
60.0

Does not: read a clock.
"""

from datetime import UTC, datetime


def written(seconds: float) -> str:
    """Whole seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float:
    """Seconds since 1970; "" is 0."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def precise(seconds: float) -> str:
    """To the millisecond.

    >>> precise(1.5)
    '1970-01-01T00:00:01.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
