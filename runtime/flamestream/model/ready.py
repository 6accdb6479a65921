"""Ready-made functions: keys, folds and results that are said by the names of fields.

They are functions like a user's own, and mean what these would; the reference interpreter and the batch
runners just call them. But the native kernel knows them, and carries them out on encoded payloads: no object
is made, and no Python runs, for an item.

>>> from dataclasses import dataclass
>>> @payload_type
... @dataclass(frozen=True)
... class Sale:
...     shop: str
...     cents: int
>>> @payload_type
... @dataclass(frozen=True)
... class Turnover:
...     shop: str
...     cents: int
>>> key, combine, emit = field("shop"), total("cents"), record(Turnover, "shop", cents=state)
>>> sale = Sale("north", 250)
>>> key(sale), emit(combine(combine.initial(), sale), sale)
('north', Turnover(shop='north', cents=250))

Keeps: the kernel's results are these functions' own, byte for byte (native/src/state/ready/mod.rs;
tests/unit/core/dataflow/test_native.py and tests/sim/test_native.py hold it to that).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

from flamestream.model.collections import Vector
from flamestream.model.errors import GraphError
from flamestream.model.expressions.expression import Expression, constant
from flamestream.model.expressions.expression import Field as Field
from flamestream.model.expressions.expression import field as field
from flamestream.model.payload import payload_type  # for the example above  # noqa: F401
from flamestream.model.payloads.registry import PLANS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Append:
    """(Vector, payload) -> the Vector with the payload's fields behind it: the one field, or a tuple of
    several."""

    names: tuple[str, ...]

    @property
    def written(self) -> str:
        """As it stands in a graph, for messages."""
        names = ", ".join(f'"{name}"' for name in self.names)
        return f"fs.append({names})"

    def initial(self) -> "Vector[Any]":
        return Vector()

    def __call__(self, values: "Vector[Any]", payload: Any) -> "Vector[Any]":
        fields = tuple(getattr(payload, name) for name in self.names)
        return values.append(fields[0] if len(fields) == 1 else fields)


@dataclass(frozen=True, slots=True)
class Count:
    """(count, payload) -> count + 1."""

    written: ClassVar = "fs.count()"

    def initial(self) -> int:
        return 0

    def __call__(self, count: int, payload: Any) -> int:
        return count + 1


@dataclass(frozen=True, slots=True)
class Total:
    """(sum, payload) -> the sum with one field of the payload."""

    name: str

    @property
    def written(self) -> str:
        """As it stands in a graph, for messages."""
        return f'fs.total("{self.name}")'

    def initial(self) -> int:
        return 0

    def __call__(self, before: Any, payload: Any) -> Any:
        return before + getattr(payload, self.name)


@dataclass(frozen=True, slots=True)
class Size:
    """(accumulator, payload) -> how many values the accumulator has."""

    written: ClassVar = "fs.size"

    def __call__(self, accumulator: Any, payload: Any) -> int:
        return len(accumulator)


@dataclass(frozen=True, slots=True)
class State:
    """(accumulator, payload) -> the accumulator."""

    written: ClassVar = "fs.state"

    def __call__(self, accumulator: Any, payload: Any) -> Any:
        return accumulator


size = Size()
"""A part of a record: how many values the accumulator has, an fs.Vector."""
state = State()
"""A part of a record: the accumulator itself."""
Part = Expression | Size | State


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """(accumulator, payload) -> an instance of a payload class, made of these parts; of a payload alone, if
    none of them is of an accumulator. It is made as a decoded one is: no `__init__` runs."""

    cls: type[T]
    parts: tuple[Part, ...]

    @property
    def written(self) -> str:
        """As it stands in a graph, for messages."""
        return f"fs.record({self.cls.__name__})"

    @overload
    def __call__(self, payload: Any, /) -> T: ...
    @overload
    def __call__(self, accumulator: Any, payload: Any, /) -> T: ...
    def __call__(self, *given: Any) -> T:
        build = PLANS[self.cls].build
        assert build is not None, "`record` takes classes with fields"
        payload = given[-1]
        # The kernel puts encoded parts together, where no `__init__` runs: so none may run here.
        return build([p(payload) if isinstance(p, Expression) else p(*given) for p in self.parts])  # type: ignore[no-any-return]


def append(*names: str) -> Append:
    """A fold: an fs.Vector of what these fields were, oldest first; of tuples, if there are several. It
    begins empty."""
    if not names:
        raise GraphError("fs.append() needs the name of a field at least: what is to be appended?")
    return Append(names)


def count() -> Count:
    """A fold: how many items. It begins with 0."""
    return Count()


def total(name: str) -> Total:
    """A fold: the sum of this field. It begins with 0."""
    return Total(name)


def record(cls: type[T], *names: str, **parts: Any) -> Record[T]:
    """A result: an instance of `cls`, whose fields are those of the item with the same name (`names`),
    expressions over the item as `fs.field(...) * 2`, values, or behind a fold `fs.state` (the accumulator) or
    `fs.size` (of an fs.Vector)."""
    plan = PLANS.get(cls)
    if plan is None or plan.labels is None or plan.build is None:
        raise GraphError(f"fs.record({cls.__qualname__}, ...): put @fs.payload_type above the class")
    said = {**{name: Field(name) for name in names}, **parts}
    if set(said) != set(plan.labels):
        raise GraphError(
            f"fs.record({cls.__qualname__}, ...) says {', '.join(said)}; the fields of the class are "
            f"{', '.join(plan.labels)}"
        )
    parts = {
        label: part if isinstance(part, Size | State) else constant(part) for label, part in said.items()
    }
    return Record(cls, tuple(parts[label] for label in plan.labels))
