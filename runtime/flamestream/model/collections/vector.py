"""Vector: an immutable sequence with O(log n) append, set and pop.

A trie of full leaves (trie.py) and a tail of 1 to 32 values. Versions share the list that holds their tail:
each knows its own length, and appending to the newest puts the value behind it, touching no other; a version
that others have grown from copies its part first.

>>> words = Vector(["a"]).append("b")
>>> words, words.append("c")[-1], len(words)
(Vector(['a', 'b']), 'c', 2)

Keeps: elements are payloads; the shape depends on the length alone; two versions share what is equal, by
identity (for deltas, see state.py). Source: Bagwell and Rompf, RRB-trees (2011), without the relaxed part.
Why not pyrsistent: decision 002.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Self, TypeVar, final, overload

from flamestream.model.collections import trie
from flamestream.model.collections.heights import (
    FLAT,
    Counts,
    collection_height,
    height_of_element,
    with_elements,
    with_height,
    without_element,
)
from flamestream.model.kernel import kernel
from flamestream.model.payloads.codec import encode
from flamestream.model.payloads.encoding import INT_MAX, INT_MIN, fill_wires, take_values
from flamestream.model.payloads.registry import Plan, Wire, register, too_deep

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
VECTOR_TAG: Final = 1
SHOWN: Final = 32
WIDTH: Final = trie.WIDTH
_new: Final[Callable[[type], Any]] = object.__new__


@final
class Vector(Collection[T_co]):
    """An immutable sequence. `append`, `extend`, `set` and `pop` return a new one."""

    __slots__ = ("_counts", "_level", "_root", "_size", "_tail")

    _size: int
    _level: int
    _root: trie.Trie
    _tail: list[Any]
    """Begins with this version's tail; what is behind belongs to versions that grew from it."""
    _counts: Counts

    def __init__(self, values: Iterable[T_co] = ()) -> None:
        elements = tuple(values)
        in_tail = (len(elements) - 1) % WIDTH + 1 if elements else 0
        full = len(elements) - in_tail
        self._counts = with_elements(FLAT, elements)
        self._level, self._root = trie.built([elements[i : i + WIDTH] for i in range(0, full, WIDTH)])
        self._tail = list(elements[full:])
        self._size = len(elements)

    def append(self, value: U) -> "Vector[T_co | U]":
        """The vector with `value` at the end."""
        kind = type(value)
        counts = self._counts
        # The usual elements are told here, without a call: an append is the hot path of a growing state.
        if (kind is not str or not value.isascii()) and (kind is not int or not INT_MIN <= value <= INT_MAX):  # type: ignore[attr-defined,operator]
            counts = with_height(counts, height_of_element(value))
        made = _new(Vector)
        made._size = self._size + 1
        made._counts = counts
        tail, length = self._tail, _in_tail(self._size)
        # Only the value behind it puts a full tail into the trie: so the last value never has to be looked
        # for there.
        if length == WIDTH:
            made._level, made._root = trie.pushed(
                self._level, self._root, (self._size >> trie.BITS) - 1, tuple(tail)
            )
            made._tail = [value]
            return made  # type: ignore[no-any-return]
        made._level = self._level
        made._root = self._root
        if len(tail) > length:  # another version grew from this one: what is behind is not ours (!)
            tail = tail[:length]
        tail.append(value)
        made._tail = tail
        return made  # type: ignore[no-any-return]

    def extend(self, values: Iterable[U]) -> "Vector[T_co | U]":
        """The vector with `values` at the end."""
        added: trie.Trie = tuple(values)
        if not added:
            return self
        counts, size = with_elements(self._counts, added), self._size + len(added)
        tail = _tail_of(self)
        level, root, leaves = self._level, self._root, (self._size - len(tail)) >> trie.BITS
        open_end = tail + added
        full = (len(open_end) - 1) // WIDTH * WIDTH
        for start in range(0, full, WIDTH):
            level, root = trie.pushed(level, root, leaves, open_end[start : start + WIDTH])
            leaves += 1
        return _made(size, level, root, list(open_end[full:]), counts)

    def set(self, index: int, value: U) -> "Vector[T_co | U]":
        """The vector with `value` at `index`. Raises IndexError outside."""
        place = self._place(index)
        counts = with_height(without_element(self._counts, self[place]), height_of_element(value))
        tail = _tail_of(self)
        in_trie = self._size - len(tail)
        if place >= in_trie:
            return _made(
                self._size,
                self._level,
                self._root,
                list(trie.replaced(tail, 0, place - in_trie, value)),
                counts,
            )
        # Two versions of one length have this tail: who appends second finds it longer, and copies (!).
        return _made(
            self._size, self._level, trie.replaced(self._root, self._level, place, value), self._tail, counts
        )

    def pop(self) -> "Vector[T_co]":
        """The vector without its last value (which is `vector[-1]`). Raises IndexError if it is empty."""
        if not self._size:
            raise IndexError("pop from an empty Vector")
        length = _in_tail(self._size)
        counts = without_element(self._counts, self._tail[length - 1])
        if length > 1 or self._size == 1:
            # The popped value stays in the list: who appends to this version finds it there, and copies.
            return _made(self._size - 1, self._level, self._root, self._tail, counts)
        level, root, tail = trie.popped(self._level, self._root)
        return _made(self._size - 1, level, root, list(tail), counts)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T_co]:
        return chain(trie.values(self._level, self._root), _tail_of(self))

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        place = self._place(index)
        in_trie = self._size - _in_tail(self._size)
        return self._tail[place - in_trie] if place >= in_trie else trie.at(self._level, self._root, place)

    def __reversed__(self) -> Iterator[T_co]:
        return reversed(self.as_tuple())

    def __contains__(self, value: object) -> bool:
        """Whether an element is equal to `value`, with its type."""
        kind, encoded = type(value), encode(value)
        return any(type(element) is kind and encode(element) == encoded for element in self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Vector:
            return NotImplemented
        return self is other or (self._size == other._size and encode(self) == encode(other))

    def __hash__(self) -> int:
        return hash(encode(self))

    def __repr__(self) -> str:
        more = f", ... {self._size} values" if self._size > SHOWN else ""
        return f"Vector([{', '.join(map(repr, self[:SHOWN].as_tuple()))}{more}])"

    def __reduce__(self) -> tuple[Any, ...]:
        # not as it is: its tail may hold values of other versions
        return Vector, (self.as_tuple(),)

    def as_tuple(self) -> tuple[T_co, ...]:
        """All values."""
        return tuple(self)

    def _place(self, index: int) -> int:
        place = index + self._size if index < 0 else index
        if not 0 <= place < self._size:
            raise IndexError(f"index {index} is outside a Vector of {self._size} values")
        return place

    def _slice(self, index: slice) -> "Vector[T_co]":
        places = range(self._size)[index]
        if len(places) == self._size and places.step == 1:
            return self
        # By popping, a value at a time: quicker only while less goes than stays.
        if places.start == 0 and places.step == 1 and len(places) > self._size // 2:
            return self.shortened(len(places))
        if places.step == 1:
            return Vector(islice(values_from(self, places.start), len(places)))
        return Vector([self[place] for place in places])

    def shortened(self, size: int) -> "Vector[T_co]":
        """The first `size` values, sharing their structure."""
        assert 0 <= size <= self._size, f"{size} of {self._size} values"
        vector: Vector[T_co] = self
        while vector._size > size:
            vector = vector.pop()
        return vector


def _in_tail(size: int) -> int:
    """The number of values in the tail of a Vector of this size."""
    return (size - 1 & trie.MASK) + 1 if size else 0


def _tail_of(vector: Vector[Any]) -> trie.Trie:
    return tuple(vector._tail[: _in_tail(vector._size)])


def _made(size: int, level: int, root: trie.Trie, tail: list[Any], counts: Counts) -> Vector[Any]:
    made = _new(Vector)
    made._size, made._level, made._root, made._tail, made._counts = size, level, root, tail, counts
    return made  # type: ignore[no-any-return]


def values_from(vector: Vector[Any], start: int) -> list[Any]:
    """The values at `start` and behind, without touching those before."""
    tail = _tail_of(vector)
    in_trie = vector._size - len(tail)
    if start >= in_trie:
        return list(tail[start - in_trie :])
    leaves = range(start & ~trie.MASK, in_trie, WIDTH)
    trie_values = chain.from_iterable(trie.leaf_at(vector._level, vector._root, leaf) for leaf in leaves)
    return list(chain(islice(trie_values, start & trie.MASK, None), tail))


def changed_places(old: Vector[Any], new: Vector[Any]) -> Iterator[int]:
    """Places below both lengths whose values are not the same object, ascending."""
    in_both_tries = min(len(old) - _in_tail(len(old)), len(new) - _in_tail(len(new)))
    yield from trie.changed_places((old._level, old._root), (new._level, new._root))
    # Where the one has its tail the other may have a leaf by now: with the same objects, unless they changed.
    yield from trie.different(_leaf_at(old, in_both_tries), _leaf_at(new, in_both_tries), in_both_tries)


def _leaf_at(vector: Vector[Any], start: int) -> trie.Trie:
    """The leaf, or the tail, that begins at `start`."""
    in_trie = vector._size - _in_tail(vector._size)
    return _tail_of(vector) if start == in_trie else trie.leaf_at(vector._level, vector._root, start)


def _to_wire(value: Vector[Any], room: int) -> list[Wire]:
    if room <= 0:
        raise too_deep()
    return fill_wires([VECTOR_TAG, *value], room)


def _from_wire(wire: list[Wire], room: int) -> Vector[Any]:
    return Vector(take_values(wire, room))


append_in_python: Final = Vector.append
"""The reference of the kernel's `append`."""
if kernel is not None:
    kernel.install_vector(Vector, append_in_python, trie.pushed, with_height)
register(Plan(Vector, VECTOR_TAG, "fs.Vector", _to_wire, _from_wire, collection_height))
