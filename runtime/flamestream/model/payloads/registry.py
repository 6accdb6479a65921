"""The registry of payload types: for each type its plan, and for every other type the way out.

A plan says how a value of one type becomes its wire form and back, and how deep it nests. A wire is what
msgspec encodes as it is: None, bool, int, float, str, bytes, or a list `[tag, ...]` of wires. Types are
matched exactly: a subclass of str is not a str, because it would not come back as what it was.

    tag 0 tuple, 1 Vector, 2 Map, 3 Set, 4 datetime, 5 date, 6 Decimal
    a user's class has a tag of its own, 31 bits of the hash of "module:qualname(field: type, ...)"
    an enum, and a class of this library: of "module:qualname"

Keeps: one tag a class and one class a tag, in this process. Does not: know any type (encoding.py, classes.py,
values.py, ../collections), and never imports anything that a wire names.
"""

import hashlib
import types
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any, Final

from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.kernel import kernel

Wire = Any
"""None, bool, int, float, str, bytes, `msgspec.Raw` or `[tag, *wires]`."""
MAX_DEPTH: Final = 64
"""How deep containers may nest. Bounds the recursion of every walk over a payload."""
# The highest of 32 bits: no user's tag is one of ours, and each takes five bytes in msgpack.
FIRST_CLASS_TAG: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Plan:
    """The way in which values of `cls` travel. `room`: levels of containers that are still allowed, this one
    included."""

    cls: type
    tag: int
    name: str
    to_wire: Callable[[Any, int], list[Wire]]
    from_wire: Callable[[list[Wire], int], Any]
    """A value of `cls` from its wire, the tag still in place; it may change the list."""
    height: Callable[[Any, int], int]
    """The levels of containers in a value, at least 1. Raises PayloadError unless all of it is a payload and
    fits `room`."""
    members: Callable[[Any], tuple[Any, ...]] | None = None
    """The parts of a fixed shape, for deltas and for messages; None for a collection."""
    labels: tuple[str, ...] | None = None
    """Names of the members in messages; None: their index."""
    build: Callable[[Any], Any] | None = None
    """A value of `cls` with these members."""


class OlderShape(Corrupt):
    """A value is of a shape that its class had once: older.py reads it, or says why it cannot."""


class _ToWire(dict[type, Callable[[Any, int], Wire]]):
    # `__missing__` and no test before it: the hot path is one lookup, and only a refusal pays.
    def __missing__(self, cls: type) -> Callable[[Any, int], Wire]:
        raise PayloadError(refusal(cls))


class _Heights(dict[type, Callable[[Any, int], int]]):
    def __missing__(self, cls: type) -> Callable[[Any, int], int]:
        raise PayloadError(refusal(cls))


class _FromWire(dict[int, Callable[[list[Wire], int], Any]]):
    def __missing__(self, tag: int) -> Callable[[list[Wire], int], Any]:
        raise Corrupt(
            f"a payload has the type tag {tag}, which no class here has, nor does a snapshot name its fields: "
            "decorate its class with @fs.payload_type and import its module before the job starts, under the "
            "same module name everywhere; if its fields were others when it was stored, put them back"
        )


PLANS: Final[dict[type, Plan]] = {}
TO_WIRE: Final = _ToWire()
HEIGHTS: Final = _Heights()
FROM_WIRE: Final = _FromWire()


def register(plan: Plan) -> None:
    """Make `plan.cls` a payload type. A class that is defined anew (a reloaded module) takes the place of the
    one before."""
    for known in [p for p in PLANS.values() if plan.tag == p.tag or plan.name == p.name]:
        if known.name != plan.name:  # 31 bits of a hash can meet: never two classes for one tag (!)
            raise PayloadError(
                f"payload types {known.name} and {plan.name} have the same tag {plan.tag}: rename one of them"
            )
        del PLANS[known.cls], TO_WIRE[known.cls], HEIGHTS[known.cls], FROM_WIRE[known.tag]
        if kernel is not None:
            kernel.forget(known.tag)
    PLANS[plan.cls] = plan
    TO_WIRE[plan.cls] = plan.to_wire
    HEIGHTS[plan.cls] = plan.height
    FROM_WIRE[plan.tag] = plan.from_wire
    # it makes instances itself where `object.__new__` would: dataclasses without a `__new__`
    if kernel is not None:
        kernel.register(plan, is_dataclass(plan.cls) and plan.cls.__new__ is object.__new__)


def name_of_type(cls: type) -> str:
    """The name that a class's tag is made of."""
    return f"{cls.__module__}:{cls.__qualname__}"


def tag_of(name: str) -> int:
    """The stable tag of a user's class."""
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return FIRST_CLASS_TAG | int.from_bytes(digest, "big")


def too_deep() -> PayloadError:
    """The refusal of a payload that nests too deep."""
    return PayloadError(
        f"a payload nests deeper than {MAX_DEPTH} levels: flatten it, or use fs.Vector, "
        "fs.Map or fs.Set for what grows"
    )


_WAYS_OUT: Final = {
    "builtins.list": "use a tuple or fs.Vector",
    "builtins.dict": "use fs.Map or a @fs.payload_type class",
    "builtins.set": "use fs.Set",
    "builtins.frozenset": "use fs.Set",
    "builtins.bytearray": "use bytes",
    "builtins.memoryview": "use bytes",
    "builtins.complex": "use a tuple of two floats",
    "builtins.generator": "use tuple(...) around it",
    "builtins.range": "use tuple(...) around it",
    "fractions.Fraction": "use a tuple of numerator and denominator",
    "datetime.time": "use value.isoformat()",
    "datetime.timedelta": "use an int of microseconds",
    "uuid.UUID": "use value.bytes",
    "pathlib.PosixPath": "use str(value)",
    "immutables._map.Map": "use fs.Map",
    "pyrsistent.PVector": "use fs.Vector",
    "numpy.ndarray": "use tuple(value.tolist())",
}


def refusal(cls: type) -> str:
    """The reason why values of `cls` are no payloads, and the way out."""
    full = f"{cls.__module__}.{cls.__qualname__}"
    name = cls.__qualname__ if cls.__module__ == "builtins" else full
    return f"a {name} is not a payload: {_WAYS_OUT.get(full) or _way_out(cls)}"


def _way_out(cls: type) -> str:
    if cls.__module__.partition(".")[0] == "numpy":
        return "use value.item()"
    if hasattr(cls, "__members__"):
        return "put @fs.payload_type above the enum, or use value.value"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "a named tuple would come back as something else: use a frozen dataclass with @fs.payload_type"
    for base in (str, bytes, int, float, tuple):
        if issubclass(cls, base):
            return f"a subclass would come back as something else: use {base.__name__}(value)"
    if tag_of(name_of_type(cls)) in FROM_WIRE:
        return (
            "its class has been defined anew since the value was made: "
            "build it again from the newest definition"
        )
    if issubclass(cls, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        return "functions and types are not data: use a name instead"
    return (
        "decorate its class with @fs.payload_type (a frozen dataclass or a frozen msgspec.Struct), "
        "or use a tuple"
    )
