"""Fields: which ones the items of a stream have, as far as the graph says it, and the functions that are said
by a field's name.

What a stream's items are is known from `graph.source(name, Click)`, from the annotated result of a function,
and behind what keeps or folds items. Behind a function that says nothing it is not known, and nothing is
checked.

>>> from flamestream.model.payload import event
>>> @event
... class Click:
...     user: str
>>> key_of(Click, "usr", "job.py:7")  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
    ...
flamestream.model.errors.GraphError: job.py:7: fs.field("usr"): Click has no field 'usr' (it has user): did
you mean 'user'?

Keeps: what is refused here would fail for every item. Does not: know what a manifest says of a source
(job/field_types.py).
"""

import inspect
import types
import typing
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from flamestream.model.errors import GraphError
from flamestream.model.expressions.conditional import Then, When
from flamestream.model.expressions.expression import Expression, Field, fields_of
from flamestream.model.expressions.samples import check_types
from flamestream.model.payloads.encoding import SCALARS
from flamestream.model.payloads.registry import HEIGHTS, PLANS
from flamestream.model.ready import Append, Record, Size, State, Total


def key_of(items: Any, key: str | Callable[..., Any], where: str) -> Callable[..., Any]:
    """The function that a key is: of a text the field of this name. `items`: the type of the stream's items,
    None if it is not known; `where`: the user's line, for the message. Raises GraphError if such items have
    no such field."""
    function = Field(key) if isinstance(key, str) else key
    check_function(items, function, where)
    return function


def check_function(items: Any, function: Any, where: str, folded: bool = False) -> None:
    """Raises GraphError if a ready-made function names a field that items of this type do not have. `folded`:
    it has an accumulator too."""
    match function:
        case Expression():
            for field in fields_of(function):
                check_field(items, field.name, f"{where}: {field.written}")
            check_kinds(items, function, where)
        case Total(name):
            check_field(items, name, f"{where}: {function.written}")
            check_kinds(items, 0 + Field(name), f"{where}: {function.written}")
        case Append(names):
            for name in names:
                check_field(items, name, f"{where}: {function.written}")
        case Record(_, parts):
            for part in parts:
                check_function(items, part, where, folded)
        case Size() | State() if not folded:
            raise GraphError(
                f"{where}: {function.written} is of an accumulator, which only emit= of a fold is given"
            )
        case When() | Then():
            raise GraphError(
                f"{where}: fs.when(...) has no value for other cases: end it with .otherwise(...)"
            )
        case _ if getattr(function, "asks_outside", False) or inspect.iscoroutinefunction(function):
            raise GraphError(
                f"{where}: {getattr(function, '__qualname__', function)} asks the outside, and a pure function "
                "is called here: say stream.call(...)"
            )
        case _ if function is not None and not callable(function):
            raise GraphError(
                f"{where}: a {type(function).__name__} stands where a function is called: {function!r}"
            )


def check_field(items: Any, name: str, said: str) -> None:
    """Raises GraphError, which begins with `said`, if items of this type have no such field."""
    for cls in _members(items):
        plan = PLANS.get(cls) if isinstance(cls, type) else None
        labels = None if plan is None else plan.labels
        if labels is None and (cls in SCALARS or plan is not None):
            raise GraphError(
                f"{said}: a {plan.name if plan else cls.__name__} has no fields: use a function, "
                "or a class with @fs.event"
            )
        # a property is as good as a field
        if labels is None or name in labels or hasattr(cls, name):
            continue
        close = get_close_matches(name, labels, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "correct it"
        raise GraphError(
            f"{said}: {cls.__qualname__} has no field {name!r} (it has {', '.join(labels)}): {hint}"
        )


def check_kinds(items: Any, expression: Expression, where: str) -> None:
    """Raises GraphError, which begins with `where`, if an operation has no value for fields of these types."""
    try:
        check_types(expression, lambda name: _field_of(items, name))
    except TypeError as error:
        names = dict.fromkeys(field.name for field in fields_of(expression))
        kinds = ", ".join(f"{name} is of {_shown(_field_of(items, name))}" for name in names)
        raise GraphError(f"{where}: {error} ({kinds})") from None


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def result_of(function: Any, items: Any = None) -> Any:
    """The type of what a function gives for items of a type; None if that is not known."""
    if function is None or isinstance(origin(function), type):
        return function if origin(function) in HEIGHTS else None
    if isinstance(function, Field):
        return _field_of(items, function.name)
    if isinstance(function, Expression):
        return None
    if isinstance(function, Record):
        return function.cls
    if (made := getattr(function, "makes_class", None)) is not None:
        return made
    return _annotated(getattr(function, "func", function))  # a partial's


def results_of(function: Any) -> Any:
    """The type of each result of a function that gives several; None if that is not known."""
    if (made := getattr(function, "makes_class", None)) is not None:
        return made
    inner = typing.get_args(_annotated(getattr(function, "func", function)))
    return _known(inner[0]) if inner and inner[1:] in ((), (Ellipsis,)) else None


def kept_by(function: Any, items: Any) -> Any:
    """The type of the items that a filter lets through: what its TypeGuard says. Which of several types are
    left is else not known."""
    said = _annotated(getattr(function, "func", function))
    if typing.get_origin(said) is typing.TypeGuard:
        return _known(typing.get_args(said)[0])
    return items if len(_members(items)) == 1 else None


def either(*items: Any) -> Any:
    """The type of items that are of one of these types; None if one of them is not known."""
    return typing.Union[items] if None not in items else None  # noqa: UP007 (of as many as there are)


def _members(items: Any) -> tuple[Any, ...]:
    """The types that items may have; none if that is not known."""
    if typing.get_origin(items) in (typing.Union, types.UnionType):
        return typing.get_args(items)
    return () if items is None else (origin(items),)


def origin(hint: Any) -> Any:
    """The class of an annotation: tuple of `tuple[int, ...]`."""
    return typing.get_origin(hint) or hint


def _field_of(items: Any, name: str) -> Any:
    plan = PLANS.get(items) if isinstance(items, type) else None
    return _known(_hints(items).get(name)) if plan is not None and plan.labels is not None else None


def _annotated(function: Any) -> Any:
    function = (
        function if isinstance(function, types.FunctionType | types.MethodType) else type(function).__call__
    )
    return _known(_hints(function).get("return"))


def _hints(of: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of)
    # a name that is not there at run time, or no annotations at all: not known
    except (NameError, TypeError, AttributeError):
        return {}


def _known(hint: Any) -> Any:
    """A hint that says what something is, or None."""
    return None if hint in (Any, object) or isinstance(hint, typing.TypeVar) else hint
