"""Two sources in one order: every order is valued at the last price before it.

Each source has its own front; the merge reads both in global time. Which price an order meets is decided
once, when its run is stamped, and stays so at every replay.
"""

from dataclasses import dataclass

import flamestream as fs


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Price:
    """What one piece costs from now on."""

    article: str
    cents: int


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Order:
    """Pieces of an article."""

    article: str
    pieces: int


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Valued:
    """An order with the price it met; no price is 0 cents."""

    article: str
    pieces: int
    cents: int


def price(line: str) -> Price:
    article, cents = line.split()
    return Price(article, int(cents))


def order(line: str) -> Order:
    article, pieces = line.split()
    return Order(article, int(pieces))


def article_of(item: Price | Order | Valued) -> str:
    return item.article


def last_price(cents: int, item: Price | Order) -> int:
    return item.cents if isinstance(item, Price) else cents


def valued(cents: int, item: Price | Order) -> Price | Valued:
    return Valued(item.article, item.pieces, cents) if isinstance(item, Order) else item


def is_valued(item: Price | Valued) -> bool:
    return isinstance(item, Valued)


graph = fs.Graph("two-front-merge")
prices = graph.source("prices").map(price)
orders = graph.source("orders").map(order)
every = prices.merge(orders).reduce(key=article_of, initial=int, combine=last_price, emit=valued)
every.filter(is_valued).sink("valued", key=article_of)
