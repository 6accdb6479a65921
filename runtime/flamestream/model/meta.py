"""Meta: global time and trace in one byte string whose order is the total order of items.

The order of items is the pre-order walk of the derivation tree: a child follows its parent and precedes the
next item. A meta is the eight bytes of its run's time, then one component a step of the derivation (position
in the run, index among siblings, edge taken). Components have the lengths of a prefix code that keeps order,
as in UTF-8, so comparing two metas is one memcmp, a parent is a prefix of its child, and a meta costs the
garbage collector nothing.

>>> first = meta_of(Time(5), 0)
>>> first < child(first, 0) < child(first, 200) < meta_of(Time(5), 1) < floor(Time(6))
True
>>> time_of_meta(child(first, 3))
5

Keeps: distinct derivations have distinct metas. Does not: bound a trace's length (graph.py and the loop's
`max_iterations` do). Source: EDBT 2018, section 3.1; pre-order instead of the paper's lexicographic child
order is ours.
"""

from typing import Final, NewType

from flamestream.model.time import Time

Meta = NewType("Meta", bytes)

LEAST: Final = Meta(b"")
"""Sorts before every item: the `t_last` of a slot that has delivered nothing."""
MAX_COMPONENT: Final = (1 << 35) - 1


def _component(index: int) -> bytes:
    # The first byte says the length, and the longer the greater: no component begins another, and shorter
    # ones, whose indexes are less, sort first.
    if index < 1 << 7:
        return index.to_bytes(1, "big")
    if index < 1 << 14:
        return (0x8000 | index).to_bytes(2, "big")
    if index < 1 << 21:
        return (0xC0_0000 | index).to_bytes(3, "big")
    if index < 1 << 28:
        return (0xE000_0000 | index).to_bytes(4, "big")
    assert index <= MAX_COMPONENT, f"{index} siblings do not fit a trace"
    return (0xF0_0000_0000 | index).to_bytes(5, "big")


COMPONENTS: Final = tuple(_component(i) for i in range(4096))
"""The usual components, ready made: the hot path indexes this."""


def component(index: int) -> bytes:
    """The bytes of one step of a trace."""
    return COMPONENTS[index] if index < 4096 else _component(index)


def floor(time: Time) -> Meta:
    """Less than every meta at `time` or later, greater than every meta before."""
    # A prefix sorts before all that it begins, and every item has a component behind its time.
    return Meta(time.to_bytes(8, "big"))


def meta_of(time: Time, position: int) -> Meta:
    """The meta of the item at `position` of the run at `time`."""
    return Meta(time.to_bytes(8, "big") + component(position))


def metas_of(time: Time, count: int) -> list[Meta]:
    """The metas of the first `count` items of the run at `time`."""
    run = time.to_bytes(8, "big")
    return [
        Meta(run + place) for place in (COMPONENTS[:count] if count <= 4096 else map(component, range(count)))
    ]


def child(parent: Meta, index: int) -> Meta:
    """The meta of the `index`-th child."""
    return Meta(parent + component(index))


def record_of(meta: Meta) -> Meta:
    """The meta of the record that an item descends from."""
    first = meta[8]
    length = 1 if first < 0x80 else 2 if first < 0xC0 else 3 if first < 0xE0 else 4 if first < 0xF0 else 5
    return Meta(meta[: 8 + length])


def first_component(meta: Meta) -> int:
    """The position in its run of the record that an item descends from."""
    place = record_of(meta)[8:]
    mask = (0x7F, 0x3FFF, 0x1F_FFFF, 0x0FFF_FFFF, 0x07_FFFF_FFFF)[len(place) - 1]
    return int.from_bytes(place, "big") & mask


def time_of_meta(meta: Meta) -> Time:
    """The time of the run that an item descends from; START for `LEAST`."""
    return Time(int.from_bytes(meta[:8], "big"))


def components(meta: Meta) -> int:
    """The number of steps in a trace."""
    count, at = 0, 8
    while at < len(meta):
        first = meta[at]
        at += 1 if first < 0x80 else 2 if first < 0xC0 else 3 if first < 0xE0 else 4 if first < 0xF0 else 5
        count += 1
    return count
