"""State: an accumulator as a snapshot stores it, in full or as what changed since an older version.

    encode_state(old), delta_state(old, new)   ->   apply_state_delta(decode_state(...), ...) equals new

A delta costs O(change): a Vector's is found by comparing tries by identity, a Map's or Set's from its
journal, and those of a tuple or a class member by member. Values of a Map and elements of a Vector that are
collections themselves get deltas of their own. Where no cheap delta is known `delta_state` says None, and the
state is written in full.

Keeps: apply_state_delta(old, delta_state(old, new)) == new for any two states, related or not. A delta names
what the older version must look like, so one that is applied to another state is mostly found out (Corrupt);
who stores them keeps the order.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.collections.keys import Key, encoded
from flamestream.model.collections.map import entries_of, entry_changes
from flamestream.model.collections.set import element_changes, elements_of
from flamestream.model.collections.vector import changed_places, values_from
from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payloads.codec import check, decode, encode
from flamestream.model.payloads.encoding import SCALARS, encode_wire, value_of, wire_of
from flamestream.model.payloads.older import Older
from flamestream.model.payloads.registry import MAX_DEPTH, PLANS

LEAST_LIMIT: Final = 64
FULL_ABOVE: Final = 1024
"""Bytes of deltas that may pile up on a small full state before it is written in full again."""


class _Delta(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tagged array."""


class Whole(_Delta, frozen=True, tag=0):
    """The new value itself, as a wire."""

    wire: Any


class VectorDelta(_Delta, frozen=True, tag=1):
    """The first `size` or `before` values, whichever is less, stay; then `changes` at `places`; then `tail`
    behind."""

    before: int
    size: int
    places: list[int]
    changes: "list[Delta]"
    tail: list[Any]


class MapDelta(_Delta, frozen=True, tag=2):
    """A change of a Map of `before` entries: new values for `keys`; `gone` are deleted."""

    before: int
    size: int
    keys: list[Any]
    changes: "list[Delta]"
    gone: list[Any]


class SetDelta(_Delta, frozen=True, tag=3):
    """A change of a Set of `before` elements: those that come and those that go."""

    before: int
    size: int
    come: list[Any]
    gone: list[Any]


class MembersDelta(_Delta, frozen=True, tag=4):
    """Changes of some of the `members` members of a tuple or an instance."""

    members: int
    places: list[int]
    changes: "list[Delta]"


Delta = Whole | VectorDelta | MapDelta | SetDelta | MembersDelta
_loads: Final = msgpack_decoder(Delta)


def encode_state(value: Any) -> bytes:
    """A state in full: its canonical encoding."""
    return encode(value)


def decode_state(data: bytes) -> Any:
    """The state of `encode_state`. Raises Corrupt."""
    return decode(data)


def delta_state(old: Any, new: Any) -> bytes | None:
    """The bytes that turn `old` into `new`; None if writing `new` in full is as cheap."""
    delta = _delta(old, new, MAX_DEPTH)
    try:
        return None if delta is None else encode_wire(delta)
    except (OverflowError, UnicodeEncodeError) as error:
        check(new)
        raise PayloadError(
            f"the change of a state of type {type(new).__name__} cannot be encoded: {error}"
        ) from error


def apply_state_delta(old: Any, data: bytes) -> Any:
    """The newer state. Raises Corrupt unless `data` is a delta that fits `old`."""
    try:
        delta = _loads(data)
    except DecodeError as error:
        raise Corrupt(f"{len(data)} bytes are not a delta of a state: {error}") from error
    return _applied(old, delta, MAX_DEPTH)


# --- making a delta -----------------------------------------------------------------------------------------


def _delta(old: Any, new: Any, room: int) -> Delta | None:
    kind = type(new)
    if type(old) is not kind or kind in SCALARS or room <= 0:
        return None
    if kind is Vector:
        return _vector_delta(old, new, room)
    if kind is Map:
        return _map_delta(old, new, room)
    return _set_delta(old, new) if kind is Set else _members_delta(old, new, room)


def _delta_or_whole(old: Any, new: Any, room: int) -> Delta:
    return _delta(old, new, room) or Whole(wire_of(new, room))


def _vector_delta(old: Vector[Any], new: Vector[Any], room: int) -> VectorDelta | None:
    common, limit = min(len(old), len(new)), max(LEAST_LIMIT, len(new) // 2)
    # What is cut off is popped value by value when the delta is applied.
    if max(len(old), len(new)) - common > limit:
        return None
    # One more than the limit: that there are too many is known without finding all.
    places = list(islice(changed_places(old, new), limit + 1))
    if len(places) > limit:
        return None
    changes = [_delta_or_whole(old[place], new[place], room - 1) for place in places]
    tail = [wire_of(value, room - 1) for value in values_from(new, common)]
    return VectorDelta(len(old), len(new), places, changes, tail)


def _map_delta(old: Map[Any, Any], new: Map[Any, Any], room: int) -> MapDelta | None:
    changed = entry_changes(old, new)
    if changed is None:
        return None
    before, after = entries_of(old), entries_of(new)
    stay = [key for key in changed if key in after]
    changes = [
        _delta_or_whole(before[k], after[k], room - 1) if k in before else Whole(wire_of(after[k], room - 1))
        for k in stay
    ]
    # what has come and gone in between is in neither
    gone = [key for key in changed if key not in after and key in before]
    return MapDelta(len(old), len(new), _raw(stay), changes, _raw(gone))


def _set_delta(old: Set[Any], new: Set[Any]) -> SetDelta | None:
    changed = element_changes(old, new)
    if changed is None:
        return None
    before, after = elements_of(old), elements_of(new)
    come = [key for key in changed if key in after and key not in before]
    gone = [key for key in changed if key in before and key not in after]
    return SetDelta(len(old), len(new), _raw(come), _raw(gone))


def _raw(keys: list[Key]) -> list[Any]:
    return [msgspec.Raw(encoded(key)) for key in keys]


def _members_delta(old: Any, new: Any, room: int) -> MembersDelta | None:
    """Worth it only if some member that is no scalar is the same object, or has a delta of its own."""
    plan = PLANS.get(type(new))
    if plan is None or plan.members is None:
        return None
    before, after = plan.members(old), plan.members(new)
    if len(before) != len(after):
        return None
    # By identity: an equal member that was made anew is written again, which is longer and never wrong.
    places = [place for place in range(len(after)) if before[place] is not after[place]]
    changes = [_delta_or_whole(before[place], after[place], room - 1) for place in places]
    same = {type(member) for place, member in enumerate(after) if before[place] is member} - SCALARS
    if not same and all(type(change) is Whole for change in changes):
        return None
    return MembersDelta(len(after), places, changes)


# --- applying one -------------------------------------------------------------------------------------------


def _applied(old: Any, delta: Delta, room: int) -> Any:
    new: Any
    # at 0 a scalar still fits
    if room < 0:
        raise Corrupt(f"a delta nests deeper than {MAX_DEPTH} levels")
    if isinstance(delta, Whole):
        return value_of(delta.wire, room)
    if isinstance(delta, VectorDelta):
        new, size = _applied_to_vector(_expect(old, Vector, delta.before), delta, room), delta.size
    elif isinstance(delta, MapDelta):
        new, size = _applied_to_map(_expect(old, Map, delta.before), delta, room), delta.size
    elif isinstance(delta, SetDelta):
        new, size = _applied_to_set(_expect(old, Set, delta.before), delta), delta.size
    else:
        return _applied_to_members(old, delta, room)
    if len(new) != size:
        raise Corrupt(
            f"a delta of a {type(new).__name__} leads to {len(new)} elements instead of {size}: it belongs "
            "to another state"
        )
    return new


def _expect(old: Any, kind: type[Any], size: int) -> Any:
    if type(old) is not kind or len(old) != size:
        raise Corrupt(
            f"a delta is for a {kind.__name__} of {size} elements and not for this {type(old).__name__}: one "
            "before it is missing"
        )
    return old


def _paired(places: list[Any], changes: list[Delta]) -> Iterator[tuple[Any, Delta]]:
    if len(places) != len(changes):
        raise Corrupt(f"a delta has {len(places)} places and {len(changes)} changes")
    return zip(places, changes, strict=True)


def _applied_to_vector(old: Vector[Any], delta: VectorDelta, room: int) -> Vector[Any]:
    new = old.shortened(min(len(old), max(delta.size, 0)))
    for place, change in _paired(delta.places, delta.changes):
        if not 0 <= place < len(new):
            raise Corrupt(f"a delta changes place {place} of a Vector of {len(new)}")
        new = new.set(place, _applied(new[place], change, room - 1))
    return new.extend([value_of(wire, room - 1) for wire in delta.tail])


def _applied_to_map(old: Map[Any, Any], delta: MapDelta, room: int) -> Map[Any, Any]:
    new = old
    for wire, change in _paired(delta.keys, delta.changes):
        key = value_of(wire, room - 1)
        # A key that is not there has None: all deltas but a Whole find out that it is not what they change.
        new = new.set(key, _applied(new.get(key), change, room - 1))
    for wire in delta.gone:
        key = value_of(wire, room - 1)
        if key not in new:
            raise Corrupt("a delta deletes a key that is not there: it belongs to another state")
        new = new.delete(key)
    return new


def _applied_to_set(old: Set[Any], delta: SetDelta) -> Set[Any]:
    new = old
    for wire in delta.come:
        new = new.add(value_of(wire, MAX_DEPTH - 1))
    for wire in delta.gone:
        new = new.discard(value_of(wire, MAX_DEPTH - 1))
    return new


def _applied_to_members(old: Any, delta: MembersDelta, room: int) -> Any:
    plan = PLANS.get(type(old))
    members = list(plan.members(old)) if plan is not None and plan.members is not None else []
    build: Callable[[Any], Any] | None = None if plan is None else plan.build
    if type(old) is Older:
        build = partial(Older, old.shape, old.tag)
    if build is None or len(members) != delta.members:
        raise Corrupt(
            f"a delta is for {delta.members} members and not for this {type(old).__name__}: "
            "it belongs to another state"
        )
    for place, change in _paired(delta.places, delta.changes):
        if not 0 <= place < len(members):
            raise Corrupt(f"a delta changes member {place} of {len(members)}")
        members[place] = _applied(members[place], change, room - 1)
    return build(tuple(members))
