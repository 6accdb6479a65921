"""Expressions mean what Python means, are written as they were said, and refuse early what has no one
meaning."""

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.expressions.expression import Expression, Field, fields_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import ERRORS, interpret


@fs.event
class Place:
    town: str


@fs.event
class Bid:
    price: int = 100
    rate: float = 0.5
    url: str = "https://a.b/x/y"
    at: datetime = datetime(2026, 10, 25, 0, 59, 59, tzinfo=UTC)
    name: str | None = None
    hot: bool = True
    place: Place = Place("Ulm")
    pair: tuple[int, str] = (1, "one")


@fs.event
class Euro:
    cents: int
    path: str


F = fs.field
BERLIN = datetime(2026, 10, 25, 2, 59, 59, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (F("price") * 908 // 1000, 90),
        (1000 - F("price") % 7 + 2, 1000 - 100 % 7 + 2),
        (-F("price") // 3, -34),
        (F("price") / 3, 100 / 3),
        (2**63 * F("price"), 2**63 * 100),
        (1 / (F("rate") + 0.5), 1.0),
        (7 // (F("price") - 97), 2),
        (7 % (F("price") - 95), 2),
        ((F("price") > 99) & (F("rate") <= 0.5) & (F("price") >= 100) & (F("rate") < 1), True),
        ((F("price") == 5) | (F("price") != 5), True),
        (~F("hot") | F("name").is_none(), True),
        (False | (True & F("hot")), True),
        (F("url").str.split("/")[2], "a.b"),
        (F("url").str.upper().str.lower().str.replace("https", "http").str.len(), 14),
        (F("url").str.startswith("https") & F("url").str.endswith("y") & F("url").str.contains("a.b"), True),
        (F("url").str.count("/"), 4),
        ((" " + F("url") + " ").str.strip(), "https://a.b/x/y"),
        (F("place").field("town"), "Ulm"),
        (F("pair")[1][-1], "e"),
        (F("at").dt.floor("1m"), datetime(2026, 10, 25, 0, 59, tzinfo=UTC)),
        (F("at").dt.hour() * 100 + F("at").dt.minute(), 59),
        (F("at").dt.date(), date(2026, 10, 25)),
        (fs.when(F("price") > 99).then("much").when(F("hot")).then("hot").otherwise("little"), "much"),
        (fs.when(F("price") > 100).then(1 // (F("price") - 100)).otherwise(F("price")), 100),
    ],
    ids=str,
)
def test_an_expression_means_what_python_means_and_is_written_as_it_was_said(
    expression: Expression, value: Any
) -> None:
    found = expression(Bid())
    assert (type(found), found) == (type(value), value)
    again = eval(expression.written, {"fs": fs, "datetime": __import__("datetime")})  # noqa: S307 (its own text)
    assert again.written == expression.written and again(Bid()) == value
    assert pickle.loads(pickle.dumps(expression)).written == expression.written


NUMBERS = st.recursive(
    st.sampled_from(["price", "rate"]).map(F) | st.integers(-3, 3),
    lambda inner: st.tuples(
        st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "==", "&"]), inner, inner
    ).map(lambda said: said_so(*said)),
    max_leaves=8,
)


def said_so(sign: str, left: Any, right: Any) -> Any:
    try:
        return eval(f"left {sign} right", {"left": left, "right": right})  # noqa: S307 (one of the signs above)
    except (GraphError, ZeroDivisionError):
        return left


@given(NUMBERS, st.integers(-9, 9), st.floats(-2, 2))
def test_what_is_written_is_read_as_the_same_tree(expression: Any, price: int, rate: float) -> None:
    if not isinstance(expression, Expression):
        return
    again = eval(expression.written, {"fs": fs})  # noqa: S307 (its own text)
    assert again.written == expression.written
    assert outcome(again, Bid(price, rate)) == outcome(expression, Bid(price, rate))


def outcome(function: Callable[[Any], Any], payload: Any) -> str:
    try:
        return repr(function(payload))
    except (ArithmeticError, TypeError) as error:
        return type(error).__name__


def test_a_floor_is_counted_in_utc_and_keeps_its_zone_where_clocks_go_back() -> None:
    for fold in (0, 1):
        floored = F("at").dt.floor("1h")(Bid(at=BERLIN.replace(fold=fold)))
        assert (floored.hour, floored.minute, floored.fold, floored.tzinfo) == (2, 0, fold, BERLIN.tzinfo)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (F("price") & F("hot"), "needs True or False, not a int"),
        (~F("price"), "needs True or False, not a int"),
        (fs.when(F("price")).then(1).otherwise(2), "needs True or False, not a int"),
        (F("price").str.lower(), r'fs\.field\("price"\)\.str\.lower\(\) takes a str, not a int'),
        (F("name").str.lower(), "takes a str, not a NoneType"),
        (F("url").dt.hour(), "takes a datetime, not a str"),
        (F("name") + 1, "NoneType"),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_an_error_of_the_item(expression: Expression, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        expression(Bid())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: F("price") > 1 and F("hot"), "use &, | and ~ for and, or, not"),
        (lambda: F("price") == 1 or F("hot"), "use &, | and ~"),
        (lambda: F("price") // 0, "divides by zero"),
        (lambda: F("price") == [1], "a list, which is no payload"),
        (lambda: F("url").str.split(""), "an empty text"),
        (lambda: F("url").str.startswith(5), "it takes a str"),  # type: ignore[arg-type]
        (lambda: F("pair")["x"], "a place is an int"),  # type: ignore[index]
        (lambda: F("at").dt.floor("1 lightyear"), "dt.floor"),
        (lambda: F("at").dt.floor("0s"), "at least 1 us"),
    ],
)
def test_what_has_no_one_meaning_is_refused_when_it_is_built(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build()


@pytest.mark.parametrize("name", ["", "two words", 5])
def test_a_field_has_the_name_of_one(name: Any) -> None:
    with pytest.raises(GraphError, match="the name of a field is a word"):
        fs.field(name)


def test_an_expression_is_no_sequence() -> None:
    with pytest.raises(TypeError):
        list(F("pair"))  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        assert 1 in F("pair")  # type: ignore[misc]


def test_expressions_can_be_compared_and_kept_in_sets() -> None:
    assert F("a") == F("a") and F("a") != F("b") and F("a") + 1 == F("a") + 1 and F("a") + 1 != F("a") + True
    assert {F("a"): 1}[F("a")] == 1 and len({F("a"), F("a"), F("b")}) == 2
    assert isinstance(F("a"), Field) and [each.name for each in fields_of(F("a") * 2 + F("b").str.len())] == [
        "a",
        "b",
    ]


def run(build: Callable[[fs.Stream[Any]], Any], *bids: Bid) -> list[Any]:
    graph = fs.Graph("g")
    build(graph.source("bids", Bid))
    results = interpret(graph, [(time_of(Timestamp(1), FrontId(0)), list(bids))], on_error="fail")
    assert not results[ERRORS], results[ERRORS]
    return [payload for _, payload in results["out"]]


def test_expressions_stand_where_functions_do() -> None:
    euro = fs.record(Euro, cents=F("price") * 908 // 1000, path=F("url").str.split("/")[3])
    assert run(lambda bids: bids.map(euro).sink("out", key="path"), Bid()) == [Euro(90, "x")]
    assert run(
        lambda bids: bids.filter(F("price") % 2 == 1).sink("out", key=F("price") // 10),
        Bid(1),
        Bid(2),
        Bid(3),
    ) == [Bid(1), Bid(3)]
    assert run(lambda bids: bids.flat_map(F("url").str.split("/")).sink("out"), Bid(url="a/b")) == ["a", "b"]
    emit = fs.record(Euro, cents=fs.state, path=F("url") + "!")
    counted = run(
        lambda bids: bids.reduce(key=F("price") // 10, combine=fs.count(), emit=emit).sink("out"),
        Bid(10),
        Bid(11),
    )
    assert counted == [Euro(1, "https://a.b/x/y!"), Euro(2, "https://a.b/x/y!")]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda bids: bids.map(F("prise") * 2), r"no field 'prise' .*did you mean 'price'\?"),
        (lambda bids: bids.filter(fs.when(F("hot")).then(F("nam")).otherwise(1)), "no field 'nam'"),
        (lambda bids: bids.map(fs.record(Euro, cents=F("cents") + 1, path="")), "no field 'cents'"),
        (lambda bids: bids.map(fs.record(Euro, cents=fs.state, path="")), r"fs\.state is of an accumulator"),
        (
            lambda bids: bids.map(fs.record(Euro, cents=F("price"), path="")).sink("out", key="cent"),
            "Euro has no field 'cent'",
        ),
        (lambda bids: bids.map(fs.when(F("hot")).then(1)), r"end it with \.otherwise"),
        (lambda bids: bids.filter(7), "a int stands where a function is called: 7"),
    ],
)
def test_fields_of_expressions_are_looked_for_when_the_graph_is_built(
    build: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(GraphError, match=rf"test_expression\.py:\d+: .*{message}"):
        build(fs.Graph("g").source("bids", Bid))


def test_a_tuple_of_expressions_is_one_and_a_case_may_be_a_value() -> None:
    bid = Bid()
    made = fs.when(True).then((F("price"), (fs.item.field("name"), 1))).otherwise(None)
    assert made(bid) == (100, (None, 1))
    assert str(made) == 'fs.when(True).then((fs.field("price"), (fs.item.field("name"), 1))).otherwise(None)'
