"""Functions that are nothing but an expression are known as one, and no others."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.model.expressions.expression import Expression
from flamestream.model.expressions.lambdas import NoExpression, expression_of

LIMIT = 5


def named(item: Any) -> Any:
    """One with a name and a docstring."""
    return item.cents


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda item: item.cents * 908 // 1000, 'fs.field("cents") * 908 // 1000'),
        (lambda item: 3 % -item.cents, '3 % -fs.field("cents")'),
        (
            lambda item: (item.shop.town, (1, item.cents)),
            '(fs.field("shop").field("town"), (1, fs.field("cents")))',
        ),
        (lambda pair: pair[0].cents, 'fs.item[0].field("cents")'),
        (lambda item: item.cents >= 5, 'fs.field("cents") >= 5'),
        (lambda item: item, "fs.item"),
        (lambda item: 7, "7"),
        (named, 'fs.field("cents")'),
    ],
)
def test_what_only_reads_and_computes_is_an_expression(function: Callable[[Any], Any], written: str) -> None:
    found = expression_of(function)
    assert isinstance(found, Expression) and found.written == written
    item = SimpleNamespace(cents=7, shop=SimpleNamespace(town="Ulm"))
    given = (item, item) if "item[0]" in written else item
    assert found(given) == function(given)


def around(limit: int) -> Callable[[Any], Any]:
    return lambda item: item.cents > limit


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda item: item.cents if item.hot else 0, "it decides"),
        (lambda item: item.cents and item.hot, "it decides"),
        (lambda item: 1 < item.cents < 9, "it decides"),
        (lambda item: not item.hot, "a `not`"),
        (lambda item: item.cents is None, "an `is`"),
        (lambda item: 3 in item.pair, "an `in`"),
        (lambda item: item.cents > LIMIT, "`LIMIT`"),
        (around(3), "`limit`"),
        (lambda item: item.name.lower(), "`lower`"),
        (lambda item: len(item.name), "`len`"),
        (lambda item: f"{item.name}", "formats"),
        (lambda item: item.flags & item.mask, "`&`"),
        (lambda item: (item.cents, item.hot) == (1, 1), "compares tuples"),
        (lambda item: (item.cents, 1) < (item.hot, 1), "compares tuples"),
        (lambda item: ((item.cents,),) != ((7,),), "compares tuples"),
        (lambda item: "%s" % item.name, "formats"),  # noqa: UP031
        (lambda item: "abc" % item.name, "other values"),  # noqa: F507, UP031
        (lambda item: (item.cents,) + (item.hot,), "other values"),  # noqa: RUF005
        (lambda item: item.cents << 2, "`<<`"),
        (lambda item: ~item.flags, "no expression|`~`"),
        (lambda item: item.cents**2, r"`\*\*`"),
        (lambda item: item.pair[item.place], "place"),
        (lambda item: item.name[1:], "no expression"),
        (lambda item: [item.cents], "no expression"),
        (lambda item: item.cents / 0, "divides by zero"),
        (lambda item: item.__class__, "begins with _"),
        (lambda item, more=3: item.cents + more, "more than an item"),
        (lambda *items: items[0], "no plain function"),
        (lambda item: (yield item.cents), "no plain function"),
        (str, "no code"),
    ],
)
def test_what_does_more_is_none_and_says_why(function: Callable[..., Any], why: str) -> None:
    found = expression_of(function)
    assert isinstance(found, NoExpression)
    assert re.search(why, found.why)


def test_a_function_is_asked_for_nothing_but_what_its_code_shows() -> None:
    """It is called once, and only when its code is all that there is to see."""
    called = list[Any]()

    def counts(item: Any) -> Any:
        called.append(item)
        return item.cents

    assert isinstance(expression_of(counts), NoExpression) and called == []
