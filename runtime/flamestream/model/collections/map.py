"""Map: an immutable mapping with O(log n) set and delete.

immutables.Map (a HAMT in C) under the kept form of the keys, and a change journal for deltas.

>>> counts = Map({"a": 1}).set("b", 2).set(True, 3)
>>> counts, counts["b"], counts.get(1)
(Map({'a': 1, 'b': 2, True: 3}), 2, None)

Keeps: keys and values are payloads; keys are told apart with their types; iteration is in the order of the
encoded keys.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar, final

import immutables
import msgspec

from flamestream.model.collections import changes as journal
from flamestream.model.collections.changes import Link
from flamestream.model.collections.heights import (
    FLAT,
    Counts,
    collection_height,
    height_of_element,
    with_elements,
    with_height,
    without_element,
)
from flamestream.model.collections.keys import Key, encoded, given, in_order, kept
from flamestream.model.errors import Corrupt
from flamestream.model.payloads.codec import encode
from flamestream.model.payloads.encoding import PLAIN, take_values, wire_of
from flamestream.model.payloads.registry import Plan, Wire, register, too_deep

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L")
W = TypeVar("W")
MAP_TAG: Final = 2
SHOWN: Final = 32
Entries = immutables.Map[Key, Any]
_new: Final[Callable[[type], Any]] = object.__new__
_ABSENT: Final = object()


@final
class Map(Collection[K], Generic[K, V]):
    """An immutable mapping. `set` and `delete` return a new one."""

    __slots__ = ("_counts", "_entries", "_link")

    _entries: Entries
    _link: Link
    _counts: Counts

    def __init__(self, entries: "Map[K, V] | Mapping[K, V] | Iterable[tuple[K, V]]" = ()) -> None:
        pairs = entries.items() if isinstance(entries, Map | Mapping) else entries
        counts = FLAT
        with immutables.Map[Key, Any]().mutate() as building:
            for key, value in pairs:
                place = kept(key)
                counts = _counts_with(counts, building.get(place, _ABSENT), key, value)
                building[place] = value
            self._entries = building.finish()
        self._link = journal.begun()
        self._counts = counts

    def set(self, key: L, value: W) -> "Map[K | L, V | W]":
        """The mapping with `value` for `key`: itself if it has that object there already."""
        place, entries = kept(key), self._entries
        before = entries.get(place, _ABSENT)
        # by identity: to `==` True is 1, and would be lost
        if before is value:
            return self  # type: ignore[return-value]  # it maps that key to that value
        made = _new(Map)
        made._counts = _counts_with(self._counts, before, key, value)
        made._entries = entries = entries.set(place, value)
        made._link = journal.noted(self._link, place, len(entries))
        return made  # type: ignore[no-any-return]

    def delete(self, key: object) -> "Map[K, V]":
        """The mapping without `key`. Raises KeyError if it is not there."""
        place, value = kept(key), self[key]
        made = _new(Map)
        made._counts = without_element(without_element(self._counts, value), key)
        made._entries = entries = self._entries.delete(place)
        made._link = journal.noted(self._link, place, len(entries))
        return made  # type: ignore[no-any-return]

    def get(self, key: object, default: Any = None) -> Any:
        """The value for `key`, or `default`."""
        return self._entries.get(kept(key), default)

    def __getitem__(self, key: object) -> V:
        value = self._entries.get(kept(key), _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return kept(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return map(given, in_order(self._entries))

    def keys(self) -> Iterator[K]:
        """The keys, in the order of their encodings."""
        return iter(self)

    def values(self) -> Iterator[V]:
        """The values, in the order of their keys."""
        return map(self._entries.__getitem__, in_order(self._entries))

    def items(self) -> Iterator[tuple[K, V]]:
        """Keys and values, in the order of the keys."""
        return ((given(place), self._entries[place]) for place in in_order(self._entries))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Map:
            return NotImplemented
        return self._entries is other._entries or (len(self) == len(other) and encode(self) == encode(other))

    def __hash__(self) -> int:
        return hash(encode(self))

    def __repr__(self) -> str:
        more = f", ... {len(self)} entries" if len(self) > SHOWN else ""
        shown = (f"{key!r}: {value!r}" for _, (key, value) in zip(range(SHOWN), self.items(), strict=False))
        return f"Map({{{', '.join(shown)}{more}}})" if self._entries else "Map()"

    def __reduce__(self) -> tuple[Any, ...]:
        # without the journal, whose links are known by identity: a copy has none
        return Map, (tuple(self.items()),)


def _counts_with(counts: Counts, before: Any, key: Any, value: Any) -> Counts:
    """The counts after `value` for `key` has taken the place of `before`."""
    height = height_of_element(value)
    counts = (
        with_height(counts, height_of_element(key)) if before is _ABSENT else without_element(counts, before)
    )
    return with_height(counts, height) if height else counts


def entry_changes(old: Map[Any, Any], new: Map[Any, Any]) -> list[Key] | None:
    """Kept keys whose entries may differ; None if that is not known cheaply."""
    return journal.changed_keys(old._link, new._link)


def entries_of(value: Map[Any, Any]) -> Entries:
    """The entries by kept key."""
    return value._entries


def with_values(of: Map[Any, Any], change: Callable[[Any], Any]) -> Map[Any, Any]:
    """The map with `change` of each value; itself if none is another object."""
    changed = {place: new for place, old in of._entries.items() if (new := change(old)) is not old}
    if not changed:
        return of
    made = _new(Map)
    made._entries = entries = of._entries.update(changed)
    made._counts = with_elements(with_elements(FLAT, map(given, entries)), entries.values())
    made._link = journal.begun()
    return made  # type: ignore[no-any-return]


def _to_wire(value: Map[Any, Any], room: int) -> list[Wire]:
    if room <= 0:
        raise too_deep()
    wire: list[Wire] = [MAP_TAG]
    entries = value._entries
    # in the order of encodings, or equal maps would have unequal bytes (!)
    places = {encoded(place): place for place in entries}
    for code in sorted(places):
        place = places[code]
        element = entries[place]
        wire.append(msgspec.Raw(code) if type(place) is bytes else place)
        wire.append(element if type(element) in PLAIN else wire_of(element, room - 1))
    return wire


def _from_wire(wire: list[Wire], room: int) -> Map[Any, Any]:
    if len(wire) % 2 == 0:
        raise Corrupt("a stored fs.Map has a key without a value")
    flat = take_values(wire, room)
    check_ascending(flat[::2], "fs.Map")
    return Map(zip(flat[::2], flat[1::2], strict=True))


def check_ascending(keys: list[Any], where: str) -> None:
    """Raise Corrupt unless these are a canonical collection's keys."""
    # One encoding for each value (!): another order would be a second one, and of a key that is there twice
    # one value would be lost in silence.
    codes = [encode(key) for key in keys]
    if any(not before < after for before, after in pairwise(codes)):
        raise Corrupt(f"a stored {where} has its keys out of order or twice")


register(Plan(Map, MAP_TAG, "fs.Map", _to_wire, _from_wire, collection_height))
