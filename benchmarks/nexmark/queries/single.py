"""Queries of bids one by one: q0, q1, q2, q10, q13, q14, q21, q22."""

import re
from collections.abc import Iterator, Mapping

import flamestream as fs
from nexmark.events import Bid, Event, instant
from nexmark.generator import side_input
from nexmark.queries.columns import bids, day, minute
from nexmark.results import Row


def q0(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Every bid: what the engine costs."""
    return bids(events).map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra))


def q1(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Every bid with its price in euros: in thousandths of a cent, since decimals have three places."""
    return bids(events).map(lambda bid: (bid.auction, bid.bidder, bid.price * 908, bid.dateTime, bid.extra))


def q2(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """The bids for every 123rd auction."""
    return bids(events).filter(lambda bid: bid.auction % 123 == 0).map(lambda bid: (bid.auction, bid.price))


def q10(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Every bid with its day and minute, which are the folders of its file."""
    return bids(events).map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra, day(bid), minute(bid))
    )


def q13(events: fs.Stream[Event], side: Mapping[int, str] | None = None) -> fs.Stream[Row]:
    """Every bid with what the side input says of its auction."""
    texts = side_input() if side is None else side
    found = bids(events).filter(lambda bid: bid.auction % 10_000 in texts)
    return found.map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.dateTime, texts[bid.auction % 10_000])
    )


def q14(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Bids of a middle price, with the time of day that they are of, and how many letters `c` they have."""

    def calculated(bid: Bid) -> Row:
        hour = instant(bid.dateTime).hour
        kind = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
        return bid.auction, bid.bidder, bid.price * 908, kind, bid.dateTime, bid.extra, bid.extra.count("c")

    return bids(events).filter(lambda bid: 1_000_000_000 < bid.price * 908 < 50_000_000_000).map(calculated)


CHANNEL_IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile("(&|^)channel_id=([^&]*)")


def q21(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Bids with the id of their channel: a known one's, or the one in the address."""

    def named(bid: Bid) -> Iterator[Row]:
        channel_id = CHANNEL_IDS.get(bid.channel.lower())
        if channel_id is None and (found := CHANNEL_ID.search(bid.url)):
            channel_id = found[2]
        if channel_id is not None:
            yield bid.auction, bid.bidder, bid.price, bid.channel, channel_id

    return bids(events).flat_map(named)


def q22(events: fs.Stream[Event]) -> fs.Stream[Row]:
    """Every bid with the three folders of its address."""
    return bids(events).map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.channel, *bid.url.split("/")[3:6])
    )
