"""Every field of a struct, every value of a chart, every parameter of a command line, by introspection; and
rows of tables over them.

A table says of each field what its change changes, or with which words it is refused. A field that is in no
row turns its table's test red, so a new one comes with the proof that it does something.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import typer
from msgspec import inspect

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field that holds a value, by its path as a user writes it; of an enumeration also what it can be."""

    path: str
    values: tuple[str, ...] = ()


def leaves(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[Leaf]:
    """Of a struct and all structs below it, as far as they are named by fields."""
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    for each in described.fields:
        for leaf in _of(each.type, f"{prefix}{each.encode_name}"):
            # what it is anyway is no change
            yield Leaf(leaf.path, tuple(value for value in leaf.values if value != each.default))


def _of(kind: inspect.Type, path: str) -> Iterator[Leaf]:
    if isinstance(kind, inspect.Metadata):
        yield from _of(kind.type, path)
    elif isinstance(kind, inspect.StructType):
        yield from leaves(kind.cls, f"{path}.")
    elif isinstance(kind, inspect.UnionType):
        others = [each for each in kind.types if not isinstance(each, inspect.NoneType | inspect.StructType)]
        structs = [each for each in kind.types if isinstance(each, inspect.StructType)]
        values = [value for each in others if isinstance(each, inspect.LiteralType) for value in each.values]
        if others:
            yield Leaf(path, tuple(map(str, values)))
        for each in structs:
            yield from leaves(each.cls, f"{path}.")
    else:
        yield Leaf(path, tuple(map(str, kind.values)) if isinstance(kind, inspect.LiteralType) else ())


@dataclass(frozen=True, slots=True)
class Row:
    """One field set to `value`, on top of `given`, and what then differs: `sees` is the name of an
    observation."""

    path: str
    value: Any
    sees: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    """Further fields, by path, there before and after."""
    refused: str = ""
    """Instead of a difference: a part of the sentence that refuses the value."""
    before: Any = None
    """What it is before; None: left out."""
    along: dict[str, Any] = field(default_factory=dict)
    """Further fields, by path, that come with the change because it could not be without them."""

    def __str__(self) -> str:
        return f"{self.path}={self.value}"[:80].replace("[", "(").replace("]", ")")

    def documents(self, least: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Before and after the change."""
        before = copy.deepcopy(least)
        for path, value in self.given.items():
            put(before, path, value)
        if self.before is not None:
            put(before, self.path, self.before)
        after = copy.deepcopy(before)
        for path, value in self.along.items():
            put(after, path, value)
        put(after, self.path, self.value)
        return before, after


def put(document: dict[str, Any], path: str, value: Any) -> None:
    """Set the field at a path; a `/` in it stands for a dot of a name. None takes it away."""
    *parents, name = (part.replace("/dot/", ".") for part in path.split("."))
    for parent in parents:
        inner = document.setdefault(parent, {})
        if not isinstance(inner, dict):
            inner = document[parent] = {}
        document = inner
    if value is None:
        document.pop(name, None)
    else:
        document[name] = copy.deepcopy(value)


def uncovered(fields: Iterator[Leaf], rows: list[Row]) -> list[str]:
    """Fields, and values of enumerations, that no row changes (to); and rows of fields that are not there."""
    there = list(fields)
    named = {row.path for row in rows}
    chosen = {
        (row.path, str(value))
        for row in rows
        for value in (row.value, row.before, row.given.get(row.path))
        if value is not None
    }
    missing = [
        leaf.path
        for leaf in there
        if not any(name == leaf.path or name.startswith(f"{leaf.path}.") for name in named)
    ]
    values = [
        f"{leaf.path}={value}"
        for leaf in there
        for value in leaf.values
        if leaf.path in named and (leaf.path, value) not in chosen
    ]
    paths = {leaf.path for leaf in there}
    strange = [
        f"no such field: {name}"
        for name in sorted(named)
        if not any(name == p or name.startswith(f"{p}.") for p in paths)
    ]
    return missing + values + strange


def leaves_of_values(values: Any, prefix: str = "") -> Iterator[Leaf]:
    """Of a chart's values.yaml: what is not a mapping with keys."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("requests", "limits"):
            yield from leaves_of_values(value, f"{prefix}{name}.")
        else:
            yield Leaf(f"{prefix}{name}")


def parameters(app: typer.Typer) -> dict[str, list[str]]:
    """Of every command ("snapshots list" for one in a group): the names of its parameters."""
    found: dict[str, list[str]] = {}

    def walk(command: Any, name: str) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = [_spelled(parameter) for parameter in command.params]
        else:
            for each, below in inner.items():
                walk(below, f"{name} {each}".strip())

    walk(typer.main.get_command(app), "")
    return found


def _spelled(parameter: Any) -> str:
    """--option, or NAME."""
    options = [each for each in parameter.opts if each.startswith("--")]
    return options[0] if options else str(parameter.name).upper()
