"""What type checkers infer of a graph: read by mypy and pyright in test_inference.py."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeGuard, assert_type

import flamestream as fs
from flamestream.model.event_decoder import Decoder
from flamestream.model.windows.stream import Results


@fs.event
class Click:
    user: str
    page: str
    cents: int = 0


@fs.event
class View:
    user: str


def view(click: Click) -> View:
    return View(user=click.user)


def pages(click: Click) -> Iterator[str]:
    yield from click.page.split("/")


def is_view(item: Click | View) -> TypeGuard[View]:
    return isinstance(item, View)


def added(total: int, click: Click) -> int:
    return total + click.cents


def named(total: int, click: Click) -> tuple[str, int]:
    return click.user, total


graph = fs.Graph("typed")
clicks = graph.source("clicks", Click)
assert_type(clicks, fs.Stream[Click])
assert_type(graph.source("records"), fs.Stream[Any])
assert_type(graph.source("lines", str), fs.Stream[str])

assert_type(clicks.map(view), fs.Stream[View])
assert_type(clicks.map(lambda click: click.cents), fs.Stream[int])
assert_type(clicks.map(lambda click: (click.user, click.cents)), fs.Stream[tuple[str, int]])
assert_type(clicks.flat_map(pages), fs.Stream[str])
assert_type(clicks.filter(lambda click: click.cents > 5), fs.Stream[Click])
assert_type(clicks.merge(clicks.map(view)), fs.Stream[Click | View])
assert_type(clicks.merge(clicks.map(view)).filter(is_view), fs.Stream[View])
assert_type(clicks.group(2, key="user"), fs.Stream[tuple[Click, ...]])
assert_type(clicks.broadcast(2)[0], fs.Stream[Click])
assert_type(clicks.balance(hash), fs.Stream[Click])

assert_type(clicks.reduce(key="user", combine=fs.count()), fs.Stream[int])
assert_type(clicks.reduce(key="user", combine=fs.count(), emit=fs.record(View, "user")), fs.Stream[View])
assert_type(clicks.reduce(key="user", combine=fs.count(), emit=named), fs.Stream[tuple[str, int]])
assert_type(clicks.reduce(key=lambda click: click.user, combine=added, initial=int), fs.Stream[int])
assert_type(
    clicks.reduce(key=lambda click: click.user, combine=added, initial=int, emit=named),
    fs.Stream[tuple[str, int]],
)
assert_type(
    clicks.reduce(key="user", initial=lambda: 0, combine=lambda total, click: total + click.cents),
    fs.Stream[int],
)

assert_type(fs.decoder(Click), Decoder[Click])
assert_type(graph.source("more").map(fs.decoder(Click)), fs.Stream[Click])
clicks.sink("out", key="user")
clicks.map(view).sink("views", key=lambda seen: seen.user)
timed = graph.source("timed", Click, at=lambda _: 1, unit="s", late="30s")
assert_type(timed, fs.Stream[Click])
assert_type(graph.source("parsed", int), fs.Stream[int])


async def viewed(click: Click) -> View:
    return View(user=click.user)


@fs.call(timeout="5s")
async def viewed_with(click: Click, call: fs.Call) -> list[View]:
    return [View(user=call.id)]


@fs.call
def page(click: Click) -> str:
    return click.page


@fs.call(batch=64)
async def scored(items: list[Click], calls: list[fs.Call]) -> list[float]:
    return [len(call.id) / 2 for call in calls]


assert_type(clicks.call(viewed, key="user"), fs.Stream[View])
assert_type(clicks.call(viewed_with), fs.Stream[View])
assert_type(clicks.call(viewed, name="timed", at=lambda view: 7, unit="s", late="1m"), fs.Stream[View])
assert_type(clicks.call(page), fs.Stream[str])
assert_type(clicks.call(scored), fs.Stream[float])


@fs.event
class Timed:
    user: str
    at: datetime


def on_item(seen: int | None, click: Click, now: Any) -> tuple[int, list[str]]:
    return (seen or 0) + 1, [click.user]


def length(pages: str) -> int:
    return len(pages)


others = graph.source("others", Timed, at=lambda _: 1, unit="s")
minutes = timed.window(fs.tumbling("1m"), key="user")
keyed = timed.window(fs.session("30m"), key=lambda click: click.user)
assert_type(minutes.count(), Results[fs.Windowed[Any, int]])
assert_type(keyed.count(), Results[fs.Windowed[str, int]])
assert_type(keyed.mean("cents", results="each"), Results[fs.Windowed[str, float]])
assert_type(keyed.collect(), Results[fs.Windowed[str, tuple[Click, ...]]])
assert_type(keyed.top(3, by="cents"), Results[fs.Windowed[str, tuple[Click, ...]]])
assert_type(
    timed.window(fs.sliding("10m", every="1m"), key=lambda click: click.page).top(3, by=fs.size),
    Results[fs.Windowed[None, tuple[tuple[str, int], ...]]],
)
assert_type(keyed.fold(initial=int, combine=added), Results[fs.Windowed[str, int]])
assert_type(
    keyed.fold(initial=str, combine=lambda way, click: f"{way}/{click.page}", emit=length),
    Results[fs.Windowed[str, int]],
)
assert_type(keyed.count().map(lambda window: (window.key, window.value)), fs.Stream[tuple[str, int]])
assert_type(minutes.top(3, by="cents").flat_map(lambda window: window.value), fs.Stream[Click])

near = ("-5s", "5s")
assert_type(timed.join(others, on="user", within=near), Results[tuple[Click, Timed]])
assert_type(timed.join(others, on="user", within=near, how="left"), Results[tuple[Click, Timed | None]])
assert_type(
    timed.join(others, on="user", within=near, how="full"), Results[tuple[Click | None, Timed | None]]
)
assert_type(timed.join(others, on=("user", lambda other: other.user), within=near).late, fs.Stream[Any])
assert_type(timed.join_latest(others, on="user"), Results[tuple[Click, Timed]])
assert_type(timed.join_latest(others, on="user", how="left"), Results[tuple[Click, Timed | None]])
assert_type(timed.join_table(others, on="user"), fs.Stream[fs.Changed[tuple[Click, Timed]]])
assert_type(
    timed.join_table(others, on="user", how="left"), fs.Stream[fs.Changed[tuple[Click, Timed | None]]]
)
assert_type(
    timed.join(others, on=lambda item: item.user, within=near).map(lambda pair: pair[1].at),
    fs.Stream[datetime],
)

assert_type(timed.dedup("user", within="1h"), Results[Click])
assert_type(timed.distinct_count("user", key="page"), fs.Stream[tuple[Any, int]])
assert_type(timed.top(10, by="cents", key="user"), fs.Stream[tuple[Any, tuple[Click, ...]]])
assert_type(timed.reduce(key="user", combine=fs.count(), ttl="24h"), fs.Stream[int])
assert_type(timed.process(key="user", on_item=on_item), Results[str])
assert_type(graph.clock("tick", every="1s"), fs.Stream[datetime])
