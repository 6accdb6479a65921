"""Older payloads: values whose class had another shape when they were stored, read as the class is now.

A tag that no class has now is an older shape's, if a snapshot's index has said so (`know`). What has one is
read in two steps: first as it was stored, with an `Older` in each such place, and only then, when all changes
behind it were applied, made what it is now. Changes name the places of fields, which are those of the stored
shape (!).

Keeps: a value without an older part is read as fast as ever: only an unknown tag leads here. Keys of a Map
and elements of a Set are found by their encoding, so those of an older shape are refused, never changed.
Does not: decide what fits (shapes.py), or find the changes (state.py).
"""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain, count
from operator import call, itemgetter
from typing import Any, Final, TypeVar

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.collections.map import entries_of, with_values
from flamestream.model.collections.set import elements_of
from flamestream.model.errors import Corrupt
from flamestream.model.payloads import encoding
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.payloads.encoding import (
    SCALARS,
    array_header,
    encode_wire,
    fill_wires,
    height_of_members,
    take_values,
)
from flamestream.model.payloads.registry import (
    FROM_WIRE,
    PLANS,
    OlderShape,
    Plan,
    Wire,
    register,
    too_deep,
)
from flamestream.model.payloads.shapes import PayloadClass, fit, unmarked_of

T = TypeVar("T")
OLDER_TAG: Final = 7
"""Never written: a value of an older shape is encoded as it was stored."""
_reading: Final = ContextVar("reading", default=False)
_known: Final[dict[int, bytes]] = {}
"""The bytes that values of older shapes begin with, by tag."""
_now: Final[dict[str, "Current"]] = {}
_converters: Final[dict[int, tuple["Current", Callable[[Sequence[Any]], Any]]]] = {}


@dataclass(slots=True)  # frozen ones take thrice as long to make, and a state may have many
class Older:
    """A value as it was stored, while changes are applied to it."""

    shape: PayloadClass
    tag: int
    """The shape's, which takes a hash to find."""
    members: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Current:
    """A payload class of this process."""

    shape: PayloadClass
    build: Callable[[Any], Any]
    defaults: Callable[[], dict[str, Callable[[], Any]]]
    """Makers of the defaults, by field."""

    @property
    def said(self) -> PayloadClass:
        """Its shape, with the fields that have defaults. Defaults may name what was not defined yet when the
        class was."""
        found = self.defaults()
        return PayloadClass(
            self.shape.name,
            self.shape.fields,
            tuple(field for field in self.shape.types if field in found),
            self.shape.was,
        )


def declare(current: Current) -> None:
    """A class of this process, from now on. What was stored before tags said the fields is taken for its
    shape, until an index says otherwise."""
    _now[current.shape.name] = current
    unmarked = PayloadClass(current.shape.name, current.shape.fields, unmarked=True)
    FROM_WIRE.setdefault(unmarked.tag, _reader(unmarked))


def classes() -> tuple[PayloadClass, ...]:
    """The payload classes of this process, by name."""
    return tuple(_now[name].said for name in sorted(_now))


def unmarked() -> tuple[PayloadClass, ...]:
    """The classes of this process as those of older releases, whose values do not say their fields."""
    return tuple(unmarked_of(classes()))


def know(shapes: Iterable[PayloadClass]) -> None:
    """Shapes that an index names: values of them can be read from now on, as far as they fit."""
    current = {plan.tag for plan in PLANS.values()}
    for shape in shapes:
        if (tag := shape.tag) not in current:
            FROM_WIRE[tag] = _reader(shape)
            _known[tag] = begins(shape)


@dataclass(frozen=True, slots=True)
class OlderMark:
    """How an older shape is known in encoded values."""

    shape: PayloadClass
    data: bytes
    """The bytes that each of its values begins with."""
    problem: str
    """The reason why its values cannot be read; "" if they can."""


def marks(shapes: Iterable[PayloadClass]) -> tuple[OlderMark, ...]:
    """The marks of those of these shapes that no class has now."""
    current = {plan.tag for plan in PLANS.values()}
    return tuple(_mark(shape) for shape in shapes if shape.tag not in current)


def _mark(shape: PayloadClass) -> OlderMark:
    try:
        _converter(shape, shape.tag)
        problem = ""
    except OlderShape as error:
        problem = str(error)
    return OlderMark(shape, begins(shape), problem)


def begins(shape: PayloadClass) -> bytes:
    """The bytes that each value of a shape begins with."""
    return array_header(1 + len(shape.fields)) + encode_wire(shape.tag)


def renewed(data: bytes) -> bytes:
    """An encoded payload as it is encoded now, for a process that knows no older shapes."""
    return encode(decode(data)) if any(mark in data for mark in _known.values()) else data


def settled(read: Callable[[], T]) -> T:
    """The payload, or list of payloads, that `read` gives, with all that is of an older shape as it is now.
    Raises OlderShape if that does not fit, and whatever `read` raises."""
    before = _reading.set(True)
    try:
        found = read()
        return _settled(found)  # type: ignore[no-any-return]
    finally:
        _reading.reset(before)


def _reader(shape: PayloadClass) -> Callable[[list[Wire], int], Any]:
    tag = shape.tag

    def from_wire(wire: list[Wire], room: int) -> Any:
        if not _reading.get():
            raise OlderShape(f"a value of {shape.name} as it was: ({shape.words})")
        if len(wire) - 1 != len(shape.fields):
            raise Corrupt(
                f"a {shape.name} has {len(shape.fields)} fields ({', '.join(shape.types)}), but "
                f"{len(wire) - 1} are stored: another version of it"
            )
        return Older(shape, tag, tuple(take_values(wire, room)))

    return from_wire


# --- as it is now -------------------------------------------------------------------------------------------


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is Older:
        members = value.members
        # most classes are flat: one pass in C, and nothing is left to do
        if not SCALARS.issuperset(map(type, members)):
            members = [_settled(member) for member in members]
        return _converter(value.shape, value.tag)(members)
    if kind is list:  # of several payloads
        return [_settled(each) for each in value]
    if kind is Map:
        _refuse_keys(entries_of(value), "a key of an fs.Map")
        return with_values(value, _settled)
    if kind is Set:
        _refuse_keys(elements_of(value), "an element of an fs.Set")
        return value
    if kind is Vector:
        elements = [(element, _settled(element)) for element in value]
        return Vector(new for _, new in elements) if any(old is not new for old, new in elements) else value
    return _settled_members(value)


def _settled_members(value: Any) -> Any:
    plan = PLANS.get(type(value))
    if plan is None or plan.members is None or plan.build is None:
        return value
    before = plan.members(value)
    members = [_settled(member) for member in before]
    if all(old is new for old, new in zip(before, members, strict=True)):
        return value
    return plan.build(members)


def _refuse_keys(places: Iterable[Any], what: str) -> None:
    for place in places:
        if type(place) is bytes and (old := older_in(place)) is not None:
            raise OlderShape(unkeyed(old, what))


def older_in(data: bytes) -> PayloadClass | None:
    """The first older shape in an encoded payload; None: there is none."""
    before = _reading.set(True)
    try:
        return _first_older(encoding.decode(data))
    finally:
        _reading.reset(before)


def _first_older(value: Any) -> PayloadClass | None:
    if type(value) is Older:
        return value.shape
    plan = PLANS.get(type(value))
    members: Iterable[Any] = () if plan is None or plan.members is None else plan.members(value)
    if type(value) in (Vector, Map, Set):
        members = chain.from_iterable(value.items()) if type(value) is Map else value
    return next((found for member in members if (found := _first_older(member)) is not None), None)


def unkeyed(shape: PayloadClass, what: str) -> str:
    """The refusal of a key of an older shape."""
    return (
        f"{what} is a {shape.name} with the fields ({shape.words}) that it had once: what is a key is found by "
        "all its fields, so its class stays as it is; put the fields back, and give the new class another name"
    )


def _converter(shape: PayloadClass, tag: int) -> Callable[[Sequence[Any]], Any]:
    current = _now.get(shape.name)
    if current is None:
        raise OlderShape(
            f"a {shape.name} is stored, with the fields ({shape.words}), and this code has no such class: put it "
            "back, under the same module name"
        )
    known = _converters.get(tag)
    if known is None or known[0] is not current:
        known = _converters[tag] = current, _made(shape, current)
    return known[1]


def _made(shape: PayloadClass, current: Current) -> Callable[[Sequence[Any]], Any]:
    sources = fit(shape, current.said)
    if isinstance(sources, str):
        raise OlderShape(sources)
    defaults, build = current.defaults(), current.build
    fields = list(zip(current.shape.types, sources, strict=True))
    made = [defaults[field] for field, source in fields if source.place is None]
    # behind the stored fields stand those that get their defaults
    further = count(len(shape.fields))
    places = [next(further) if source.place is None else source.place for _, source in fields]
    pick = itemgetter(*places) if len(places) > 1 else lambda every: [every[place] for place in places]
    floats = [
        (place, field) for (field, source), place in zip(fields, places, strict=True) if source.to_float
    ]

    def converted(members: Sequence[Any]) -> Any:
        every = [*members, *map(call, made)]
        for place, field in floats:
            every[place] = _floated(every[place], shape, field)
        return build(pick(every))

    return converted


def _floated(value: Any, shape: PayloadClass, field: str) -> Any:
    """A stored value of a field that was an int and is a float: what is not typed as said is not guessed."""
    if type(value) is int and float(value) == value:
        return float(value)
    if value is None or type(value) is float:
        return value
    raise OlderShape(
        f"field {field!r} of {shape.name} was an int and is a float now, but {value!r} is stored, which is no "
        "number that a float has: say int | float, or keep the class as it was beside the new one"
    )


def _to_wire(value: Older, room: int) -> list[Wire]:
    if room <= 0:
        raise too_deep()
    return fill_wires([value.tag, *value.members], room)


def _never(wire: list[Wire], room: int) -> Any:
    raise Corrupt(f"a payload has the type tag {OLDER_TAG}, which is never written")


register(
    Plan(
        Older,
        OLDER_TAG,
        "a value of an older shape",
        _to_wire,
        _never,
        lambda value, room: height_of_members(value.members, room),
        lambda value: value.members,
    )
)
