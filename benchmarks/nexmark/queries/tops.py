"""Queries of the last and the highest bids: q18, q19."""

from typing import Final

import flamestream as fs
from nexmark.events import Bid, Event
from nexmark.queries.columns import auction_of, bids, whole
from nexmark.results import Newest

TOP: Final = 10


def q18(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """Each bidder's last bid for each auction; of equal times, who came last."""

    def newer(last: Bid | None, bid: Bid) -> Bid | None:
        return bid if last is None or bid.dateTime >= last.dateTime else last

    def row(last: Bid | None, bid: Bid) -> Newest:
        assert last is not None, "there is a bid"
        return Newest((bid.auction, bid.bidder), whole(last))

    return bids(events).reduce(
        key=lambda bid: (bid.auction, bid.bidder), initial=lambda: None, combine=newer, emit=row
    )


def q19(events: fs.Stream[Event]) -> fs.Stream[Newest]:
    """The ten highest bids of each auction with their ranks; of equal ones, who came first."""

    def with_bid(top: tuple[Bid, ...], bid: Bid) -> tuple[Bid, ...]:
        place = len(top)
        while place and top[place - 1].price < bid.price:
            place -= 1
        return (*top[:place], bid, *top[place:])[:TOP]

    def changed(top: tuple[Bid, ...], bid: Bid) -> tuple[Newest, ...]:
        first = top.index(bid) if bid in top else len(top)
        return tuple(
            Newest((bid.auction, place), (*whole(top[place - 1]), place))
            for place in range(first + 1, len(top) + 1)
        )

    ranked = bids(events).reduce(key=auction_of, initial=tuple, combine=with_bid, emit=changed)
    return ranked.flat_map(lambda rows: rows)
