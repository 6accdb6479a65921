"""Lambdas: which of a user's own functions are nothing but an expression.

>>> expression_of(lambda bid: bid.price * 908 // 1000)
fs.field("price") * 908 // 1000
>>> expression_of(lambda bid: bid.price if bid.hot else 0)
NoExpression(why='it decides: only fs.when does')

Such a function is called once, with an item that remembers what is done with it. Before that its bytecode is
looked at: where it reads fields, computes with signs, and gives what comes of it, a call has seen all that
there is. So a function that jumps, calls, or reads what is not its item's is none. Nor is one of whose steps
the item remembers fewer or more than there are: tuples compare their members, and texts format theirs.

Keeps: an expression and its function give the same for every payload that the expression has a value for (!).
`&`, `|` and `~` are refused: of numbers they are others than an expression's. Does not: follow a function into
another, though its result may be one.
"""

import dis
import types
from dataclasses import dataclass
from inspect import CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from typing import Any, Final

from flamestream.model.expressions.expression import Expression, Field, Inner, Item, constant
from flamestream.model.expressions.operators import Operators

# Names of CPython 3.11 to 3.14. One that is not here yet costs speed, never a result.
_SEEN: Final = {
    "RESUME", "CACHE", "NOP", "EXTENDED_ARG", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_SMALL_INT",
    "BUILD_TUPLE", "RETURN_VALUE", "RETURN_CONST",
    *(_STEPS := {"LOAD_ATTR", "BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "UNARY_NEGATIVE"}),
}  # fmt: skip
"""Instructions that a call with a remembering item sees the whole of; those of `_STEPS` are remembered."""
_SIGNS: Final = {"+", "-", "*", "/", "//", "%", "[]"}
"""Those of BINARY_OP."""
_WHY: Final = {
    "JUMP": "it decides: only fs.when does",
    "SWAP": "it decides: only fs.when does",
    "UNARY_NOT": "it has a `not`",
    "LOAD_GLOBAL": "it uses `{name}`, which is not its item's",
    "LOAD_METHOD": "it calls `{name}`",
    "CALL": "it calls something",
    "IS_OP": "it has an `is`",
    "CONTAINS_OP": "it has an `in`",
    "FORMAT": "it formats a text",
}
"""Why other instructions make no expression, by how they begin or end."""
_NO_PLAIN: Final = CO_COROUTINE | CO_GENERATOR | CO_VARARGS | CO_VARKEYWORDS


@dataclass(frozen=True, slots=True)
class NoExpression:
    """The reason why a function is no expression."""

    why: str


class _Remembered(Operators["_Remembered"]):
    """An item, or what was made of it, that remembers how."""

    __slots__ = ("_made", "_steps")
    __iter__ = None  # `[]` would make it a sequence without end
    __hash__ = None  # type: ignore[assignment]  # what keeps it in a set asks for more than an expression

    def __init__(self, made: Expression, steps: list[Expression]) -> None:
        self._made = made
        self._steps = steps
        """All that was made so far of the item, in order."""

    def __getattr__(self, name: str) -> "_Remembered":
        return self._then(Field(name) if isinstance(self._made, Item) else Inner(self._made, name))

    def __getitem__(self, place: int) -> "_Remembered":
        if type(place) is not int:
            raise TypeError("it reads a place that depends on the item")
        return self._then(self._made[place])

    def signed(self, sign: str, other: Any) -> "_Remembered":
        return self._then(self._made.signed(sign, made_of(other)))

    def behind(self, sign: str, other: Any) -> "_Remembered":
        return self._then(self._made.behind(sign, made_of(other)))

    def alone(self, sign: str) -> "_Remembered":
        return self._then(self._made.alone(sign))

    def _then(self, made: Expression) -> "_Remembered":
        self._steps.append(made)
        return _Remembered(made, self._steps)

    def __bool__(self) -> bool:
        # Tuples ask this of what their members' `==` gave (!): it would be a constant.
        raise TypeError("it compares tuples, or decides")

    def __repr__(self) -> str:
        raise TypeError("it formats a text")


def expression_of(function: Any) -> Expression | NoExpression:
    """The expression that a function is, or why it is none."""
    if isinstance(function, Expression):
        return function
    if not isinstance(function, types.FunctionType):
        return NoExpression("it has no code that could be looked at")
    if (why := _why_not(function)) is not None:
        return NoExpression(why)
    steps = list[Expression]()
    try:
        found = constant(made_of(function(_Remembered(Item(), steps))))
    except Exception as error:  # noqa: BLE001 (whatever user code raises, of an item that it does not know)
        return NoExpression(str(error))
    # Also where a field is called like a method of the remembering item (`alone`, `signed`): it noted
    # nothing.
    if len(steps) != sum(each.opname in _STEPS for each in dis.get_instructions(function)):
        return NoExpression("it computes with other values than its item's")
    return found


def made_of(value: Any) -> Any:
    """The expression that a lambda's remembered value stands for, also inside of tuples."""
    if isinstance(value, _Remembered):
        return value._made
    return tuple(map(made_of, value)) if type(value) is tuple else value


def _why_not(function: types.FunctionType) -> str | None:
    code = function.__code__
    if code.co_flags & _NO_PLAIN:
        return "it is no plain function of an item"
    if (code.co_argcount, code.co_kwonlyargcount) != (1, 0):
        return "it takes more than an item"
    # It may be another at the next call; one call would make a constant of it.
    if code.co_freevars:
        return f"it uses `{code.co_freevars[0]}`, which is not its item's"
    # `_made` and `_steps` would be those of the remembering item.
    if any(name.startswith("_") for name in code.co_names):
        return "it reads what begins with _"
    for instruction in dis.get_instructions(code):
        if instruction.opname not in _SEEN:
            return _why(instruction)
        if instruction.opname == "BINARY_OP" and instruction.argrepr not in _SIGNS:
            return f"it has a `{instruction.argrepr}`"
    return None


def _why(instruction: dis.Instruction) -> str:
    name = instruction.opname
    for part, why in _WHY.items():
        if name.startswith(part) or (part == "JUMP" and part in name):
            return why.format(name=instruction.argval)
    return f"it has a step that no expression has ({name})"
