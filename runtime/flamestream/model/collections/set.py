"""Set: an immutable set with O(log n) add and discard.

immutables.Map (a HAMT in C) of the kept form of the elements, and a change journal for deltas.

>>> seen = Set(["b", "a"]).add("c").discard("b")
>>> seen, "a" in seen, len(seen)
(Set(['a', 'c']), True, 2)

Keeps: elements are payloads, told apart with their types; iteration is in the order of their encodings.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar, final

import immutables
import msgspec

from flamestream.model.collections import changes as journal
from flamestream.model.collections.changes import Link
from flamestream.model.collections.heights import (
    FLAT,
    Counts,
    collection_height,
    height_of_element,
    with_height,
    without_element,
)
from flamestream.model.collections.keys import Key, encoded, given, in_order, kept
from flamestream.model.collections.map import check_ascending
from flamestream.model.payloads.codec import encode
from flamestream.model.payloads.encoding import take_values
from flamestream.model.payloads.registry import Plan, Wire, register, too_deep

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
SET_TAG: Final = 3
SHOWN: Final = 32
_new: Final[Callable[[type], Any]] = object.__new__


@final
class Set(Collection[T_co]):
    """An immutable set. `add` and `discard` return a new one, or this one if nothing changes."""

    __slots__ = ("_counts", "_elements", "_link")

    _elements: "immutables.Map[Key, None]"
    _link: Link
    _counts: Counts

    def __init__(self, elements: Iterable[T_co] = ()) -> None:
        counts = FLAT
        with immutables.Map[Key, None]().mutate() as building:
            for element in elements:
                place, height = kept(element), height_of_element(element)
                if place not in building:
                    counts = with_height(counts, height)
                    building[place] = None
            self._elements = building.finish()
        self._link = journal.begun()
        self._counts = counts

    def add(self, element: U) -> "Set[T_co | U]":
        """The set with `element`."""
        place = kept(element)
        height = height_of_element(element)
        if place in self._elements:
            return self
        made = _new(Set)
        made._counts = with_height(self._counts, height)
        made._elements = elements = self._elements.set(place, None)
        made._link = journal.noted(self._link, place, len(elements))
        return made  # type: ignore[no-any-return]

    def discard(self, element: object) -> "Set[T_co]":
        """The set without `element`, if it is there."""
        place = kept(element)
        if place not in self._elements:
            return self
        made = _new(Set)
        made._counts = without_element(self._counts, element)
        made._elements = elements = self._elements.delete(place)
        made._link = journal.noted(self._link, place, len(elements))
        return made  # type: ignore[no-any-return]

    def __contains__(self, element: object) -> bool:
        return kept(element) in self._elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[T_co]:
        return map(given, in_order(self._elements))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Set:
            return NotImplemented
        return self._elements is other._elements or (
            len(self) == len(other) and encode(self) == encode(other)
        )

    def __hash__(self) -> int:
        return hash(encode(self))

    def __repr__(self) -> str:
        more = f", ... {len(self)} elements" if len(self) > SHOWN else ""
        return f"Set([{', '.join(map(repr, islice(self, SHOWN)))}{more}])" if self._elements else "Set()"

    def __reduce__(self) -> tuple[Any, ...]:
        return Set, (tuple(self),)


def element_changes(old: Set[Any], new: Set[Any]) -> list[Key] | None:
    """Kept elements that may have come or gone; None if that is not known cheaply."""
    return journal.changed_keys(old._link, new._link)


def elements_of(value: Set[Any]) -> "immutables.Map[Key, None]":
    """The elements in their kept form."""
    return value._elements


def _to_wire(value: Set[Any], room: int) -> list[Wire]:
    if room <= 0:
        raise too_deep()
    # in the order of encodings, or equal sets would have unequal bytes (!)
    return [SET_TAG, *map(msgspec.Raw, sorted(map(encoded, value._elements)))]


def _from_wire(wire: list[Wire], room: int) -> Set[Any]:
    elements = take_values(wire, room)
    check_ascending(elements, "fs.Set")
    return Set(elements)


register(Plan(Set, SET_TAG, "fs.Set", _to_wire, _from_wire, collection_height))
