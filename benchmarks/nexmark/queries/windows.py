"""Queries over windows of event time: q5, q7, q8, q11, and of arrival time: q12."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeGuard

import flamestream as fs
from nexmark.events import Auction, Bid, Event, Person
from nexmark.queries.columns import bids
from nexmark.results import Row

SIZE: Final = "10s"
GAP: Final = 10_000
"""Milliseconds of q11."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def everything(_: object) -> None:
    """One key for all."""


def q5(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """The auctions with the most bids in the last ten seconds, every two seconds."""

    def most(best: tuple[Row, ...], counted: fs.Windowed[int, int]) -> tuple[Row, ...]:
        count = best[0][1] if best else 0
        if counted.value < count:
            return best
        return (*(best if counted.value == count else ()), (counted.key, counted.value))

    counts = bids(events).window(fs.sliding(SIZE, every="2s"), key="auction").count()
    # Windows that end together are in one of two seconds: their event time is just before their end.
    return (
        counts.window(fs.tumbling("2s"), key=everything)
        .fold(initial=tuple, combine=most)
        .flat_map(lambda found: found.value)
    )


def q7(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """The highest bids of each ten seconds: first of each auction, so that bids need not all go to one
    key."""

    def highest(best: tuple[Bid, ...], bid: Bid) -> tuple[Bid, ...]:
        price = best[0].price if best else 0
        if bid.price < price:
            return best
        return (*(best if bid.price == price else ()), bid)

    def highest_of_all(best: tuple[Bid, ...], found: fs.Windowed[int, tuple[Bid, ...]]) -> tuple[Bid, ...]:
        for bid in found.value:
            best = highest(best, bid)
        return best

    def rows(found: fs.Windowed[None, tuple[Bid, ...]]) -> Iterator[Row]:
        return ((bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra) for bid in found.value)

    by_auction = bids(events).window(fs.tumbling(SIZE), key="auction").fold(initial=tuple, combine=highest)
    return (
        by_auction.window(fs.tumbling(SIZE), key=everything)
        .fold(initial=tuple, combine=highest_of_all)
        .flat_map(rows)
    )


def q8(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Who came and offered something, in the same ten seconds."""

    def with_event(before: tuple[str | None, bool], event: Person | Auction) -> tuple[str | None, bool]:
        name, offers = before
        return (event.name, offers) if isinstance(event, Person) else (name, True)

    def both(found: fs.Windowed[int, tuple[str | None, bool]]) -> Iterator[Row]:
        name, offers = found.value
        if name is not None and offers:
            yield found.key, name, found.start

    def person_of(event: Person | Auction) -> int:
        return event.id if isinstance(event, Person) else event.seller

    def is_no_bid(event: Event) -> TypeGuard[Person | Auction]:
        return not isinstance(event, Bid)

    windows = events.filter(is_no_bid).window(fs.tumbling(SIZE), key=person_of)
    return windows.fold(initial=lambda: (None, False), combine=with_event).flat_map(both)


def q11(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """How many bids each bidder made in each session."""

    def row(found: fs.Windowed[int, int]) -> Row:
        return found.key, found.value, found.start, found.end - 1

    # Flink's sessions hold bids that are just the gap apart, ours do not; times are whole milliseconds.
    return bids(events).window(fs.session(f"{GAP + 1}ms"), key="bidder").count().map(row)


def q12(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """How many bids each bidder made in each ten seconds of the clock."""

    def row(found: fs.Windowed[int, int]) -> Row:
        return (
            found.key,
            found.value,
            (found.start - _EPOCH) // _MILLISECOND,
            (found.end - _EPOCH) // _MILLISECOND,
        )

    return bids(events).window(fs.tumbling(SIZE), key="bidder").count().map(row)
