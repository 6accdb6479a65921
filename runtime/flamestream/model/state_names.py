"""State names: how a graph's operations with state are called, so that their state is found whatever stands
around them.

    name="visits"                        visits
    left out: its functions' names       count by user
    several of one name                  count by user #1 of 2, count by user #2 of 2

Of several the number of all is in the name (!): one more of them changes the names of all, so none is given
another one's state in silence. A snapshot has a number made of the name; with `was`, of the name before.

Does not: say what a snapshot is of (core/protocol/inventory.py).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, Final, TypedDict, cast

import msgspec
from msgspec.structs import replace

from flamestream.model.errors import GraphError
from flamestream.model.vertex import Function, Kind, Vertex, call_site, name_of

BRACKETS: Final = "()"
"""How the name of a call ends, and no name of the manifest's does."""
LEAST_NUMBER: Final = 1 << 30
"""Numbers made of names are not below it, as places of operations in a graph are."""
VERSIONED: Final = frozenset({"group", "reduce", "process"})
"""Operations whose state is what the user's functions make it."""
MARKS: Final = "marks"
"""Form of what follows from sources alone: it goes with the last operation that it is kept for."""
_NAME: Final = re.compile(r"[\w.-]{1,63}")
_SEVERAL: Final = re.compile(r" #\d+ of \d+$")
"""How a name ends that several operations have."""
_FIELD: Final = re.compile(r'fs\.field\("([^"]*)"\)')
_PATH: Final = re.compile(r"\b(?:(?:[A-Za-z_]\w*|<locals>|<lambda>)\.)+([A-Za-z_]\w*|<lambda>)(?![\w(])")


class Named(TypedDict, total=False):
    """The name of an operation's state."""

    name: str
    """Unique in the graph; left out, it is made of the names of its functions."""
    was: str
    """The name that the operation had when its state was begun."""


class Versioned(Named, total=False):
    """The name of an operation's state, and how it came to be what it is."""

    version: int
    """1 if left out; one more with each change that a state has to go through."""
    migrate: Mapping[int, Function]
    """For each version before: a pure function of its state, that gives the next version's."""


NAMELESS: Final[Named] = {}
TABLES: Final = "tables"
"""The name of the state that a graph's tables have, and how its form begins."""
MOST_VERSIONS: Final = 1 << 16


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operation with state, as a snapshot knows it."""

    number: int
    """In the rows of its state."""
    name: str
    form: str
    """The form of its state: another one's cannot be taken over."""
    place: int | None = None
    """Its vertex. In an index: the number of rows that were written before operations had names; None: there
    are none."""
    was: str = ""
    """The name that the number is made of, if that is another."""
    since: int = 0
    """Rows of older epochs are of an operation of this name that is no more."""
    version: int = 1
    """The version of its state."""
    migrates: tuple[int, ...] = ()
    """Versions that the next one can be made of. Of a graph."""
    versions: tuple[tuple[int, int], ...] = ()
    """In an index: (epoch, version), from which epoch on its rows are of which version; empty: all are of
    version 1."""
    tables: tuple[tuple[str, int], ...] = ()
    """In an index: (table, epoch), of tables that came later than the state: rows of theirs of older epochs are of a
    table of this name that is no more."""
    like: str = ""
    """Tells it from others that are called alike (`_likenesses`); "" where there are none."""

    def version_at(self, epoch: int) -> int:
        """The version of rows of an epoch."""
        return next((version for first, version in reversed(self.versions) if first <= epoch), 1)

    @property
    def numbered(self) -> bool:
        """Whether its state is found by which of several it is."""
        return not self.was and _SEVERAL.search(self.name) is not None


def number_of(name: str) -> int:
    """The number of a name in a snapshot's rows, which have 31 bits for it."""
    return LEAST_NUMBER | int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest()) >> 2


def number_of_sink(name: str) -> int:
    """The number of what a snapshot holds for a sink, or of a call's requests."""
    return number_of(f"sink {name}")


def said(named: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Fields of a vertex for what a user has said of its name and version; `of` is the method. Raises
    GraphError."""
    known = Versioned if of in VERSIONED else Named
    if unknown := sorted(named.keys() - known.__annotations__.keys()):
        raise GraphError(f"{call_site()}: stream.{of} has no {unknown[0]}=")
    name, was = named.get("name"), named.get("was")
    if name is not None:
        check_name(name, "an operation")
    if was is not None and not (isinstance(was, str) and was):
        raise GraphError(f"{call_site()}: was={was!r}: it is the name that the operation had")
    return {"given": name or "", "was": was or "", **_said_version(named)}


def _said_version(named: Mapping[str, Any]) -> dict[str, Any]:
    version, migrate = named.get("version", 1), named.get("migrate", {})
    if type(version) is not int or not 1 <= version <= MOST_VERSIONS:
        raise GraphError(f"{call_site()}: version={version!r}: it is a number from 1 on")
    if not isinstance(migrate, Mapping) or not all(
        type(old) is int and 1 <= old < version and callable(up) for old, up in migrate.items()
    ):
        raise GraphError(
            f"{call_site()}: migrate={migrate!r}: for a version below {version} it has the function that makes "
            "the next one of its state, as in version=2, migrate={1: up}"
        )
    return {"version": version, "migrate": dict(migrate)}


def within(named: Named, kind: Callable[[Function], Function]) -> Named:
    """The same for an operation that has the user's state within its own: `kind` makes a step of that of one of
    the user's."""
    said: dict[str, Any] = {**named}
    if not isinstance(migrate := said.get("migrate"), Mapping):
        return named
    steps = {version: kind(up) if callable(up) else up for version, up in migrate.items()}
    said["migrate"] = steps
    return cast("Named", said)


def part_of(named: Named, part: str) -> Named:
    """The names of a part of an operation that has state of its own."""
    return {key: f"{name}.{part}" for key, name in named.items()}  # type: ignore[return-value]


def short(function: Function) -> str:
    """A function as names have it."""
    return plain(name_of(function))


def check_name(name: Any, of: str) -> None:
    """Raises GraphError if state cannot have this name, which is `of` something."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise GraphError(f"{call_site()}: the name of {of} has letters, digits, . _ and -: {name!r} has not")


def plain(written: str) -> str:
    """A text about functions, without the modules that they stand in."""
    return _PATH.sub(r"\1", _FIELD.sub(r"\1", written)).replace("<lambda>", "lambda")


def numbered_call(name: str) -> bool:
    """Whether a call, by its name, is found by which of several it is (calls/productions.py)."""
    return _SEVERAL.search(name.removesuffix(BRACKETS)) is not None


def numbered(names: Sequence[str]) -> list[str]:
    """Names, where those that several have say which of how many."""
    several, met, found = Counter(names), Counter[str](), []
    for name in names:
        met[name] += 1
        found.append(name if several[name] == 1 else f"{name} #{met[name]} of {several[name]}")
    return found


def operations_of(vertices: Sequence[Vertex]) -> tuple[Operation, ...]:
    """The operations with state among `vertices`, in their order."""
    kept = [vertex for vertex in vertices if vertex.kind in (Kind.GROUPING, Kind.REDUCE)]
    names = dict(zip((vertex.id for vertex in kept), _unique(kept), strict=True))
    found = tuple(
        Operation(
            number_of(v.was or names[v.id]),
            names[v.id],
            _form(v),
            place=v.id,
            was=v.was,
            version=v.version,
            migrates=tuple(sorted(v.migrate)),
        )
        for v in kept
    )
    if not any(each.numbered for each in found):
        return found
    like = _likenesses(vertices)
    return tuple(
        replace(each, like=like[vertex.id]) if each.numbered else each
        for each, vertex in zip(found, kept, strict=True)
    )


def check_names(vertices: Sequence[Vertex], graph: str) -> None:
    """Raises GraphError for two operations whose states would be one."""
    known: dict[int, Operation] = {}
    for found in operations_of(vertices):
        other = known.setdefault(found.number, found)
        if other is not found:
            raise GraphError(_one_number(vertices, other, found, graph))


def _one_number(vertices: Sequence[Vertex], first: Operation, second: Operation, graph: str) -> str:
    assert first.place is not None and second.place is not None, "they are of a graph"
    one, other = vertices[first.place], vertices[second.place]
    same = f"two operations of graph {graph!r} would have one state: {first.name!r} of {one.place}"
    if first.name == second.name and not (one.was or other.was):
        return f"{same}, and that of {other.place}: give each a name of its own"
    was = "".join(f", which was {v.was!r}" for v in (other,) if v.was)
    return f"{same}, and {second.name!r} of {other.place}{was}: give one of them another name="


def _unique(kept: Iterable[Vertex]) -> list[str]:
    names = [vertex.given or _derived(vertex) for vertex in kept]
    several = Counter(name for name, vertex in zip(names, kept, strict=True) if not vertex.given)
    met: Counter[str] = Counter()
    for place, vertex in enumerate(kept):
        if not vertex.given and (all_of := several[names[place]]) > 1:
            met[names[place]] += 1
            names[place] = f"{names[place]} #{met[names[place]]} of {all_of}"
    return names


def _derived(vertex: Vertex) -> str:
    for function in (vertex.combine, vertex.emit):
        if (name := getattr(function, "state_name", None)) is not None:
            return str(name)  # this library's own
    assert vertex.key is not None, "the graph's builder gives every keyed vertex its key"
    fold = "group" if vertex.combine is None else short(vertex.combine)
    return f"{fold} by {short(vertex.key)}"


def form_of_tables(names: Iterable[str]) -> str:
    """The form of the state of a graph's tables, which says whose rows it has."""
    return f"{TABLES} {', '.join(sorted(names))}"


def tables_in(form: str) -> frozenset[str]:
    """The tables whose rows a state of this form has; none if it is of no tables."""
    kind, _, names = form.partition(" ")
    return frozenset(names.split(", ")) if kind == TABLES and names else frozenset()


def _form(vertex: Vertex) -> str:
    if vertex.kind is Kind.GROUPING:
        return f"the last {vertex.window}"
    return str(getattr(vertex.combine, "form", "a fold"))


def _likenesses(vertices: Sequence[Vertex]) -> list[str]:
    """A digest for each vertex: of what it is made of, and what leads to it.

    Two lambdas, or two counts behind two filters, are called alike and numbered by their places. Where only
    places were exchanged the graph is the same to look at, and each would be given the other's state. The same
    in every process of a Python (!): no address, no place in a file, no order of a set.
    """
    found: list[str] = []
    before: list[list[str]] = [[] for _ in vertices]
    for vertex in vertices:
        text = "\n".join((*_parts(vertex), *before[vertex.id]))
        found.append(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
        for (
            end
        ) in vertex.outputs:  # what goes back in a loop comes too late, and is behind the loop's head anyway
            before[end].append(found[-1])
    return found


def _parts(vertex: Vertex) -> Iterator[str]:
    yield f"{vertex.kind.value} {vertex.name}"
    for function in (vertex.function, vertex.key, vertex.initial, vertex.combine, vertex.emit):
        if function is not None:
            yield f"{name_of(function)} {_code(function)}"


def _code(function: Function) -> str:
    code = getattr(function, "__code__", None)
    return _text(code) if isinstance(code, CodeType) else ""


def _text(constant: object) -> str:
    if isinstance(constant, CodeType):
        return f"{constant.co_code.hex()} {constant.co_names} {' '.join(map(_text, constant.co_consts))}"
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_text, constant)))}}}"
    return repr(constant)
