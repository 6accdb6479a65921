"""Queries of one with many, whichever comes first: a person with the auctions (q3), an auction with the bids
that name it (q20)."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import flamestream as fs
from nexmark.events import Auction, Bid, Event, Person
from nexmark.queries.columns import auction_of, offered, whole
from nexmark.results import Row


@fs.payload_type
class Met(msgspec.Struct, frozen=True):
    """What has come for one id."""

    one: Any = None
    """What has the id, once it has come; no second one has it."""
    waiting: tuple[Any, ...] = ()
    """What names the id and came before it."""
    now: tuple[Any, ...] = ()
    """What the last item brought together with `one`."""


def pairs(
    events: fs.Stream[Event], one: type[Person | Auction], many: type[Event], named: Callable[[Any], int]
) -> fs.Stream[tuple[Any, Any]]:
    """(one, many) for each of the `many` and the one whose id it names. Who waits for somebody who never
    comes waits for good."""

    def id_of(event: Event) -> int:
        return event.id if isinstance(event, one) else named(event)

    def met(state: Met, event: Event) -> Met:
        if isinstance(event, one):
            return Met(event, (), state.waiting)
        if state.one is None:
            return Met(None, (*state.waiting, event))
        return Met(state.one, (), (event,))

    return (
        events.filter(lambda event: isinstance(event, one | many))
        .reduce(key=id_of, initial=Met, combine=met)
        .flat_map(lambda state: [(state.one, each) for each in state.now])
    )


def seller_of(auction: Auction) -> int:
    return auction.seller


def q3(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Who in three states sells something of category 10."""

    def suggested(pair: tuple[Person, Auction]) -> Iterator[Row]:
        person, auction = pair
        if auction.category == 10 and person.state in ("OR", "ID", "CA"):
            yield person.name, person.city, person.state, auction.id

    return pairs(events, Person, Auction, seller_of).flat_map(suggested)


def q20(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """The bids for auctions of category 10, each with its auction."""

    def expanded(pair: tuple[Auction, Bid]) -> Iterator[Row]:
        of, bid = pair
        if of.category == 10:
            yield *whole(bid), *offered(of)

    return pairs(events, Auction, Bid, auction_of).flat_map(expanded)
