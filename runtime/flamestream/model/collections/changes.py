"""The change journal of a Map or Set: which keys changed between two versions, in O(change).

A journal is a chain of links `(before, key, length)`; every change of a value makes a new link, so a link
stands for exactly one version, whatever forks there are. The changes from an old version to a new one are the
keys met on the way back from the new one's link until the old one's link is met, by identity. If it is not
met, the versions are unrelated, or the journal has been cut in between, and there is no cheap delta: never a
wrong one.

A journal is cut (begun anew) when it is longer than half the collection, so it stays bounded; writing the
collection in full then costs a constant factor of the changes. Links are tuples, because a long chain of them
is freed without recursion.

Keeps: what two versions share is never changed, so forks and threads do no harm.
"""

from typing import Any, Final

from flamestream.model.collections.keys import Key

LEAST_LIMIT: Final = 8
Link = tuple[Any, Any, int]
"""The link before, the key that changed, and how many links there are."""


def begun() -> Link:
    """The first link of a version that nothing is known about. A new object in it makes every such tuple a
    different one."""
    return (None, object(), 0)


def noted(link: Link, key: Key, size: int) -> Link:
    """The link of a version that differs from that of `link` in `key` at most. `size` is the collection's."""
    length = link[2]
    # writing all of it costs no more than twice its changes
    if length >= LEAST_LIMIT and length >= size >> 1:
        return begun()
    return (link, key, length + 1)


def changed_keys(old: Link, new: Link) -> list[Key] | None:
    """Keys that may differ, each once; None if the way from `old` to `new` is not known."""
    found: dict[Key, None] = {}
    # No more steps than `new` has links before it, so the walk never passes a first link.
    for _ in range(new[2] - old[2]):
        found[new[1]] = None
        new = new[0]
    return list(found) if new is old else None  # by identity: equal links of other versions prove nothing
