"""The trie below a Vector: leaves of 32 values under nodes of up to 32 children, all tuples.

A trie of level 1 is a tuple of leaves, one of level 2 a tuple of those, and so on; the level is the least
that holds all leaves, so equal lengths have equal shapes. A change copies one node a level and shares the
rest, and what two tries share is the same object: `changed_places` skips it and looks only at what differs.
That is right for any two tries, related or not.

Tuples, because a deep chain of them is freed without recursion, and because they never form a cycle.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import is_not
from typing import Any, Final

Trie = tuple[Any, ...]
BITS: Final = 5
WIDTH: Final = 1 << BITS
MASK: Final = WIDTH - 1
EMPTY: Final[Trie] = ()


def pushed(level: int, root: Trie, leaves: int, leaf: Trie) -> tuple[int, Trie]:
    """Level and root with `leaf` behind the `leaves` that are there."""
    if leaves == 1 << BITS * level:
        return level + 1, (root, _path(level, leaf))
    return level, _inserted(root, level, leaves, leaf)


def _path(level: int, leaf: Trie) -> Trie:
    for _ in range(level):
        leaf = (leaf,)
    return leaf


def _inserted(node: Trie, level: int, place: int, leaf: Trie) -> Trie:
    if level == 1:
        return (*node, leaf)
    span = BITS * (level - 1)
    if place >> span == len(node):
        return (*node, _path(level - 1, leaf))
    return (*node[:-1], _inserted(node[-1], level - 1, place & (1 << span) - 1, leaf))


def popped(level: int, root: Trie) -> tuple[int, Trie, Trie]:
    """Level and root without the last leaf, and that leaf."""
    root, leaf = _without_last(root, level)
    if level > 1 and len(root) == 1:
        return level - 1, root[0], leaf
    return level, root, leaf


def _without_last(node: Trie, level: int) -> tuple[Trie, Trie]:
    if level == 1:
        return node[:-1], node[-1]
    child, leaf = _without_last(node[-1], level - 1)
    return ((*node[:-1], child) if child else node[:-1]), leaf


def built(leaves: Sequence[Trie]) -> tuple[int, Trie]:
    """Level and root of a trie of `leaves`."""
    nodes, level = list(leaves), 1
    while len(nodes) > WIDTH:
        nodes, level = [tuple(nodes[i : i + WIDTH]) for i in range(0, len(nodes), WIDTH)], level + 1
    return level, tuple(nodes)


def at(level: int, root: Trie, place: int) -> Any:
    """The value at `place`."""
    return leaf_at(level, root, place)[place & MASK]


def leaf_at(level: int, root: Trie, place: int) -> Trie:
    """The leaf that begins at `place`."""
    for shift in range(BITS * level, 0, -BITS):
        root = root[place >> shift & MASK]
    return root


def replaced(node: Trie, level: int, place: int, value: Any) -> Trie:
    """The node with `value` at `place`. Level 0 is a leaf."""
    slot = place >> BITS * level & MASK
    child = value if level == 0 else replaced(node[slot], level - 1, place, value)
    return (*node[:slot], child, *node[slot + 1 :])


def values(level: int, root: Trie) -> Iterator[Any]:
    """All values, in order."""
    nodes: Iterable[Any] = root
    for _ in range(level):
        nodes = chain.from_iterable(nodes)
    return iter(nodes)


def changed_places(old: tuple[int, Trie], new: tuple[int, Trie]) -> Iterator[int]:
    """Places that both have and where the values are not the same object, ascending."""
    (old_level, old_root), (new_level, new_root) = old, new
    # The first child of a taller trie has all the places that a lower one can have.
    while old_level > new_level:
        old_level, old_root = old_level - 1, old_root[0]
    while new_level > old_level:
        new_level, new_root = new_level - 1, new_root[0] if new_root else EMPTY
    return _changed(old_root, new_root, old_level, 0)


def _changed(old: Trie, new: Trie, level: int, start: int) -> Iterator[int]:
    if level == 0:
        yield from different(old, new, start)
    elif old is not new:
        span = BITS * level
        for place in different(old, new, 0):
            yield from _changed(old[place], new[place], level - 1, start + (place << span))


def different(old: Trie, new: Trie, start: int) -> Iterable[int]:
    """Places, from `start` on, where two nodes have different objects; what only one of them has does not
    count."""
    if not any(map(is_not, old, new)):
        return ()
    return [start + place for place, differs in enumerate(map(is_not, old, new)) if differs]
