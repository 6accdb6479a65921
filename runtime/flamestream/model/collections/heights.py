"""How deep a collection nests, kept up to date at O(1) a change.

A collection remembers how many of its elements have height 1, 2, ...; scalars (height 0) are not counted, so
a flat collection has the empty tuple. So the height of a collection that changed is exact, and the same
whether it was built, changed or restored.

>>> counts = with_height((), 2)
>>> counts, without_height(counts, 2)
((0, 1), ())
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from flamestream.model.payloads.codec import height_of
from flamestream.model.payloads.encoding import SCALARS
from flamestream.model.payloads.registry import MAX_DEPTH, too_deep

Counts = tuple[int, ...]
"""`counts[h - 1]` elements have height `h`; the last is not 0."""
FLAT: Final[Counts] = ()


class Collected(Protocol):
    """A collection that counts the heights of its elements."""

    _counts: Counts


def with_height(counts: Counts, height: int) -> Counts:
    """The counts with another element of `height`."""
    if not height:
        return counts
    if height == len(counts) == 1:  # the usual one: all elements are flat instances or tuples
        return (counts[0] + 1,)
    if height > len(counts):
        return (*counts, *(0,) * (height - len(counts) - 1), 1)
    return (*counts[: height - 1], counts[height - 1] + 1, *counts[height:])


def without_height(counts: Counts, height: int) -> Counts:
    """The counts without an element of `height`, which was counted."""
    if not height:
        return counts
    left = [*counts[: height - 1], counts[height - 1] - 1, *counts[height:]]
    while left and not left[-1]:
        left.pop()
    return tuple(left)


def height_of_element(value: Any) -> int:
    """The height of a value that is put into a collection. Raises PayloadError unless it is a payload that
    fits."""
    return height_of(value, MAX_DEPTH - 1)


def with_elements(counts: Counts, values: Iterable[Any]) -> Counts:
    """The counts with all of `values`. Raises PayloadError unless each is a payload that fits."""
    for value in values:
        if height := height_of_element(value):
            counts = with_height(counts, height)
    return counts


def without_element(counts: Counts, value: Any) -> Counts:
    """The counts without the element `value`, which was checked when it was put in."""
    return (
        counts if not counts or type(value) in SCALARS else without_height(counts, height_of_element(value))
    )


def collection_height(collection: Collected, room: int) -> int:
    """The height of a collection, for `Plan.height`. Raises PayloadError if that is more than `room`."""
    if len(collection._counts) >= room:
        raise too_deep()
    return len(collection._counts) + 1
