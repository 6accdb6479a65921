"""What was sold, in euros, at the rate of its time."""

from datetime import datetime

import flamestream as fs


@fs.event
class Sold:
    id: str
    currency: str
    cents: int
    at: datetime


@fs.event
class Rate:
    """Euros of a thousand units."""

    currency: str
    thousandths: int
    at: datetime


@fs.event
class Priced:
    id: str
    cents: int


def in_euros(pair: tuple[Sold, Rate | None]) -> Priced:
    sold, rate = pair
    return Priced(sold.id, sold.cents if rate is None else sold.cents * rate.thousandths // 1000)


graph = fs.Graph("in-euros")
sold = graph.source("sold", Sold, at="at")
rates = graph.source("rates", Rate, at="at")
priced = sold.join_latest(rates, on="currency", how="left")
priced.map(in_euros).sink("priced", key="id")
priced.late.sink("late")
