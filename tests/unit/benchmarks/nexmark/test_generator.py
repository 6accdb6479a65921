"""The generator keeps to the facts of Nexmark's specification, and depends on seed and number alone."""

from collections import Counter
from hashlib import sha256
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nexmark.events import Auction, Bid, Person, instant
from nexmark.generator import FIRST_ID, HOT_CHANNELS, ID_LEAD, Configuration, Generator, generated, side_input
from nexmark.splitmix import SplitMix

COUNT = 20_000
EVENTS = list(generated(COUNT))
PERSONS = [event for event in EVENTS if isinstance(event, Person)]
AUCTIONS = [event for event in EVENTS if isinstance(event, Auction)]
BIDS = [event for event in EVENTS if isinstance(event, Bid)]


def test_the_numbers_are_those_of_splitmix64() -> None:
    random = SplitMix(0, 0)
    random._state = 1234567
    assert [random.bits() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_of_50_events_one_is_a_person_three_are_auctions_and_46_are_bids() -> None:
    assert [type(event) for event in EVENTS] == [Person, *[Auction] * 3, *[Bid] * 46] * (COUNT // 50)


def test_ids_of_persons_and_auctions_are_consecutive() -> None:
    assert [person.id for person in PERSONS] == list(range(FIRST_ID, FIRST_ID + COUNT // 50))
    assert [auction.id for auction in AUCTIONS] == list(range(FIRST_ID, FIRST_ID + COUNT * 3 // 50))


@given(st.integers(0, 2**63), st.integers(0, 10_000), st.integers(1, 60))
def test_a_piece_that_is_made_alone_is_that_piece_of_the_whole(seed: int, first: int, count: int) -> None:
    configuration = Configuration(seed, out_of_order=7)
    one_by_one = [Generator(configuration).event(number) for number in reversed(range(first, first + count))]
    assert list(generated(count, configuration, first)) == one_by_one[::-1]


def test_events_are_the_same_in_every_version() -> None:
    assert sha256(msgspec.msgpack.encode(EVENTS)).hexdigest()[:16] == "5f7a38e94e77d5d7"


def test_another_seed_makes_other_events() -> None:
    assert not set(generated(50, Configuration(seed=1))) & set(EVENTS)


def test_times_are_as_far_apart_as_the_rate_says() -> None:
    assert [event.dateTime - EVENTS[0].dateTime for event in EVENTS[:21]] == [
        number // 10 for number in range(21)
    ]
    assert Generator(Configuration(rate=3)).arrival(3) - Configuration().base_time == 1000
    assert instant(EVENTS[10].dateTime).isoformat() == "2015-07-15T00:00:00.001000+00:00"


@pytest.mark.parametrize("group", [2, 10, 64, 1000])
def test_out_of_order_events_are_the_same_ones_within_each_group_in_another_order(group: int) -> None:
    mixed = list(generated(COUNT // 1000 * 1000, Configuration(out_of_order=group)))
    pieces = [(mixed[at : at + group], EVENTS[at : at + group]) for at in range(0, COUNT - group, group)]
    assert all(sorted(map(repr, ours)) == sorted(map(repr, theirs)) for ours, theirs in pieces)
    assert (mixed == EVENTS[: len(mixed)]) == (group == 2)  # 953 is odd, so pairs stay as they are


def test_what_is_out_of_order_arrives_in_order() -> None:
    generator = Generator(Configuration(out_of_order=64))
    assert all(first <= second for first, second in pairwise(map(generator.arrival, range(1000))))


def share(those: int, of: int) -> float:
    return round(those / of, 2)


def test_half_the_bids_are_for_a_hot_auction_and_three_of_four_by_a_hot_bidder() -> None:
    assert share(sum((bid.auction - FIRST_ID) % 100 == 0 for bid in BIDS), len(BIDS)) == pytest.approx(
        0.5, abs=0.02
    )
    assert share(sum((bid.bidder - FIRST_ID) % 100 == 1 for bid in BIDS), len(BIDS)) == pytest.approx(
        0.75, abs=0.02
    )


def test_three_of_four_auctions_are_of_a_hot_seller_who_is_no_hot_bidder() -> None:
    assert share(
        sum((each.seller - FIRST_ID) % 100 == 0 for each in AUCTIONS), len(AUCTIONS)
    ) == pytest.approx(0.75, abs=0.03)


def test_bids_name_auctions_in_flight_or_a_few_that_come_next() -> None:
    for number, event in enumerate(EVENTS):
        if isinstance(event, Bid):
            newest = number // 50 * 3 + 2 + FIRST_ID
            hot = (newest - FIRST_ID) // 100 * 100 + FIRST_ID
            assert event.auction == hot or newest - 100 <= event.auction <= newest + ID_LEAD


def test_bidders_and_sellers_are_persons_or_come_next() -> None:
    newest = PERSONS[-1].id
    assert max(bid.bidder for bid in BIDS) <= newest + ID_LEAD and min(bid.bidder for bid in BIDS) >= FIRST_ID
    assert (
        max(each.seller for each in AUCTIONS) <= newest + ID_LEAD
        and min(each.seller for each in AUCTIONS) >= FIRST_ID
    )


def test_each_power_of_ten_has_a_sixth_of_the_prices() -> None:
    powers = Counter(len(str(bid.price)) for bid in BIDS)
    assert set(powers) == set(range(3, 9))
    assert all(share(count, len(BIDS)) == pytest.approx(1 / 6, abs=0.01) for count in powers.values())


def test_an_auction_is_open_for_some_hundred_auctions_on_average() -> None:
    lengths = [auction.expires - auction.dateTime for auction in AUCTIONS]
    assert min(lengths) >= 1 and max(lengths) <= 2 * 167
    # 100 auctions take 1,666 events of 0.1 ms
    assert sum(lengths) / len(lengths) == pytest.approx(167, rel=0.05)


def test_events_have_their_average_size() -> None:
    fixed = {Person: 8, Auction: 6 * 8, Bid: 4 * 8}
    left_out = {"channel", "url"}  # the specification does not count them

    def size(event: Person | Auction | Bid) -> int:
        texts = [
            value
            for name, value in msgspec.structs.asdict(event).items()
            if isinstance(value, str) and name not in left_out
        ]
        return fixed[type(event)] + sum(map(len, texts))

    sizes = [sum(map(size, events)) / len(events) for events in (PERSONS, AUCTIONS, BIDS)]
    assert sizes == [pytest.approx(200, rel=0.01), pytest.approx(500, rel=0.01), pytest.approx(100, rel=0.01)]


def test_half_the_bids_come_by_four_channels_and_nine_of_ten_others_name_theirs() -> None:
    others = {(bid.channel, bid.url) for bid in BIDS if bid.channel not in HOT_CHANNELS}
    assert share(sum(bid.channel in HOT_CHANNELS for bid in BIDS), len(BIDS)) == pytest.approx(0.5, abs=0.02)
    assert len({channel for channel, _ in others}) == len(others)  # a channel has one address
    assert share(sum("&channel_id=" in url for _, url in others), len(others)) == pytest.approx(0.9, abs=0.02)
    assert all(bid.url.split("/")[2] == "www.nexmark.com" and len(bid.url.split("/")) == 7 for bid in BIDS)


def test_categories_and_states_are_few() -> None:
    assert {auction.category for auction in AUCTIONS} == set(range(10, 15))
    assert {person.state for person in PERSONS} == {"AZ", "CA", "ID", "OR", "WA", "WY"}


def test_the_side_input_has_a_text_for_each_number_that_is_looked_up() -> None:
    assert side_input() == {number: str(number) for number in range(10_000)}


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"persons": 0}, {"out_of_order": 0}, {"out_of_order": 953 * 2}]
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        Configuration(**wrong)
