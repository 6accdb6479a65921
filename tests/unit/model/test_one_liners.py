"""What people want to say with time, each in one line, as the documentation has them: they build, and run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import flamestream as fs


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


@fs.event
class View:
    id: str
    user: str
    at: datetime


@fs.event
class Order:
    id: str
    currency: str
    price: int
    auction: int
    at: datetime


@fs.event
class Rate:
    currency: str
    rate: int
    at: datetime


NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def click(number: int, user: str, page: str, seconds: float) -> Click:
    return Click(f"c{number}", user, page, NOON + timedelta(seconds=seconds))


def one(line: Any, **inputs: list[Any]) -> list[Any]:
    """The results of one line over clicks, views, orders and rates."""
    graph = fs.Graph("one-liners")
    clicks = graph.source("clicks", Click, at="at", late="30s", idle="1m")
    views = graph.source("views", View, at="at", late="30s")
    orders = graph.source("orders", Order, at="at")
    rates = graph.source("rates", Rate, at="at")
    for unused in (clicks, views, orders, rates):
        unused.filter(lambda _: False).sink(f"unused-{unused.vertex}")
    line(clicks, views, orders, rates).sink("out")
    return graph.run(**inputs)["out"]


CLICKS = [
    click(1, "ann", "/a", 0),
    click(2, "bob", "/a", 10),
    click(3, "ann", "/b", 70),
    click(1, "ann", "/a", 75),
]
VIEWS = [View("v1", "ann", NOON + timedelta(seconds=3)), View("v2", "ann", NOON + timedelta(seconds=60))]
ORDERS = [
    Order("o1", "EUR", 5, 1, NOON + timedelta(seconds=5)),
    Order("o2", "EUR", 9, 1, NOON + timedelta(seconds=20)),
]
RATES = [Rate("EUR", 100, NOON), Rate("EUR", 110, NOON + timedelta(seconds=10))]
MINUTE = timedelta(minutes=1)


def test_count_a_user_s_clicks_each_minute() -> None:
    counts = one(lambda clicks, *_: clicks.window(fs.tumbling("1m"), key="user").count(), clicks=CLICKS)
    assert set(counts) == {
        fs.Windowed("ann", NOON, NOON + MINUTE, 1), fs.Windowed("bob", NOON, NOON + MINUTE, 1),
        fs.Windowed("ann", NOON + MINUTE, NOON + 2 * MINUTE, 2),
    }  # fmt: skip


def test_the_pages_with_the_most_clicks_of_ten_minutes() -> None:
    tops = one(
        lambda clicks, *_: clicks.window(fs.sliding("10m", every="1m"), key="page").top(3, by=fs.size),
        clicks=CLICKS,
    )
    # the windows of ten minutes that hold all four clicks begin at the minutes from 11:52 to noon
    whole = [top for top in tops if top.start <= NOON and top.end >= NOON + 2 * MINUTE]
    assert sorted(top.start for top in whole) == [NOON - minutes * MINUTE for minutes in range(8, -1, -1)]
    assert {(top.end - top.start, top.value) for top in whole} == {(10 * MINUTE, (("/a", 3), ("/b", 1)))}


def test_sessions_of_a_user() -> None:
    sessions = one(lambda clicks, *_: clicks.window(fs.session("30m"), key="user").collect(), clicks=CLICKS)
    assert {session.key: len(session.value) for session in sessions} == {"ann": 3, "bob": 1}


def test_days_of_a_zone_have_their_summer_time() -> None:
    """The 29th of March 2026 has 23 hours in Berlin."""
    shape = fs.tumbling("1d", zone="Europe/Berlin")
    (day,) = one(
        lambda clicks, *_: clicks.window(shape, key=lambda _: "all").fold(
            initial=int, combine=lambda n, _: n + 1
        ),
        clicks=CLICKS,
    )
    assert (day.value, day.end - day.start) == (4, timedelta(hours=23))


def test_clicks_with_the_views_near_them() -> None:
    pairs = one(
        lambda clicks, views, *_: clicks.join(views, on="user", within=("-5s", "5s")),
        clicks=CLICKS,
        views=VIEWS,
    )
    assert pairs == [(CLICKS[0], VIEWS[0])]


def test_orders_at_the_rate_of_their_time() -> None:
    pairs = one(
        lambda _c, _v, orders, rates: orders.join_latest(rates, on="currency"), orders=ORDERS, rates=RATES
    )
    assert pairs == [(ORDERS[0], RATES[0]), (ORDERS[1], RATES[1])]


def test_a_join_of_two_tables_says_what_it_was_before() -> None:
    changes = one(
        lambda _c, _v, orders, rates: orders.join_table(rates, on="currency"), orders=ORDERS, rates=RATES
    )
    assert changes[0] == fs.Changed(None, (ORDERS[1], RATES[0]))
    assert changes[-1] == fs.Changed((ORDERS[1], RATES[0]), (ORDERS[1], RATES[1]))


def test_each_id_once_an_hour() -> None:
    assert one(lambda clicks, *_: clicks.dedup("id", within="1h"), clicks=CLICKS) == CLICKS[:3]


def test_how_many_users_a_page_has_had() -> None:
    counts = one(lambda clicks, *_: clicks.distinct_count("user", key="page"), clicks=CLICKS)
    assert counts == [("/a", 1), ("/a", 2), ("/b", 1), ("/a", 2)]


def test_the_highest_prices_of_an_auction() -> None:
    tops = one(lambda _c, _v, orders, _r: orders.top(10, by="price", key="auction"), orders=ORDERS)
    assert tops[-1] == (1, (ORDERS[1], ORDERS[0]))


def test_a_fold_that_forgets_who_was_silent_for_a_day() -> None:
    clicks = [*CLICKS, click(9, "ann", "/a", 2 * 86_400)]
    counts = one(lambda clicks, *_: clicks.reduce(key="user", combine=fs.count(), ttl="24h"), clicks=clicks)
    assert counts == [1, 1, 2, 3, 1]


def test_functions_of_one_s_own_with_a_timer() -> None:
    """A user's clicks, told when the mark is ten seconds past the last: it is half a minute behind the newest
    click."""

    def on_item(state: Any, item: Click, now: Any) -> Any:
        return (item.at + timedelta(seconds=10), (state[1] if state else 0) + 1), ()

    def on_time(state: Any, time: datetime) -> Any:
        return None, (state[1],)

    counts = one(
        lambda clicks, *_: clicks.process(
            key="user", on_item=on_item, on_time=on_time, due=lambda state: state[0]
        ),
        clicks=CLICKS,
    )
    assert sorted(counts) == [1, 3]


def test_what_came_too_late_has_a_stream() -> None:
    clicks = [click(1, "ann", "/a", 200), click(2, "bob", "/b", 10)]
    graph = fs.Graph("late")
    counts = graph.source("clicks", Click, at="at", late="30s").window(fs.tumbling("1m"), key="user").count()
    counts.sink("counts")
    counts.late.sink("late")
    assert graph.run(clicks=clicks)["late"] == [clicks[1]]
