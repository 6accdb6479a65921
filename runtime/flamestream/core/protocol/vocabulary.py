"""The vocabulary: all messages that a release has, with their fields and types, derived from their classes.

Workers of two releases may be connected at once: while the image changes, and as long as a job has pods of both. Two
of one attempt must know the same messages, for a frame that one of them cannot read, or reads otherwise, may
be lost. So an attempt's workers are of one vocabulary (takeover.py), and a link looks again (net/links.py).

Keeps: whoever changes a message has changed the digest, for nobody writes it by hand. Does not: notice that a
message has come to mean something else with the same fields: then give it another name.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from msgspec import inspect

from flamestream.core.protocol.messages import Frame

_DIGITS: Final = 16


@cache
def vocabulary() -> str:
    """The digest of the messages between the workers of this release."""
    return digest_of(described(Frame))


def digest_of(words: dict[str, list[str]]) -> str:
    """The digest of messages; it is the same in whatever order their classes are listed."""
    text = "\n".join(f"{name}({', '.join(words[name])})" for name in sorted(words))
    return hashlib.blake2b(text.encode(), digest_size=_DIGITS // 2).hexdigest()


def described(kind: Any) -> dict[str, list[str]]:
    """The classes that a value of this type is made of, by their names, each with its fields in their order.

    >>> from msgspec import Struct
    >>> class Point(Struct):
    ...     x: int
    ...     y: int | None = None
    >>> described(list[Point])
    {'vocabulary.Point': ['map', 'x: int', 'y: int or none, may be absent']}
    """
    found: dict[str, list[str]] = {}
    _describe(inspect.type_info(kind), found)
    return found


def _describe(kind: inspect.Type, found: dict[str, list[str]]) -> str:
    """The type in words; its classes are added to `found`."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(sorted(_describe(each, found) for each in kind.types))
    if isinstance(kind, inspect.StructType | inspect.NamedTupleType):
        return _class(kind, found)
    word = type(kind).__name__.removesuffix("Type").lower()
    parts = ", ".join(_parts(kind, found))
    return f"{word}({parts})" if parts else word


def _class(kind: inspect.StructType | inspect.NamedTupleType, found: dict[str, list[str]]) -> str:
    name = f"{kind.cls.__module__.rpartition('.')[2]}.{kind.cls.__name__}"
    if name not in found:
        found[name] = [_form(kind)]  # first: it may have fields of its own type
        found[name] += (
            f"{field.encode_name}: {_describe(field.type, found)}{'' if field.required else ', may be absent'}"
            for field in kind.fields
        )
    return name


def _form(kind: inspect.StructType | inspect.NamedTupleType) -> str:
    if isinstance(kind, inspect.NamedTupleType):
        return "array"
    form = "array" if kind.array_like else "map"
    return form if kind.tag is None else f"{form} that begins with {kind.tag}"


def _parts(kind: inspect.Type, found: dict[str, list[str]]) -> Iterator[str]:
    """The types that it holds, and its bounds."""
    for name in kind.__struct_fields__:
        value = getattr(kind, name)
        if isinstance(value, inspect.Type):
            yield _describe(value, found)
        elif isinstance(value, tuple):
            yield from (_describe(each, found) for each in value)
        elif value is not None:
            yield f"{name} {value}"
