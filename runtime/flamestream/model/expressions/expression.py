"""Expressions: functions of a payload that are said by operations on its fields, for map, filter, flat_map,
keys and fs.record.

>>> from types import SimpleNamespace as Bid
>>> price = field("price") * 908 // 1000
>>> price, price(Bid(price=100))
(fs.field("price") * 908 // 1000, 90)
>>> channel = field("url").str.split("/")[1]
>>> channel, channel(Bid(url="/apple/5"))
(fs.field("url").str.split('/')[1], 'apple')

An expression is a tree of frozen nodes. Calling one is its meaning, in plain Python: integers without bound,
`/` gives a float, `//` and `%` round down, and nothing can be done with None but `==` and `is_none()`. A tree
whose root is a field is a `Field`, which the native kernel knows. Parts are computed from left to right, each
once; only `when` leaves out what it does not need.

Keeps: what Python and Arrow do otherwise is refused when it is built (`and`, `or`, `in`, a text cut by
nothing), or when it is called (`&` of what is no bool, texts of what is no str). Does not: know the fields of
a stream (fields.py).

It is longer than other modules, for every operation makes a node and every node has all operations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from flamestream.model.duration import Duration, micros
from flamestream.model.errors import GraphError
from flamestream.model.expressions.operations import BINDS, CALLS, DIVISIONS, OPERATIONS
from flamestream.model.expressions.operators import Operators
from flamestream.model.payloads.encoding import is_payload

Name = str
"""Text, where a class has a property `str`."""


class Expression(Operators["Expression"]):
    """A function of a payload, made by operations on fields."""

    __slots__ = ()
    __iter__ = None  # `[]` would make it a sequence without end
    __contains__ = None

    @property
    def written(self) -> Name:
        """As it stands in a graph, for messages."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple["Expression", ...]:
        """The expressions that it is made of."""
        return ()

    def __call__(self, payload: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> Name:
        return self.written

    def __hash__(self) -> int:
        # Of what `Equality` compares, or sets would not find an equal one.
        return hash(self.written)

    def __bool__(self) -> NoReturn:
        raise GraphError(
            f"{self.written} is neither true nor false before there is a payload: use &, "
            "| and ~ for and, or, not"
        )

    def signed(self, sign: Name, other: Any) -> "Expression":
        if sign in ("==", "!="):
            return Equality(sign, self, constant(other))
        return Binary(sign, self, divisor(other) if sign in DIVISIONS else constant(other))

    def behind(self, sign: Name, other: Any) -> "Expression":
        return Binary(sign, constant(other), self)

    def alone(self, sign: Name) -> "Expression":
        return Unary(sign, self)

    def __getitem__(self, place: int) -> "Expression":
        """The member of a tuple, or the character of a text, at this place."""
        if type(place) is not int:
            raise GraphError(f"{self.written}[{place!r}]: a place is an int")
        return Element(self, place)

    def field(self, name: Name) -> "Expression":
        """A field of the event that is this field."""
        return Inner(self, name)

    def is_none(self) -> "Expression":
        """Whether it is None."""
        return Equality("==", self, Constant(None))

    @property
    def dt(self) -> "Times":
        """Operations on a datetime."""
        return Times(self)

    @property
    def str(self) -> "Texts":
        """Operations on a text."""
        return Texts(self)


# eq=False, here and below: `==` builds an expression, and a dataclass would put its own there.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Expression):
    """payload -> one field of it."""

    name: str

    @property
    def written(self) -> str:
        return f'fs.field("{self.name}")'

    def __call__(self, payload: Any) -> Any:
        return getattr(payload, self.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item(Expression):
    """payload -> itself: where expressions about tuples begin, as `fs.item[0]`."""

    @property
    def written(self) -> str:
        return "fs.item"

    def __call__(self, payload: Any) -> Any:
        return payload


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inner(Expression):
    """payload -> a field of an event inside of it."""

    of: Expression
    name: str

    @property
    def written(self) -> str:
        return f'{_enclosed(self.of)}.field("{self.name}")'

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.of,)

    def __call__(self, payload: Any) -> Any:
        return getattr(self.of(payload), self.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Expression):
    """payload -> always this value."""

    value: Any

    @property
    def written(self) -> str:
        return repr(self.value)

    def __call__(self, payload: Any) -> Any:
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Element(Expression):
    """payload -> a member of a tuple or text."""

    of: Expression
    place: int

    @property
    def written(self) -> str:
        return f"{_enclosed(self.of)}[{self.place}]"

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.of,)

    def __call__(self, payload: Any) -> Any:
        return self.of(payload)[self.place]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Members(Expression):
    """payload -> a tuple."""

    members: tuple[Expression, ...]

    @property
    def written(self) -> str:
        behind = "," if len(self.members) == 1 else ""
        return f"({', '.join(member.written for member in self.members)}{behind})"

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.members

    def __call__(self, payload: Any) -> Any:
        return tuple([member(payload) for member in self.members])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expression):
    """payload -> `-` of a number, or `~`: the other truth value."""

    sign: str
    of: Expression

    @property
    def written(self) -> str:
        return f"{self.sign}{_enclosed(self.of)}"

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.of,)

    def __call__(self, payload: Any) -> Any:
        value = self.of(payload)
        return -value if self.sign == "-" else not truth(value, self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expression):
    """payload -> an operation on two values."""

    sign: str
    left: Expression
    right: Expression

    @property
    def written(self) -> str:
        first = (
            self.left.written if _binds(self.left) >= max(BINDS[self.sign], 1) else f"({self.left.written})"
        )
        second = self.right.written if _binds(self.right) > BINDS[self.sign] else f"({self.right.written})"
        return f"{first} {self.sign} {second}"

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def __call__(self, payload: Any) -> Any:
        left, right = self.left(payload), self.right(payload)
        # of numbers they would be operations on bits
        if self.sign in "&|":
            truth(left, self), truth(right, self)
        return OPERATIONS[self.sign](left, right)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equality(Binary):
    """payload -> whether two values are equal, or not.

    Asked for its own truth it says whether the two expressions are the same, so that expressions can be
    compared and kept in sets."""

    __hash__ = Expression.__hash__

    def __bool__(self) -> bool:  # type: ignore[override]
        # A field beside a constant is a user's `if`, and not a set that compares two expressions.
        if isinstance(self.right, Constant) is not isinstance(self.left, Constant):
            Expression.__bool__(self)
        return (self.left.written == self.right.written) is (self.sign == "==")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """payload -> an operation of `.str` or `.dt`."""

    of: Expression
    kind: type
    name: str
    given: tuple[Any, ...]
    shown: str

    @property
    def written(self) -> str:
        return f"{_enclosed(self.of)}.{self.shown}"

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.of,)

    def __call__(self, payload: Any) -> Any:
        value = self.of(payload)
        if type(value) is not self.kind:
            raise TypeError(f"{self.written} takes a {self.kind.__name__}, not a {type(value).__name__}")
        return CALLS[self.kind, self.name](value, *self.given)


@dataclass(frozen=True, slots=True)
class Texts:
    """The operations of `.str`. What they get must be a str."""

    of: Expression

    def lower(self) -> Expression:
        return self._call("lower")

    def upper(self) -> Expression:
        return self._call("upper")

    def strip(self) -> Expression:
        """Without white space at both ends."""
        return self._call("strip")

    def len(self) -> Expression:
        """The number of its characters."""
        return self._call("len")

    def startswith(self, text: str) -> Expression:
        return self._call("startswith", text)

    def endswith(self, text: str) -> Expression:
        return self._call("endswith", text)

    def contains(self, text: str) -> Expression:
        """Whether `text` stands in it."""
        return self._call("contains", text)

    def count(self, text: str) -> Expression:
        """How often `text` stands in it, without overlaps."""
        return self._call("count", _cut(text))

    def split(self, separator: str) -> Expression:
        """A tuple of its parts: `.split("/")[2]` is the third."""
        return self._call("split", _cut(separator))

    def replace(self, old: str, new: str) -> Expression:
        return self._call("replace", _cut(old), new)

    def _call(self, name: str, *given: str) -> Expression:
        for text in given:
            if type(text) is not str:
                raise GraphError(f"{self.of.written}.str.{name}({text!r}): it takes a str")
        return Call(self.of, str, name, given, f"str.{name}({', '.join(map(repr, given))})")


@dataclass(frozen=True, slots=True)
class Times:
    """The operations of `.dt`. What they get must be a datetime; hours and days are those of its own zone."""

    of: Expression

    def floor(self, every: Duration) -> Expression:
        """The beginning of the stretch of this length that it is in, counted from 1970 in UTC. Its zone
        stays."""
        return Call(self.of, datetime, "floor", (micros(every, "dt.floor", least=1),), f"dt.floor({every!r})")

    def year(self) -> Expression:
        return self._call("year")

    def month(self) -> Expression:
        """1 to 12."""
        return self._call("month")

    def day(self) -> Expression:
        """1 to 31."""
        return self._call("day")

    def hour(self) -> Expression:
        return self._call("hour")

    def minute(self) -> Expression:
        return self._call("minute")

    def second(self) -> Expression:
        """Whole seconds, 0 to 59."""
        return self._call("second")

    def date(self) -> Expression:
        return self._call("date")

    def _call(self, name: str) -> Expression:
        return Call(self.of, datetime, name, (), f"dt.{name}()")


def field(name: str) -> Field:
    """The payload's field of this name: a key, and where expressions begin, as in `fs.field("price") * 2`.
    Raises GraphError if it cannot be one's name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise GraphError(f"fs.field({name!r}): the name of a field is a word, as in a class")
    return Field(name)


item = Item()
"""The payload itself, where expressions about tuples begin: `fs.item[0]` is the first of a pair."""


def constant(value: Any) -> Expression:
    """An expression, or a value as one; of a tuple with expressions in it the tuple of their values. Raises
    GraphError if the value is no payload."""
    if isinstance(value, Expression):
        return value
    if type(value) is tuple:
        members = tuple(map(constant, value))
        if not all(isinstance(member, Constant) for member in members):
            return Members(members)
    if not is_payload(value):
        raise GraphError(
            f"an expression with a {type(value).__name__}, which is no payload: use numbers, texts, times "
            "and fs.field(...)"
        )
    return Constant(value)


def divisor(value: Any) -> Expression:
    """Divisor as an expression. Raises GraphError for zero, which would fail for every item."""
    if not isinstance(value, Expression) and value == 0:
        raise GraphError("an expression divides by zero")
    return constant(value)


def fields_of(expression: Expression) -> Iterator[Field]:
    """The fields that an expression asks for, from left to right."""
    if isinstance(expression, Field):
        yield expression
    for part in expression.parts:
        yield from fields_of(part)


def _binds(expression: Expression) -> int:
    return BINDS[expression.sign] if isinstance(expression, Binary) else 9


def _enclosed(expression: Expression) -> str:
    return f"({expression.written})" if isinstance(expression, Binary | Unary) else expression.written


def truth(value: Any, expression: Expression) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{expression.written} needs True or False, not a {type(value).__name__}")
    return value


def _cut(text: str) -> str:
    if text == "":
        raise GraphError("an expression looks for an empty text, which stands everywhere")
    return text
