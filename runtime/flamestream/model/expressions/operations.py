"""Operations: what the signs of expressions, and their words behind `.str` and `.dt`, mean in Python."""

import operator
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from flamestream.model.payloads.values import EPOCH, MICROSECOND

BINDS: Final = {
    "|": 1,
    "&": 2,
    "==": 0,
    "!=": 0,
    "<": 0,
    "<=": 0,
    ">": 0,
    ">=": 0,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "//": 5,
    "%": 5,
}
"""How tightly signs bind. Comparisons get parentheses everywhere, for `&` binds tighter than they do."""
OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "&": operator.and_, "|": operator.or_,
}  # fmt: skip
DIVISIONS: Final = frozenset({"/", "//", "%"})
"""Signs that fail for a zero behind them."""
CALLS: Final[dict[tuple[type, str], Callable[..., Any]]] = {
    **{
        (str, name): getattr(str, name)
        for name in ("lower", "upper", "strip", "startswith", "endswith", "count", "replace")
    },
    (str, "len"): len,
    (str, "contains"): operator.contains,
    (str, "split"): lambda text, separator: tuple(text.split(separator)),  # a list is no payload
    **{(datetime, name): attrgetter(name) for name in ("year", "month", "day", "hour", "minute", "second")},
    (datetime, "date"): datetime.date,
    (datetime, "floor"): lambda time, every: (
        EPOCH + (time - EPOCH) // MICROSECOND // every * every * MICROSECOND
    ).astimezone(time.tzinfo),
}
