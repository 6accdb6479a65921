"""`@event`: a class of payloads, said by its fields. `@payload_type`: the same for a class that is made by
other means.

    @fs.event
    class Posting:
        word: str
        document: str
        positions: tuple[int, ...]

Its wire is `[tag, *fields]`, and the tag says which fields those are (shapes.py). A decoded dataclass gets its
fields directly: no `__init__` or `__post_init__` of the user runs, so it is what was encoded whatever they do,
and foreign bytes run no code. A struct or a pydantic model cannot be made so, and may have no hook that runs
behind its `__init__`. Of an enum the members are payloads (values.py).

Does not: check annotations. A field holds any payload.
"""

import dataclasses
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Any, Final, TypeGuard, TypeVar, dataclass_transform

import msgspec

from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payloads.encoding import fill_wires, height_of_members, take_values
from flamestream.model.payloads.older import Current, declare
from flamestream.model.payloads.registry import Plan, Wire, name_of_type, register, tag_of, too_deep
from flamestream.model.payloads.shapes import shape_of
from flamestream.model.payloads.values import register_enum

C = TypeVar("C", bound=type)
T = TypeVar("T")
Members = Callable[[Any], tuple[Any, ...]]
Build = Callable[[Any], Any]
_ROOTS: Final = (str, bytes, int, float, complex, tuple, list, dict, set, frozenset, BaseException)
_WAY_OUT: Final = (
    "a payload type is a class with @fs.event, a frozen dataclass, msgspec.Struct or pydantic model, "
    "or an enum"
)


@dataclass_transform(frozen_default=True)
def event(cls: type[T]) -> type[T]:
    """A class decorator: a frozen dataclass with slots, whose instances are payloads. Raises PayloadError if
    `cls` cannot be one."""
    if isinstance(cls, type) and issubclass(cls, (Enum, msgspec.Struct)):
        raise PayloadError(
            f"@fs.event makes a dataclass of a class, which {name_of_type(cls)} cannot become: use "
            "@fs.payload_type"
        )
    # Of the class that comes back: slots make a second one, and instances are of that.
    return payload_type(dataclasses.dataclass(frozen=True, slots=True)(cls))


def payload_type(cls: C) -> C:
    """A class decorator, the outermost one, for a frozen dataclass, a frozen msgspec.Struct, a frozen
    pydantic model or an enum: its instances are payloads. Returns `cls` itself. Raises PayloadError with the
    way out if it cannot be one."""
    if isinstance(cls, type) and issubclass(cls, Enum):
        register_enum(cls)
        return cls
    fields = _fields_of(cls)
    name, ours = name_of_type(cls), cls.__module__.startswith("flamestream.")
    shape = shape_of(cls, fields)
    tag, members, added = tag_of(name) if ours else shape.tag, _getter(fields), _added(cls)
    build = _dataclass_builder(cls, fields) if dataclasses.is_dataclass(cls) else _builder(cls, fields)

    def to_wire(value: Any, room: int) -> list[Wire]:
        if room <= 0:
            raise too_deep()
        return fill_wires([tag, *members(value)], room)

    def from_wire(wire: list[Wire], room: int) -> Any:
        missing = 1 + len(fields) - len(wire)
        if missing and not 0 < missing <= len(added):
            raise Corrupt(
                f"a {name} has {len(fields)} fields ({', '.join(fields)}), but {len(wire) - 1} are stored: "
                "another version of it"
            )
        # fields that the writer's version did not have
        return build([*take_values(wire, room), *added[len(added) - missing :]])

    register(
        Plan(
            cls,
            tag,
            name,
            to_wire,
            from_wire,
            lambda value, room: height_of_members(members(value), room),
            members,
            fields,
            build,
        )
    )
    if not ours:
        declare(Current(shape, build, lambda: dict(_defaults(cls))))
    return cls


def _fields_of(cls: type) -> tuple[str, ...]:
    """Names of a payload class's fields. Raises PayloadError with the reason if the class cannot be one."""
    if not isinstance(cls, type):
        raise PayloadError(f"@payload_type decorates a class, not a {type(cls).__name__}: {_WAY_OUT}")
    name = name_of_type(cls)
    if issubclass(cls, _ROOTS):
        root = next(root.__name__ for root in _ROOTS if issubclass(cls, root))
        raise PayloadError(
            f"{name} cannot be a payload type, because it is a {root} too: {_WAY_OUT} with no other base"
        )
    if issubclass(cls, msgspec.Struct):
        if not cls.__struct_config__.frozen:
            raise PayloadError(
                f"{name} is not frozen, and payloads must not change: use class "
                f"{cls.__name__}(msgspec.Struct, frozen=True)"
            )
        if hasattr(cls, "__post_init__"):
            raise PayloadError(
                f"{name} has a __post_init__, which would run again when a value is decoded: "
                "use a frozen dataclass"
            )
        return cls.__struct_fields__
    if is_model(cls):
        if not cls.model_config.get("frozen"):
            raise PayloadError(
                f"{name} is not frozen, and payloads must not change: "
                f"use class {cls.__name__}(BaseModel, frozen=True)"
            )
        if cls.__pydantic_post_init__ is not None:
            raise PayloadError(
                f"{name} has a model_post_init, which would run again when a value is decoded: use @fs.event"
            )
        return tuple(cls.model_fields)
    # its own: a subclass that is not decorated has annotations that are no fields
    if "__dataclass_params__" not in cls.__dict__:
        raise PayloadError(f"{name} is no dataclass: {_WAY_OUT}; put @fs.event above the class")
    if not cls.__dict__["__dataclass_params__"].frozen:
        raise PayloadError(f"{name} is not frozen, and payloads must not change: use @dataclass(frozen=True)")
    return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]  # it has __dataclass_params__


def is_model(cls: Any) -> TypeGuard[Any]:
    """Whether a class is a pydantic model. Pydantic itself is not needed for it."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_construct")


def _added(cls: type) -> list[Any]:
    """Defaults of the last fields, which earlier versions of one of our own classes did not store: a class
    says how many."""
    count = getattr(cls, "ADDED_FIELDS", 0) if cls.__module__.startswith("flamestream.") else 0
    return [field.default for field in dataclasses.fields(cls)[-count:]] if count else []


def _defaults(cls: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Makers of the defaults, each with its field."""
    if issubclass(cls, msgspec.Struct):
        for each in msgspec.structs.fields(cls):
            if not each.required:
                factory = each.default_factory
                yield each.name, partial(_same, each.default) if factory is msgspec.NODEFAULT else factory
    elif is_model(cls):
        for name, each in cls.model_fields.items():
            if not each.is_required():
                yield name, partial(each.get_default, call_default_factory=True)
    else:
        for field in dataclasses.fields(cls):
            if field.default_factory is not dataclasses.MISSING:
                yield field.name, field.default_factory
            elif field.default is not dataclasses.MISSING:
                yield field.name, partial(_same, field.default)


def _same(value: T) -> T:
    return value


def _getter(fields: tuple[str, ...]) -> Members:
    if len(fields) > 1:
        return operator.attrgetter(*fields)
    if not fields:
        return lambda value: ()
    only = operator.attrgetter(fields[0])  # of one name it gives the value, and no tuple
    return lambda value: (only(value),)


def _dataclass_builder(cls: type, fields: tuple[str, ...]) -> Build:
    setters = [_setter(cls, field) for field in fields]

    def build(values: Any) -> Any:
        made: Any = object.__new__(cls)  # no `__init__`: foreign bytes run no code of the user's
        for assign, value in zip(setters, values, strict=True):
            assign(made, value)
        return made

    return build


def _setter(cls: type, field: str) -> Callable[[Any, Any], None]:
    """Assigns a field past the frozen `__setattr__`, as dataclasses do themselves; a slot's own descriptor is
    the short way."""
    slot = inspect.getattr_static(cls, field, None)
    if isinstance(slot, types.MemberDescriptorType):
        return slot.__set__
    return lambda made, value: object.__setattr__(made, field, value)


def _builder(cls: Any, fields: tuple[str, ...]) -> Build:
    """For a struct or a model: a call that checks nothing."""
    make = cls.model_construct if is_model(cls) else cls
    if make is cls and all(
        parameter.kind is not parameter.KEYWORD_ONLY
        for parameter in inspect.signature(cls).parameters.values()
    ):
        return lambda values: cls(*values)
    return lambda values: make(**dict(zip(fields, values, strict=True)))
