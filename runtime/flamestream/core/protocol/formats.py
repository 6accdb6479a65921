"""Formats of what a release leaves for the next one in a store and in the cluster state: what must not be read by one
that knows less.

A field that an older release may pass over needs no other format: it reads what it knows. Where it would go wrong by
that, whoever writes says a greater number, and the older release refuses instead of going on.

Keeps: nothing that says no format is refused. Does not: know what a format has (docs/reference/formats.md).
"""

from typing import Final

import msgspec

NEWEST: Final = 1
"""The greatest that this release reads, of a job record and of a snapshot index. None writes it: absent is 1."""

FormatNumber = int | msgspec.UnsetType


def refuse_newer(found: FormatNumber) -> None:
    """Raise ValueError for what a release has written that knows more than this one."""
    if found is not msgspec.UNSET and found > NEWEST:
        raise ValueError(f"its format is {found}, of a newer FlameStream, and this one reads up to {NEWEST}")
