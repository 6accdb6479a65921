"""Which event a row had to wait for, by what the row says: its latency is from when that event was due.

| queries                                            | the event |
|----------------------------------------------------|-----|
| of a bid: q0, q1, q2, q10, q13, q14, q18, q21, q22 | the bid of its auction and price |
| q19                                                | that bid, the first time: later it only has another rank |
| q9, q20                                            | that bid, or its auction if that came later |
| q3                                                 | the auction, or its seller if that came later |
| of a count: q15, q16, q17                          | the bid that made it |
| of a window: q5, q7, q8, q11                       | the first `LATE_MS` behind its end: none can close it before |
| q4, q6                                             | the event at which the reference interpreter gives this row |

Keeps: what more than one event could have led to has none, so no row is timed by a guess. Does not: q12,
whose windows end by the clock.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from flamestream.model.time import Time
from flamestream.reference import interpret
from nexmark.events import Auction, Bid, Event, Person, instant
from nexmark.queries import graph_of
from nexmark.results import Newest, Row

LATE_MS: Final = 4_000
"""How late an event may be, in both systems."""
Cause = Callable[[Row], int | None]
"""Number of the event, from 0; None: the row does not say."""
_RUN: Final = 4096
"""Between the times of two runs."""


def cause_of(query: str, events: Sequence[Event]) -> Cause:
    """How rows of a query find their event among all. Raises KeyError for q12."""
    return _CAUSES[query](events)


def once(pairs: Iterable[tuple[Hashable, int]]) -> dict[Hashable, int]:
    """Numbers by key, without the keys that have several."""
    found: dict[Hashable, int] = {}
    doubled = set()
    for key, number in pairs:
        if found.setdefault(key, number) != number:
            doubled.add(key)
    for key in doubled:
        del found[key]
    return found


def _by_bid(
    price: int = 2, factor: int = 1, *, needs_auction: bool = False
) -> Callable[[Sequence[Event]], Cause]:
    """By the first column, a bid's auction, and one of its price, which is multiplied by a factor."""

    def causes(events: Sequence[Event]) -> Cause:
        bids = once(
            ((each.auction, each.price), number)
            for number, each in enumerate(events)
            if isinstance(each, Bid)
        )
        auctions = (
            {each.id: number for number, each in enumerate(events) if isinstance(each, Auction)}
            if needs_auction
            else {}
        )

        def cause(row: Row) -> int | None:
            number = bids.get((row[0], row[price] // factor))
            return None if number is None else max(number, auctions.get(row[0], 0))

        return cause

    return causes


def _q19(events: Sequence[Event]) -> Cause:
    """By its bid, the first time: later it only has another rank."""
    cause, seen = _by_bid()(events), set[int | None]()

    def first(row: Row) -> int | None:
        number = cause(row)
        if number in seen:
            return None
        seen.add(number)
        return number

    return first


def _by_count(column: int, group: Callable[[Bid], Row]) -> Callable[[Sequence[Event]], Cause]:
    """By the first columns, a group of bids, and how many there are of it."""

    def causes(events: Sequence[Event]) -> Cause:
        groups: dict[Row, list[int]] = defaultdict(list)
        for number, each in enumerate(events):
            if isinstance(each, Bid):
                groups[group(each)].append(number)
        width = len(next(iter(groups), ()))
        return lambda row: groups[tuple(row[:width])][row[column] - 1]

    return causes


def _day(bid: Bid) -> str:
    return instant(bid.dateTime).date().isoformat()


def by_end(end: Callable[[Row], int]) -> Callable[[Sequence[Event]], Cause]:
    """By when its window ends, in ms."""

    def causes(events: Sequence[Event]) -> Cause:
        times = [each.dateTime for each in events]  # in order: the generator's events are
        return lambda row: _at(times, end(row) + LATE_MS)

    return causes


def _at(times: list[int], time: int) -> int | None:
    number = bisect_left(times, time)
    return number if number < len(times) else None


def _q3(events: Sequence[Event]) -> Cause:
    persons = {each.id: number for number, each in enumerate(events) if isinstance(each, Person)}
    auctions = {
        each.id: (number, each.seller) for number, each in enumerate(events) if isinstance(each, Auction)
    }

    def cause(row: Row) -> int | None:
        number, seller = auctions[row[3]]
        return max(number, persons[seller])

    return cause


def _q5(events: Sequence[Event]) -> Cause:
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for each in events:
        if isinstance(each, Bid):
            newest = each.dateTime - each.dateTime % 2_000
            for start in range(newest - 8_000, newest + 1, 2_000):
                windows[start][each.auction] += 1
    ends = once(
        ((auction, count), start + 10_000)
        for start, counts in windows.items()
        for most in [max(counts.values())]
        for auction, count in counts.items()
        if count == most
    )
    times = [each.dateTime for each in events]
    return lambda row: _at(times, ends[tuple(row)] + LATE_MS) if tuple(row) in ends else None


def _replayed(query: str) -> Callable[[Sequence[Event]], Cause]:
    """By its columns, as the reference interpreter gives them."""

    def causes(events: Sequence[Event]) -> Cause:
        runs = [(Time((1 + number) * _RUN), [event]) for number, event in enumerate(events)]
        results = interpret(graph_of(query), runs)["results"]
        rows = once((_row(payload), int.from_bytes(meta[:8]) // _RUN - 1) for meta, payload in results)
        return lambda row: rows.get(tuple(row))

    return causes


def _row(payload: Row | Newest) -> Row:
    return payload.row if isinstance(payload, Newest) else payload


_CAUSES: Final[dict[str, Callable[[Sequence[Event]], Cause]]] = {
    **dict.fromkeys(("q0", "q10", "q13", "q18", "q21", "q22"), _by_bid()),
    **dict.fromkeys(("q1", "q14"), _by_bid(factor=908)),
    "q2": _by_bid(price=1),
    "q3": _q3,
    "q4": _replayed("q4"),
    "q5": _q5,
    "q6": _replayed("q6"),
    "q7": by_end(lambda row: row[3] - row[3] % 10_000 + 10_000),
    "q8": by_end(lambda row: row[2] + 10_000),
    "q9": _by_bid(price=12, needs_auction=True),
    "q11": by_end(lambda row: row[3]),
    "q15": _by_count(1, lambda bid: (_day(bid),)),
    "q16": _by_count(3, lambda bid: (bid.channel, _day(bid))),
    "q17": _by_count(2, lambda bid: (bid.auction, _day(bid))),
    "q19": _q19,
    "q20": _by_bid(needs_auction=True),
}
