"""Queries of winning bids: the highest one of each auction while it is open, of equal ones the first. q4, q6,
q9."""

from bisect import bisect_left, insort
from typing import Final

import msgspec

import flamestream as fs
from nexmark.events import Auction, Bid, Event
from nexmark.queries.columns import auction_of, offered
from nexmark.queries.pairs import pairs
from nexmark.results import Newest

LAST: Final = 11
"""Sales that q6 takes the mean of: ten before, and the one itself."""


@fs.payload_type
class Won(msgspec.Struct, frozen=True):
    """A bid that is now the highest of its auction, and the one that was."""

    auction: Auction
    bid: Bid
    before: Bid | None


@fs.payload_type
class Highest(msgspec.Struct, frozen=True):
    """The highest bid of an auction so far."""

    bid: Bid | None = None
    won: tuple[Won, ...] = ()
    """What the last bid changed."""


def winning_bids(events: fs.Stream[Event]) -> fs.Stream[Won]:
    """Each change of an auction's highest bid."""

    def higher(highest: Highest, pair: tuple[Auction, Bid]) -> Highest:
        (auction, bid), before = pair, highest.bid
        if before is not None and (-bid.price, bid.dateTime) >= (-before.price, before.dateTime):
            return Highest(before)
        return Highest(bid, (Won(auction, bid, before),))

    return (
        pairs(events, Auction, Bid, auction_of)
        .filter(lambda pair: pair[0].dateTime <= pair[1].dateTime <= pair[0].expires)
        .reduce(key=lambda pair: pair[0].id, initial=Highest, combine=higher)
        .flat_map(lambda highest: highest.won)
    )


def q4(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """The mean of each category's winning bids."""

    def added(total: tuple[int, int], won: Won) -> tuple[int, int]:
        price, count = total
        return (
            (price + won.bid.price, count + 1)
            if won.before is None
            else (price + won.bid.price - won.before.price, count)
        )

    def mean(total: tuple[int, int], won: Won) -> Newest:
        return Newest((won.auction.category,), (won.auction.category, total[0] // total[1]))

    return winning_bids(events).reduce(
        key=lambda won: won.auction.category, initial=lambda: (0, 0), combine=added, emit=mean
    )


Sale = tuple[int, int, int]
"""When the winning bid was made, its auction, its price."""


def sale(auction: Auction, bid: Bid) -> Sale:
    return bid.dateTime, auction.id, bid.price


def q6(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """For each sale of a seller, in the order of the winning bids, the mean of it and the ten before."""

    def sold(sales: tuple[Sale, ...], won: Won) -> tuple[Sale, ...]:
        without = [each for each in sales if each[1] != won.auction.id]
        insort(without, sale(won.auction, won.bid))
        return tuple(without)

    def means(sales: tuple[Sale, ...], won: Won) -> tuple[Newest, ...]:
        # Changed are all from where the auction's sale was, or is now, up to ten behind the later of both.
        places = [bisect_left(sales, sale(won.auction, bid)) for bid in (won.bid, won.before) if bid]
        changed = range(min(places), min(max(places) + LAST, len(sales)))
        return tuple(
            mean(sales[max(0, place + 1 - LAST) : place + 1], won.auction.seller) for place in changed
        )

    def mean(last: tuple[Sale, ...], seller: int) -> Newest:
        return Newest((seller, last[-1][1]), (seller, sum(price for _, _, price in last) // len(last)))

    by_seller = winning_bids(events).reduce(
        key=lambda won: won.auction.seller, initial=tuple, combine=sold, emit=means
    )
    return by_seller.flat_map(lambda changed: changed)


def q9(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """Each auction with its winning bid."""

    def row(won: Won) -> Newest:
        of, bid = won.auction, won.bid
        return Newest(
            (of.id,), (of.id, *offered(of), bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra)
        )

    return winning_bids(events).map(row)
