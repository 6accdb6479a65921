"""Shapes: the fields of a payload class at one time, by name and type, and how values of an earlier shape are
read as the class is now.

    fs.event class Visit: user: str; hits: int          stored as [tag of that shape, "ann", 3]
    fs.event class Visit: user: str; count: Annotated[float, fs.was("hits")]; last: str = ""
                                                        read as  Visit("ann", 3.0, "")

A tag is made of the class's name and its fields, so each stored value says which shape it has. What a shape
is a snapshot's index says in words.

Keeps: a value is read as another shape only where nothing is guessed: a new field has a default, a type is
the same or a wider one. Does not: read values (older.py), or import what is named.
"""

import ast
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, ForwardRef, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from flamestream.model.errors import PayloadError
from flamestream.model.payloads.registry import tag_of

_ANY: Final = frozenset({"Any", "object"})
_OLD_NAMES: Final = {
    "Tuple": "tuple",
    "List": "list",
    "Dict": "dict",
    "FrozenSet": "frozenset",
    "Type": "type",
}


class PayloadClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """A payload class as it is, or as it was when values were stored."""

    name: str
    """`module:Class`."""
    fields: tuple[str, ...]
    """Each as `name: type`, in their order."""
    defaults: tuple[str, ...] = ()
    """Fields that have a default."""
    was: dict[str, tuple[str, ...]] = {}
    """Names that a field had before."""
    unmarked: bool = False
    """Its values were stored before tags said the fields."""

    @property
    def tag(self) -> int:
        """The tag of its values."""
        return tag_of(self.name if self.unmarked else f"{self.name}({self.words})")

    @property
    def words(self) -> str:
        """Its fields, as messages have them."""
        return ", ".join(self.fields)

    @property
    def types(self) -> dict[str, str]:
        """Type of each field, in words."""
        return {name: kind for name, _, kind in (field.partition(": ") for field in self.fields)}


def unmarked_of(shapes: Iterable[PayloadClass]) -> Iterator[PayloadClass]:
    """The same shapes, of values that an older release has stored."""
    for shape in shapes:
        yield PayloadClass(shape.name, shape.fields, unmarked=True)


@dataclass(frozen=True, slots=True)
class Was:
    """The mark of a renamed field, in its annotation."""

    names: tuple[str, ...]


def was(*names: str) -> Was:
    """Mark a field of a payload class that had another name, or several one after the other:
    `count: Annotated[int, fs.was("hits")]`. Values that were stored under an old name are read under the new
    one. Raises PayloadError unless the names are strings."""
    if not names or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise PayloadError('fs.was takes the names that the field had, as in fs.was("hits")')
    return Was(names)


# --- what a class is now ------------------------------------------------------------------------------------


def shape_of(cls: type, fields: tuple[str, ...]) -> PayloadClass:
    """The shape of a class with these fields, but for their defaults. The same in every process: it takes
    annotations as they are written, and resolves no name. Raises PayloadError for renames that go in a
    circle."""
    written: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        written.update(inspect.get_annotations(base))
    found = {field: _said(written.get(field, Any)) for field in fields}
    before = {field: names for field, (_, names) in found.items() if names}
    name = f"{cls.__module__}:{cls.__qualname__}"
    for field, names in before.items():
        for other in names:
            if other in before:
                raise PayloadError(
                    f"{name}: field {field!r} was {other!r}, which is a renamed field itself: which stored one "
                    "is meant cannot be known; give one of the two a name that none has had"
                )
    return PayloadClass(name, tuple(f"{field}: {kind}" for field, (kind, _) in found.items()), was=before)


def _said(annotation: Any) -> tuple[str, tuple[str, ...]]:
    """(type in words, earlier names) of an annotation."""
    before: list[str] = []
    if get_origin(annotation) is Annotated:
        for mark in annotation.__metadata__:
            if isinstance(mark, Was):
                before.extend(mark.names)
    text = annotation if isinstance(annotation, str) else _written(annotation)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return text, tuple(before)
    return _normal(tree, before), tuple(before)


def _written(annotation: Any) -> str:
    """A type as one writes it."""
    origin, members = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, list):  # of a Callable
        return f"[{', '.join(map(_written, annotation))}]"
    if origin is Annotated:
        return _written(members[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, members))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(_written, members))
    if origin is not None:
        return f"{_written(origin)}[{', '.join(map(_written, members)) or '()'}]"
    return str(getattr(annotation, "__qualname__", "") or getattr(annotation, "__name__", "")) or (
        annotation if isinstance(annotation, str) else type(annotation).__name__
    )


def _normal(tree: ast.expr, before: list[str]) -> str:
    """The words of a type, however it is written: as its last name, unions with `|`."""
    match tree:
        case ast.Name(name) | ast.Attribute(attr=name):
            return _OLD_NAMES.get(name, name)
        case ast.Constant(str() as text) if text.strip():
            return _said(text)[0]
        case ast.Subscript(
            ast.Name("Annotated") | ast.Attribute(attr="Annotated"), ast.Tuple([first, *marks])
        ):
            for mark in marks:
                before.extend(_names_in(mark))
            return _normal(first, before)
        case ast.Subscript(ast.Name("Optional") | ast.Attribute(attr="Optional"), member):
            return f"{_normal(member, before)} | None"
        case ast.Subscript(ast.Name("Union") | ast.Attribute(attr="Union"), ast.Tuple(members)):
            return " | ".join(_normal(member, before) for member in members)
        case ast.Subscript(ast.Name("Literal") | ast.Attribute(attr="Literal"), values):
            return f"Literal[{ast.unparse(values).strip('()')}]"
        case ast.Subscript(of, ast.Tuple(members)) if members:
            return f"{_normal(of, before)}[{', '.join(_normal(member, before) for member in members)}]"
        case ast.Subscript(of, member):
            return f"{_normal(of, before)}[{_normal(member, before)}]"
        case ast.BinOp(left, ast.BitOr(), right):
            return f"{_normal(left, before)} | {_normal(right, before)}"
    return ast.unparse(tree)


def _names_in(mark: ast.expr) -> Iterator[str]:
    """The names in `fs.was("hits")`, as a postponed annotation has it."""
    match mark:
        case ast.Call(ast.Name("was") | ast.Attribute(attr="was"), names):
            for name in names:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


# --- what fits ----------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """The place that a field has its value from when an older shape is read."""

    place: int | None
    """The stored field's; None: the field has its default."""
    to_float: bool = False
    """The stored int becomes a float."""


def fit(stored: PayloadClass, now: PayloadClass) -> list[Source] | str:
    """The source of each field of `now` in a value of shape `stored`; or why there is none, and what to do."""
    types, now_types = stored.types, now.types
    places = {field: place for place, field in enumerate(types)}
    sources: list[Source] = []
    taken: dict[str, str] = {}
    for field, kind in now_types.items():
        before = next((name for name in (field, *now.was.get(field, ())) if name in places), None)
        if before is None:
            if field not in now.defaults:
                return _unlike(stored, f"has no field {field!r}", f"give {field!r} a default")
            sources.append(Source(None))
            continue
        if (other := taken.setdefault(before, field)) != field:
            return _unlike(
                stored, f"has one field {before!r} for {other!r} and {field!r}", "rename one step at a time"
            )
        widened = _widened(types[before], kind)
        if widened is None:
            of = repr(field) if before == field else f"{field!r} (was {before!r})"
            return _unlike(stored, f"has {types[before]} in field {of}, which is {kind} now", "")
        sources.append(Source(places[before], widened))
    return sources


def _unlike(stored: PayloadClass, difference: str, way_out: str) -> str:
    way_out = f"{way_out}, or " if way_out else ""
    return (
        f"payload class {stored.name} is stored with the fields ({stored.words}), and {difference}: {way_out}keep "
        "the class as it was, give the new one another name, and let version= and migrate= of the operation "
        "turn one into the other"
    )


def _widened(stored: str, now: str) -> bool | None:
    """Whether ints become floats where a type has become a wider one; None: it has not."""
    old, new = set(_members(stored)), set(_members(now))
    if old <= new or new & _ANY:
        return False
    return True if old - new == {"int"} and "float" in new else None


def _members(kind: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, sign in enumerate(kind):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and not depth:
            yield kind[start:at].strip()
            start = at + 1
    yield kind[start:].strip()


def changes(stored: Mapping[int, PayloadClass], now: PayloadClass) -> Iterator[str]:
    """How values of older shapes of a class are changed, in words."""
    for old in stored.values():
        if old.name != now.name or old.tag == now.tag or isinstance(sources := fit(old, now), str):
            continue
        kept = {source.place for source in sources}
        gone = [field for place, field in enumerate(old.types) if place not in kept]
        added = [field for field, source in zip(now.types, sources, strict=True) if source.place is None]
        said = [f"without {field}" for field in gone] + [
            f"with {field} as it is by default" for field in added
        ]
        if said:
            yield f"{old.name}({old.words}) is read {', '.join(said)}"
