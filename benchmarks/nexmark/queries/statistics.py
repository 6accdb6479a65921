"""Queries of statistics that grow with each bid: q15, q16, q17."""

import msgspec

import flamestream as fs
from nexmark.events import Bid, Event
from nexmark.queries.columns import bids, day, minute
from nexmark.results import Newest, Row


def rank(price: int) -> int:
    """0 to 2: low, middle, high."""
    return 0 if price < 10_000 else 1 if price < 1_000_000 else 2


@fs.payload_type
class Distinct(msgspec.Struct, frozen=True):
    """Different ids, of all ranks and of each."""

    ranks: fs.Map[int, int] = fs.Map()
    """id -> the ranks that it has been seen in, as bits."""
    counts: tuple[int, int, int] = (0, 0, 0)

    def seen(self, id_: int, place: int) -> "Distinct":
        """With an id in a rank."""
        ranks = self.ranks.get(id_, 0)
        if ranks >> place & 1:
            return self
        return Distinct(self.ranks.set(id_, ranks | 1 << place), one_more(self.counts, place))

    def row(self) -> Row:
        """How many there are: all, and of each rank."""
        return len(self.ranks), *self.counts


@fs.payload_type
class Statistics(msgspec.Struct, frozen=True):
    """Bids, bidders and auctions of each rank of prices, and the latest minute."""

    counts: tuple[int, int, int] = (0, 0, 0)
    bidders: Distinct = Distinct()
    auctions: Distinct = Distinct()
    minute: str = ""

    def row(self) -> Row:
        return sum(self.counts), *self.counts, *self.bidders.row(), *self.auctions.row()


def one_more(counts: tuple[int, int, int], place: int) -> tuple[int, int, int]:
    """The counts, one more at a place."""
    low, middle, high = counts
    return low + (place == 0), middle + (place == 1), high + (place == 2)


def with_bid(before: Statistics, bid: Bid) -> Statistics:
    """Statistics with one bid more."""
    place = rank(bid.price)
    seen = before.bidders.seen(bid.bidder, place), before.auctions.seen(bid.auction, place)
    return Statistics(one_more(before.counts, place), *seen, max(before.minute, minute(bid)))


def q15(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """Each day's bids, bidders and auctions by price."""
    return bids(events).reduce(
        key=day,
        initial=Statistics,
        combine=with_bid,
        emit=lambda after, bid: Newest((day(bid),), (day(bid), *after.row())),
    )


def q16(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """Each channel's, of each day."""

    def row(after: Statistics, bid: Bid) -> Newest:
        return Newest((bid.channel, day(bid)), (bid.channel, day(bid), after.minute, *after.row()))

    return bids(events).reduce(
        key=lambda bid: (bid.channel, day(bid)), initial=Statistics, combine=with_bid, emit=row
    )


@fs.payload_type
class Prices(msgspec.Struct, frozen=True):
    """The prices of some bids."""

    counts: tuple[int, int, int] = (0, 0, 0)
    least: int = 1 << 62
    greatest: int = 0
    total: int = 0

    def row(self) -> Row:
        count = sum(self.counts)
        return count, *self.counts, self.least, self.greatest, self.total // count, self.total


def q17(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """Each auction's bids and prices, of each day."""

    def with_price(before: Prices, bid: Bid) -> Prices:
        least, greatest = min(before.least, bid.price), max(before.greatest, bid.price)
        return Prices(one_more(before.counts, rank(bid.price)), least, greatest, before.total + bid.price)

    def row(after: Prices, bid: Bid) -> Newest:
        return Newest((bid.auction, day(bid)), (bid.auction, day(bid), *after.row()))

    return bids(events).reduce(
        key=lambda bid: (bid.auction, day(bid)), initial=Prices, combine=with_price, emit=row
    )
