"""The change journal of a Map or Set: which keys changed between two versions, in O(change).

A journal is a chain `(before, key)`; every change of a value makes a new link, so a link stands for exactly one version, whatever forks
there are. The changes from an old version to a new one are the keys met on the way back from the new one's link until the old one's
link is met, by identity. If it is not met, the versions are unrelated, or the journal has been cut in between, and there is no cheap
delta: never a wrong one.

A journal is cut (begun anew) when it is longer than half the collection, so it stays bounded; writing the collection in full then costs
a constant factor of the changes. Links are tuples, because a long chain of them is freed without recursion.

Used by one collection at a time, and thread-safe because nothing is ever changed.
"""

from typing import Final, NamedTuple

from flamestream.model.collections.keys import Key

LEAST_LIMIT: Final = 8


class Journal(NamedTuple):
    """The newest link (or a beginning) and the number of links behind it."""

    link: object
    length: int


def begun() -> Journal:
    """A journal of a version that nothing is known about."""
    return Journal(object(), 0)


def noted(journal: Journal, key: Key, size: int) -> Journal:
    """The journal of a version that differs from that of `journal` in `key` at most. `size` is the collection's."""
    link, length = journal
    if length >= max(LEAST_LIMIT, size >> 1):
        return begun()
    return Journal((link, key), length + 1)


def changed_keys(old: Journal, new: Journal) -> list[Key] | None:
    """Keys that may differ, each once; None if the way from `old` to `new` is not known."""
    found: dict[Key, None] = {}
    link = new.link
    for _ in range(new.length - old.length):
        if link is old.link:
            break
        link, key = link  # type: ignore[misc]  # a journal of n links has n of these pairs
        found[key] = None
    return list(found) if link is old.link else None
