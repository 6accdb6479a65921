"""The kernel's value of an expression is Python's, of an object and of its encoding, or there is none and
Python raises."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import flamestream as fs
from flamestream.core.dataflow.native_expressions import described
from flamestream.model.expressions.expression import Expression, constant
from flamestream.model.kernel import kernel
from flamestream.model.payload import encode

pytestmark = pytest.mark.skipif(kernel is None, reason="there is no native kernel")


@fs.event
class Place:
    town: str


@fs.event
class Bid:
    count: int
    rate: float
    hot: bool
    url: str
    at: datetime
    name: str | None
    place: Place
    pair: tuple[int, str]


@fs.event
class Pair:
    one: Any
    other: Any


INTS = [0, 1, -1, 7, -7, 13, -20, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63]
FLOATS = [0.0, -0.0, 1.5, float(2**53), 1e308, float("inf"), float("nan"), -2.25]
TEXTS = ["", "a", "https://a.b/x/y", "Straße", " ÄΣ ", "a/a/a", "İI"]
TIMES = [
    datetime(2026, 10, 25, 0, 59, 59, 7, tzinfo=UTC), datetime(1969, 12, 31, 23, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 59, tzinfo=ZoneInfo("Europe/Berlin")), datetime(1, 1, 1, tzinfo=UTC),
]  # fmt: skip
OF_TEXTS: list[Callable[[Any], Any]] = [
    lambda of: of.str.lower(), lambda of: of.str.upper(), lambda of: of.str.strip(), lambda of: of + "ß",
    lambda of: of.str.replace("a", "bc"), lambda of: of.str.split("/")[0], lambda of: of[-1],
]  # fmt: skip
FROM_TEXTS: list[Callable[[Any], Any]] = [
    lambda of: of.str.len(), lambda of: of.str.count("a"), lambda of: of.str.startswith("a"),
    lambda of: of.str.endswith("ß"), lambda of: of.str.contains("/"), lambda of: of.str.split("a"),
    lambda of: of.str.split("/")[1],
]  # fmt: skip
FROM_TIMES: list[Callable[[Any], Any]] = [
    lambda of: of.dt.floor("7m"), lambda of: of.dt.floor("1d"), lambda of: of.dt.year(),
    lambda of: of.dt.month(), lambda of: of.dt.day(), lambda of: of.dt.hour(), lambda of: of.dt.minute(),
    lambda of: of.dt.second(), lambda of: of.dt.date(), lambda of: of < datetime(2020, 1, 1, tzinfo=UTC),
]  # fmt: skip
FROM_ANY: list[Callable[[Any], Any]] = [
    lambda of: of.is_none(), lambda of: of[0], lambda of: -of, lambda of: ~of, lambda of: of.field("town"),
    lambda of: of.str.len(), lambda of: of.dt.hour(),
]  # fmt: skip
ARITHMETIC, COMPARISONS = ["+", "-", "*", "/", "//", "%"], ["==", "!=", "<", "<=", ">", ">="]


class Draw:
    """Expressions and bids from a seed: most of them with a value, some of them refused."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def bid(self) -> Bid:
        one = self.random.choice
        return Bid(
            one(INTS), one(FLOATS), one([True, False]), one(TEXTS), one(TIMES), one([None, *TEXTS]),
            Place(one(TEXTS)), (one(INTS), one(TEXTS)),
        )  # fmt: skip

    def expression(self) -> Expression:
        kinds = [self.number, self.text, self.truth, self.other, self.any, self.conditional, self.mixed]
        return self.random.choice(kinds)()

    def number(self, depth: int = 3) -> Expression:
        match self.random.randrange(5 if depth else 2):
            case 0:
                return self._field("count", "rate", "hot")
            case 1:
                return fs.field("pair")[0]
            case 2:
                return -self.number(depth - 1)
            case _:
                return self._signed(
                    ARITHMETIC, self.number(depth - 1), self._or(INTS + FLOATS, self.number, depth)
                )

    def text(self, depth: int = 2) -> Expression:
        if depth and self.random.random() < 0.5:
            return self.random.choice(OF_TEXTS)(self.text(depth - 1))  # type: ignore[no-any-return]
        return self.random.choice([fs.field("url"), fs.field("place").field("town"), fs.field("pair")[1]])

    def truth(self, depth: int = 2) -> Expression:
        match self.random.randrange(4 if depth else 2):
            case 0:
                return self._signed(COMPARISONS, self.number(1), self._or(INTS + FLOATS, self.number, 1))
            case 1:
                return self._signed(COMPARISONS, self.text(1), self._or(TEXTS, self.text, 1))
            case 2:
                return ~self.truth(depth - 1)
            case _:
                return self._signed(["&", "|"], self.truth(depth - 1), self.truth(depth - 1))

    def other(self) -> Expression:
        if self.random.random() < 0.5:
            return self.random.choice(FROM_TEXTS)(self.text())  # type: ignore[no-any-return]
        return self.random.choice(FROM_TIMES)(fs.field("at"))  # type: ignore[no-any-return]

    def conditional(self) -> Expression:
        return fs.when(self.truth()).then(self.number()).when(self.truth(1)).then(self.text()).otherwise(None)

    def mixed(self) -> Expression:
        return constant((self.number(1), (self.any(), "x"), self.text(1)))

    def any(self) -> Expression:
        """Of fields of all kinds: often refused."""
        field = self._field("count", "rate", "hot", "url", "at", "name", "place", "pair")
        if self.random.random() < 0.5:
            return self.random.choice(FROM_ANY)(field)  # type: ignore[no-any-return]
        other = self.random.choice(
            [fs.item, fs.field("name"), fs.field("at"), fs.field("count"), 3, None, True]
        )
        return self._signed([*ARITHMETIC, *COMPARISONS, "&", "|"], field, other)

    def _field(self, *names: str) -> Expression:
        return fs.field(self.random.choice(names))

    def _or(self, values: list[Any], made: Callable[[int], Expression], depth: int) -> Any:
        return self.random.choice([value for value in values if value != 0] + [made(depth - 1)] * len(values))

    def _signed(self, signs: list[str], left: Expression, right: Any) -> Expression:
        return left.signed(self.random.choice(signs), right)


def _python(function: Callable[[Any], Any], payload: Any) -> bytes | None:
    """The encoding of the value; None if there is none."""
    try:
        return encode(function(payload))
    except Exception:  # noqa: BLE001 (whatever an expression refuses)
        return None


def _native(function: Any, payload: Any, encoded: bool) -> bytes | None:
    assert kernel is not None
    found = kernel.evaluated(described(function), encode(payload) if encoded else payload, encoded)
    return None if found is None else _python(lambda _: found[0], None)


@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_has_pythons_value_of_any_expression(seed: int) -> None:
    draw, values = Draw(seed), 0
    for _ in range(300):
        expression, bid = draw.expression(), draw.bid()
        expected = _python(expression, bid)
        assert _native(expression, bid, False) == expected, f"{expression} of {bid}"
        assert _native(expression, bid, True) == expected, f"{expression} of {bid}, encoded"
        values += expected is not None
    assert values > 150


@pytest.mark.parametrize("seed", range(5))
def test_a_record_of_expressions_is_the_one_that_python_makes(seed: int) -> None:
    draw = Draw(seed)
    for _ in range(100):
        record, bid = fs.record(Pair, one=draw.expression(), other=draw.expression()), draw.bid()
        assert _native(record, bid, False) == _native(record, bid, True) == _python(record, bid), (
            f"{record} {bid}"
        )


LAMBDAS: list[Callable[[Any], Any]] = [
    lambda bid: bid.count * 908 // 1000,
    lambda bid: (bid.place.town, bid.pair[1], 7, (bid.hot,)),
    lambda bid: 5 < bid.count,  # noqa: SIM300 (read from the other side)
    lambda bid: bid.rate / bid.count % 3 - -bid.rate,
    lambda bid: bid.name == None,  # noqa: E711 (`is` is no expression)
    lambda bid: bid,
]


@pytest.mark.parametrize("function", LAMBDAS)
def test_a_lambda_that_is_an_expression_is_evaluated_as_it_is_called(function: Callable[[Any], Any]) -> None:
    draw = Draw(7)
    for _ in range(50):
        bid = draw.bid()
        assert _native(function, bid, False) == _native(function, bid, True) == _python(function, bid), bid


def test_a_value_is_what_python_gives_and_not_only_equal_to_it() -> None:
    bid = Bid(
        1, 1.0, True, "a", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=1), None, Place("a"), (1, "a")
    )
    for expression, kind in (
        (fs.field("hot") + 0, int), (fs.field("count") * 1.0, float), (fs.field("count") / 1, float),
        (fs.field("hot") & True, bool), (fs.field("rate") // 1, float), (fs.field("at").dt.date(), object),
    ):  # fmt: skip
        found = kernel.evaluated(described(expression), bid, False)  # type: ignore[union-attr]
        assert found is not None and type(found[0]) is type(expression(bid)) and isinstance(found[0], kind)
