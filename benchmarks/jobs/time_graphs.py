"""The programs in event time that `python benchmarks time` measures, as graphs of an application.

Those over lines read clicks: {"id", "user", "page", "at"}.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from nexmark.events import Event
from nexmark.queries.columns import bids

import flamestream as fs

HOUR_US = 3_600_000_000
GAP = timedelta(seconds=30)


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


def user(click: Click) -> str:
    return click.user


def is_even(click: Click) -> bool:
    return int(click.id[1:]) % 2 == 0


def is_odd(click: Click) -> bool:
    return not is_even(click)


def pages(pair: tuple[Click, Click]) -> tuple[str, str]:
    left, right = pair
    return left.page, right.page


def clicked(graph: fs.Graph) -> fs.Stream[Click]:
    return graph.source("clicks", Click, at="at", late="1s")


counts = fs.Graph("counts")
clicked(counts).window(fs.tumbling("10s"), key="user").count().sink("results")

joined = fs.Graph("joined")
_clicks = clicked(joined)
_clicks.filter(is_even).join(_clicks.filter(is_odd), on=user, within=("-5s", "5s")).map(pages).sink("results")


Visit = tuple[datetime, datetime, int]
"""Of a session: its first and last click, and how many."""


def on_item(visit: Visit | None, click: Click, _: Any) -> tuple[Visit, tuple[Visit, ...]]:
    if visit is None:
        return (click.at, click.at, 1), ()
    first, last, count = visit
    if click.at > last + GAP:
        return (click.at, click.at, 1), (visit,)
    return (min(first, click.at), max(last, click.at), count + 1), ()


def on_time(visit: Visit, _: datetime) -> tuple[None, tuple[Visit, ...]]:
    return None, (visit,)


def due(visit: Visit) -> datetime:
    return visit[1] + GAP


sessions = fs.Graph("sessions")
clicked(sessions).process(key="user", on_item=on_item, on_time=on_time, due=due).sink("results")


@fs.event
class Touch:
    """A sign of life of a key."""

    key: int
    at: int


expiring = fs.Graph("expiring")
_touches = expiring.source("touches", at="at", unit="us", late="1s")
_touches.reduce(key="key", combine=fs.count(), ttl="1h").sink("results")


def touches(an_hour: int) -> Callable[[int], Touch]:
    """The touch of a number: `an_hour` new keys come in each hour, and every fourth key is there again half
    an hour after its first touch."""

    def touch(number: int) -> Touch:
        turn, place = divmod(number, 5)
        key = 4 * turn + place if place < 4 else max(0, 4 * turn - an_hour // 8 * 4)
        return Touch(key, number * 4 * HOUR_US // (5 * an_hour))

    return touch


_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decoded(line: str) -> Event:
    return _decoder.decode(line)


def ended(found: Any) -> Iterable[tuple[int, int, int]]:
    yield found.key, found.value, found.end


bid_counts = fs.Graph("bid-counts")
_events = bid_counts.source("events", decoded, at="dateTime", unit="ms", late="4s")
bids(_events).window(fs.tumbling("1s"), key="auction").count().flat_map(ended).sink("results")


def __getattr__(name: str) -> Any:
    """`touch_N`: the touches of N new keys an hour."""
    if name.startswith("touch_"):
        return touches(int(name.removeprefix("touch_")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
