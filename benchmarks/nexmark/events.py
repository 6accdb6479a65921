"""Events of the auction: persons, auctions and bids, with the fields and names of Nexmark's specification.

Names are the specification's (`dateTime`), so that SQL, Flink and these classes call a thing the same. Times
are milliseconds since 1970; `instant` makes an aware datetime of one. Prices are cents.
"""

from datetime import UTC, datetime, timedelta

import msgspec

import flamestream as fs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int) -> datetime:
    """The aware datetime, in UTC, of an event's time."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


@fs.payload_type
class Person(msgspec.Struct, frozen=True, tag=True):
    """Somebody who offers things or bids for them."""

    id: int
    name: str
    emailAddress: str
    creditCard: str
    city: str
    state: str
    dateTime: int
    extra: str


@fs.payload_type
class Auction(msgspec.Struct, frozen=True, tag=True):
    """A thing on offer until `expires`."""

    id: int
    itemName: str
    description: str
    initialBid: int
    reserve: int
    dateTime: int
    expires: int
    seller: int
    """`id` of a person, who may come a little later than the auction."""
    category: int
    extra: str


@fs.payload_type
class Bid(msgspec.Struct, frozen=True, tag=True):
    """A price that a person offers for an auction's thing."""

    auction: int
    """`id` of an auction, which may come a little later than the bid."""
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: int
    extra: str


Event = Person | Auction | Bid
