"""What a manifest says of a column or a field: a part of the payload, or of its item's place.

Does not: import a sink; this is read from docs/reference/postgres.md, as a user would.
"""

from typing import Any, Final, NamedTuple

from flamestream.model.collections import Map
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import timestamp_of

BUNDLE: Final = "$bundle"
"""How items were put into bundles is the workers' doing: no reference knows it."""


class Wanted(NamedTuple):
    """An item that the reference has for a sink. Not `due`: it may be there already, and need not."""

    meta: Meta
    slot: Slot
    payload: Any
    due: bool = True


def value_of(source: str, item: Wanted, sink: str) -> Any:
    """What `source` says, of an item. Raises LookupError, AttributeError, TypeError if its payload has no such part."""
    match source:
        case "$payload":
            return item.payload
        case "$meta":
            return bytes(item.meta)
        case "$time":
            return timestamp_of(time_of_meta(item.meta))
        case "$slot":
            return int(item.slot)
        case "$sink":
            return sink
    found = item.payload
    for step in source.split("."):
        part = int(step) if step.isdecimal() else step
        found = found[part] if isinstance(part, int) or isinstance(found, Map) else getattr(found, part)
    return found
