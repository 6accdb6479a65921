"""The queries q0 to q22 as plain loops over lists: a second opinion beside SQL, written without a look at it.

Each takes all events in the order in which they came and gives the final rows, in any order. Slow and short
on purpose: no incremental state, so nothing of how a stream would do it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexmark.events import Auction, Bid, Event, Person, instant
from nexmark.results import Row

SECOND: Final = 1000


def persons(events: Iterable[Event]) -> list[Person]:
    return [event for event in events if isinstance(event, Person)]


def auctions(events: Iterable[Event]) -> list[Auction]:
    return [event for event in events if isinstance(event, Auction)]


def bids(events: Iterable[Event]) -> list[Bid]:
    return [event for event in events if isinstance(event, Bid)]


def day(bid: Bid) -> str:
    return f"{instant(bid.dateTime):%Y-%m-%d}"


def minute(bid: Bid) -> str:
    return f"{instant(bid.dateTime):%H:%M}"


def window(time: int, size: int) -> int:
    """The beginning of the window of `size` that a time is in."""
    return time // size * size


def q0(events: Sequence[Event]) -> Iterator[Row]:
    return ((bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra) for bid in bids(events))


def q1(events: Sequence[Event]) -> Iterator[Row]:
    return ((bid.auction, bid.bidder, bid.price * 908, bid.dateTime, bid.extra) for bid in bids(events))


def q2(events: Sequence[Event]) -> Iterator[Row]:
    return ((bid.auction, bid.price) for bid in bids(events) if bid.auction % 123 == 0)


def q3(events: Sequence[Event]) -> Iterator[Row]:
    sellers = {person.id: person for person in persons(events) if person.state in ("OR", "ID", "CA")}
    for auction in auctions(events):
        if auction.category == 10 and (seller := sellers.get(auction.seller)):
            yield seller.name, seller.city, seller.state, auction.id


def winning_bids(events: Sequence[Event]) -> dict[int, tuple[Auction, Bid]]:
    """By auction: it, and its highest bid while it was open, the first one of equals."""
    offers = defaultdict(list)
    for bid in bids(events):
        offers[bid.auction].append(bid)
    won = {}
    for auction in auctions(events):
        valid = [bid for bid in offers[auction.id] if auction.dateTime <= bid.dateTime <= auction.expires]
        if valid:
            won[auction.id] = auction, min(valid, key=lambda bid: (-bid.price, bid.dateTime))
    return won


def q4(events: Sequence[Event]) -> Iterator[Row]:
    prices = defaultdict(list)
    for auction, bid in winning_bids(events).values():
        prices[auction.category].append(bid.price)
    return ((category, sum(final) // len(final)) for category, final in prices.items())


def q5(events: Sequence[Event]) -> Iterator[Row]:
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in bids(events):
        newest = window(bid.dateTime, 2 * SECOND)
        for start in range(newest - 8 * SECOND, newest + 1, 2 * SECOND):
            windows[start][bid.auction] += 1
    for counts in windows.values():
        most = max(counts.values())
        yield from ((auction, count) for auction, count in counts.items() if count == most)


def q6(events: Sequence[Event]) -> Iterator[Row]:
    sold = defaultdict(list)
    for auction, bid in winning_bids(events).values():
        sold[auction.seller].append((bid.dateTime, auction.id, bid.price))
    for seller, sales in sold.items():
        prices = [price for _, _, price in sorted(sales)]
        for stop in range(1, len(prices) + 1):
            last = prices[max(0, stop - 11) : stop]
            yield seller, sum(last) // len(last)


def q7(events: Sequence[Event]) -> Iterator[Row]:
    highest: dict[int, int] = {}
    for bid in bids(events):
        start = window(bid.dateTime, 10 * SECOND)
        highest[start] = max(highest.get(start, 0), bid.price)
    for bid in bids(events):
        if bid.price == highest[window(bid.dateTime, 10 * SECOND)]:
            yield bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra


def q8(events: Sequence[Event]) -> Iterator[Row]:
    sellers = {(auction.seller, window(auction.dateTime, 10 * SECOND)) for auction in auctions(events)}
    for person in persons(events):
        start = window(person.dateTime, 10 * SECOND)
        if (person.id, start) in sellers:
            yield person.id, person.name, start


def q9(events: Sequence[Event]) -> Iterator[Row]:
    for of, bid in winning_bids(events).values():
        auction = (
            of.id,
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
        yield *auction, bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra


def q10(events: Sequence[Event]) -> Iterator[Row]:
    return (
        (bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra, day(bid), minute(bid))
        for bid in bids(events)
    )


def q11(events: Sequence[Event]) -> Iterator[Row]:
    times = defaultdict(list)
    for bid in bids(events):
        times[bid.bidder].append(bid.dateTime)
    for bidder, moments in times.items():
        sessions: list[list[int]] = []
        for moment in sorted(moments):
            if not sessions or moment - sessions[-1][-1] > 10 * SECOND:
                sessions.append([])
            sessions[-1].append(moment)
        yield from ((bidder, len(session), session[0], session[-1] + 10 * SECOND) for session in sessions)


def q12(events: Sequence[Event], arrivals: Sequence[int]) -> Iterator[Row]:
    counts: Counter[tuple[int, int]] = Counter()
    for event, arrival in zip(events, arrivals, strict=True):
        if isinstance(event, Bid):
            counts[event.bidder, window(arrival, 10 * SECOND)] += 1
    return ((bidder, count, start, start + 10 * SECOND) for (bidder, start), count in counts.items())


def q13(events: Sequence[Event], side_input: Mapping[int, str]) -> Iterator[Row]:
    for bid in bids(events):
        if bid.auction % 10_000 in side_input:
            yield bid.auction, bid.bidder, bid.price, bid.dateTime, side_input[bid.auction % 10_000]


def q14(events: Sequence[Event]) -> Iterator[Row]:
    for bid in bids(events):
        hour = instant(bid.dateTime).hour
        kind = "dayTime" if 8 <= hour <= 18 else "otherTime" if hour in (7, 19) else "nightTime"
        if 1_000_000_000 < bid.price * 908 < 50_000_000_000:
            yield (
                bid.auction,
                bid.bidder,
                bid.price * 908,
                kind,
                bid.dateTime,
                bid.extra,
                bid.extra.count("c"),
            )


def ranked(group: Sequence[Bid]) -> tuple[list[Bid], ...]:
    """All bids, and those of the three ranks of prices."""
    return (
        list(group),
        [bid for bid in group if bid.price < 10_000],
        [bid for bid in group if 10_000 <= bid.price < 1_000_000],
        [bid for bid in group if bid.price >= 1_000_000],
    )


def statistics(group: Sequence[Bid]) -> Row:
    """Bids, bidders and auctions of all ranks."""
    ranks = ranked(group)
    bidders, sold = (
        [len({getattr(bid, name) for bid in rank}) for rank in ranks] for name in ("bidder", "auction")
    )
    return (*map(len, ranks), *bidders, *sold)


def q15(events: Sequence[Event]) -> Iterator[Row]:
    for when, group in grouped(events, day):
        yield when, *statistics(group)


def q16(events: Sequence[Event]) -> Iterator[Row]:
    for (channel, when), group in grouped(events, lambda bid: (bid.channel, day(bid))):
        yield channel, when, max(map(minute, group)), *statistics(group)


def q17(events: Sequence[Event]) -> Iterator[Row]:
    for (auction, when), group in grouped(events, lambda bid: (bid.auction, day(bid))):
        prices = [bid.price for bid in group]
        total = sum(prices)
        yield auction, when, *map(len, ranked(group)), min(prices), max(prices), total // len(prices), total


def grouped(events: Sequence[Event], key: Callable[[Bid], Any]) -> Iterable[tuple[Any, list[Bid]]]:
    """The bids of each key, in the order in which they came."""
    groups = defaultdict(list)
    for bid in bids(events):
        groups[key(bid)].append(bid)
    return groups.items()


def whole(bid: Bid) -> Row:
    return bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.dateTime, bid.extra


def q18(events: Sequence[Event]) -> Iterator[Row]:
    for _, group in grouped(events, lambda bid: (bid.bidder, bid.auction)):
        newest = max(bid.dateTime for bid in group)
        yield whole([bid for bid in group if bid.dateTime == newest][-1])


def q19(events: Sequence[Event]) -> Iterator[Row]:
    for _, group in grouped(events, lambda bid: bid.auction):
        highest = sorted(group, key=lambda bid: -bid.price)[:10]
        yield from ((*whole(bid), rank) for rank, bid in enumerate(highest, 1))


def q20(events: Sequence[Event]) -> Iterator[Row]:
    wanted = {auction.id: auction for auction in auctions(events) if auction.category == 10}
    for bid in bids(events):
        if of := wanted.get(bid.auction):
            offered = of.itemName, of.description, of.initialBid, of.reserve, of.dateTime, of.expires
            yield *whole(bid), *offered, of.seller, of.category, of.extra


def q21(events: Sequence[Event]) -> Iterator[Row]:
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    for bid in bids(events):
        named = re.search("(&|^)channel_id=([^&]*)", bid.url)
        channel_id = known.get(bid.channel.lower()) or (named and named[2])
        if channel_id is not None:
            yield bid.auction, bid.bidder, bid.price, bid.channel, channel_id


def q22(events: Sequence[Event]) -> Iterator[Row]:
    for bid in bids(events):
        _, _, _, first, second, third, *_ = bid.url.split("/")
        yield bid.auction, bid.bidder, bid.price, bid.channel, first, second, third


LOOPS: Final[dict[str, Callable[[Sequence[Event]], Iterable[Row]]]] = {
    loop.__name__: loop
    for loop in (
        q0,
        q1,
        q2,
        q3,
        q4,
        q5,
        q6,
        q7,
        q8,
        q9,
        q10,
        q11,
        q14,
        q15,
        q16,
        q17,
        q18,
        q19,
        q20,
        q21,
        q22,
    )
}


def answer(
    query: str, events: Sequence[Event], arrivals: Sequence[int], side_input: Mapping[int, str]
) -> list[Row]:
    """The rows of `q0` to `q22`, sorted, each as often as it is there."""
    if query == "q12":
        return sorted(q12(events, arrivals))
    if query == "q13":
        return sorted(q13(events, side_input))
    return sorted(LOOPS[query](events))
