"""What several queries say of an event: which are bids, and what columns they make."""

from functools import lru_cache
from typing import Final, TypeGuard

import flamestream as fs
from nexmark.events import Auction, Bid, Event, instant
from nexmark.results import Row

_MINUTE: Final = 60_000
_DAY: Final = 1440 * _MINUTE


@lru_cache(maxsize=1000)
def _date(day: int) -> str:
    return instant(day * _DAY).date().isoformat()


@lru_cache(maxsize=1000)
def _time_of_day(minute: int) -> str:
    return instant(minute * _MINUTE).strftime("%H:%M")


def is_bid(event: Event) -> TypeGuard[Bid]:
    return isinstance(event, Bid)


def bids(events: fs.Stream[Event]) -> fs.Stream[Bid]:
    """The bids alone."""
    return events.filter(is_bid)


def day(bid: Bid) -> str:
    """Its date in UTC, as in 2015-07-15."""
    return _date(bid.dateTime // _DAY)


def minute(bid: Bid) -> str:
    """Its time of day in UTC, as in 13:05."""
    return _time_of_day(bid.dateTime // _MINUTE)


def auction_of(bid: Bid) -> int:
    return bid.auction


def whole(bid: Bid) -> Row:
    """All columns of a bid."""
    return bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.dateTime, bid.extra


def offered(of: Auction) -> Row:
    """All columns of an auction but its id."""
    return (
        of.itemName,
        of.description,
        of.initialBid,
        of.reserve,
        of.dateTime,
        of.expires,
        of.seller,
        of.category,
        of.extra,
    )
