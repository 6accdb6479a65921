"""The generator of Nexmark's events, by its specification.

Of 50 events one is a person, three are auctions and 46 are bids, in this order. Ids grow; hot auctions,
sellers and bidders get most of what comes; prices are spread evenly over their logarithm. Event `number`
depends on the configuration, the seed and `number` alone, so any piece can be made alone, in any order and by
several processes.

>>> [type(event).__name__ for event in generated(5)]
['Person', 'Auction', 'Auction', 'Auction', 'Bid']
>>> Generator().event(4_000) == list(generated(4_001))[-1]
True

Differs from the Java in two places: its random numbers are not repeatable, and it adds the first person's id
to a bidder twice, so that its bidders are none of its persons; here they are. Source:
github.com/nexmark/nexmark, nexmark-flink/src/main/java/com/github/nexmark/flink/generator; Tucker, Tufte,
Papadimos, Maier, "NEXMark: A Benchmark for Queries over Data Streams", 2010.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nexmark.events import Auction, Bid, Event, Person
from nexmark.splitmix import SplitMix

FIRST_ID: Final = 1000
"""Of persons and of auctions."""
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
ID_LEAD: Final = 10
"""Persons and auctions that may be named before they come."""
HOT_EVERY: Final = 100
"""One of so many auctions, sellers and bidders is hot while the next so many come."""
STRIDE: Final = 953
"""Between the times of events that come one after the other, within a group that is out of order. A prime."""
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS: Final = 10_000
SIDE_INPUT_ROWS: Final = 10_000

STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES: Final = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
)
LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is generated; the defaults are the specification's. Raises ValueError for a number that makes no
    sense."""

    seed: int = 0
    rate: int = 10_000
    """Events a second of event time."""
    base_time: int = 1_436_918_400_000
    """Of the first event, in ms: 2015-07-15 in UTC, as Apache Beam has it."""
    persons: int = 1
    auctions: int = 3
    bids: int = 46
    person_bytes: int = 200
    """On average, as are those of auctions and bids; `extra` fills them up."""
    auction_bytes: int = 500
    bid_bytes: int = 100
    hot_auctions: int = 2
    """All bids but one of so many are for a hot auction."""
    hot_sellers: int = 4
    hot_bidders: int = 4
    auctions_in_flight: int = 100
    active_persons: int = 1000
    out_of_order: int = 1
    """Events within so many come in another order than their times; 1: in order."""

    @property
    def total(self) -> int:
        """Events of an epoch, which has the given number of each kind."""
        return self.persons + self.auctions + self.bids

    def __post_init__(self) -> None:
        least = min(
            self.rate,
            self.persons,
            self.auctions,
            self.bids,
            self.hot_auctions,
            self.hot_sellers,
            self.hot_bidders,
        )
        if min(least, self.auctions_in_flight, self.active_persons, self.out_of_order) < 1:
            raise ValueError(f"{self}: rate, proportions, ratios and sizes of groups must be at least 1")
        if self.out_of_order % STRIDE == 0:
            raise ValueError(
                f"{self}: out_of_order must not be a multiple of {STRIDE}, "
                "or all events of a group would be one"
            )


class Generator:
    """Makes the events of a configuration, each by its number."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.configuration = configuration or Configuration()

    def event(self, number: int) -> Event:
        """The event that comes as number `number`, from 0."""
        of = self.configuration
        id_ = self.id_of(number)
        random = SplitMix(of.seed, id_)
        place = id_ % of.total
        if place < of.persons:
            return self._person(id_, random)
        if place < of.persons + of.auctions:
            return self._auction(id_, random)
        return self._bid(id_, random)

    def id_of(self, number: int) -> int:
        """The event's place in the order of times: its own number where nothing is out of order."""
        group = self.configuration.out_of_order
        return number - number % group + number * STRIDE % group

    def arrival(self, number: int) -> int:
        """When event `number` comes, in ms of event time; never goes back."""
        return self.configuration.base_time + number * 1_000_000 // self.configuration.rate // 1000

    def _person(self, id_: int, random: SplitMix) -> Person:
        name = f"{_one(FIRST_NAMES, random)} {_one(LAST_NAMES, random)}"
        email = f"{_text(random, 7)}@{_text(random, 5)}.com"
        card = " ".join(f"{random.below(10_000):04d}" for _ in range(4))
        city, state = _one(CITIES, random), _one(STATES, random)
        size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        extra = _extra(random, size, self.configuration.person_bytes)
        return Person(
            FIRST_ID + self._last_person(id_), name, email, card, city, state, self.arrival(id_), extra
        )

    def _auction(self, id_: int, random: SplitMix) -> Auction:
        of, time = self.configuration, self.arrival(id_)
        hot = random.below(of.hot_sellers) > 0
        seller = self._hot(self._last_person(id_)) if hot else self._any_person(id_, random)
        category = FIRST_CATEGORY + random.below(CATEGORIES)
        initial = _price(random)
        horizon = self.arrival(id_ + of.auctions_in_flight * of.total // of.auctions) - time
        expires = time + 1 + random.below(max(2 * horizon, 1))
        name, description = _text(random, 20), _text(random, 100)
        reserve = initial + _price(random)
        extra = _extra(random, 8 + len(name) + len(description) + 5 * 8, of.auction_bytes)
        id_ = FIRST_ID + self._last_auction(id_)
        return Auction(
            id_, name, description, initial, reserve, time, expires, FIRST_ID + seller, category, extra
        )

    def _bid(self, id_: int, random: SplitMix) -> Bid:
        of, last = self.configuration, self._last_auction(id_)
        if random.below(of.hot_auctions) > 0:
            auction = self._hot(last)
        else:
            first = max(last - of.auctions_in_flight, 0)
            auction = first + random.below(last - first + 1 + ID_LEAD)
        hot = random.below(of.hot_bidders) > 0
        # +1: no seller is a hot bidder
        bidder = self._hot(self._last_person(id_)) + 1 if hot else self._any_person(id_, random)
        price = _price(random)
        channel, url = _channel(
            of.seed,
            random.below(len(HOT_CHANNELS)) - len(HOT_CHANNELS)
            if random.below(2)
            else random.below(CHANNELS),
        )
        extra = _extra(random, 4 * 8, of.bid_bytes)
        return Bid(FIRST_ID + auction, FIRST_ID + bidder, price, channel, url, self.arrival(id_), extra)

    def _last_person(self, id_: int) -> int:
        """The newest person, from 0, when event `id_` comes: itself if it is one."""
        epoch, place = divmod(id_, self.configuration.total)
        return epoch * self.configuration.persons + min(place, self.configuration.persons - 1)

    def _last_auction(self, id_: int) -> int:
        """The newest auction, from 0, when event `id_` comes: itself if it is one."""
        of = self.configuration
        epoch, place = divmod(id_, of.total)
        return epoch * of.auctions + min(place - of.persons, of.auctions - 1)

    def _any_person(self, id_: int, random: SplitMix) -> int:
        """One of the active persons, or of those who come next."""
        persons = self._last_person(id_) + 1
        active = min(persons, self.configuration.active_persons)
        return persons - active + random.below(active + ID_LEAD)

    @staticmethod
    def _hot(last: int) -> int:
        return last // HOT_EVERY * HOT_EVERY


def generated(count: int, configuration: Configuration | None = None, first: int = 0) -> Iterator[Event]:
    """`count` events in the order in which they come, from number `first` on."""
    generator = Generator(configuration)
    return (generator.event(number) for number in range(first, first + count))


def side_input() -> dict[int, str]:
    """What q13 looks up: a number and its text."""
    return {number: str(number) for number in range(SIDE_INPUT_ROWS)}


def _one(choices: Sequence[str], random: SplitMix) -> str:
    return choices[random.below(len(choices))]


def _price(random: SplitMix) -> int:
    """Cents: 100 to 100,000,000, evenly over the logarithm."""
    return int(10.0 ** (random.fraction() * 6.0) * 100.0 + 0.5)


def _text(random: SplitMix, below: int, special: str = " ") -> str:
    """3 to `below` - 1 letters, one of 13 of which is `special`; blanks at its ends are cut off."""
    letters = [
        special if random.below(13) == 0 else chr(ord("a") + random.below(26))
        for _ in range(3 + random.below(below - 3))
    ]
    return "".join(letters).strip()


def _extra(random: SplitMix, size: int, average: int) -> str:
    """Letters that fill `size` bytes up to `average`, give or take a fifth of what is missing."""
    if size > average:
        return ""
    missing = average - size
    delta = int(missing * 0.2 + 0.5)
    return random.letters(missing - delta + (random.below(2 * delta) if delta else 0))


@lru_cache(maxsize=CHANNELS + len(HOT_CHANNELS))
def _channel(seed: int, number: int) -> tuple[str, str]:
    """A channel and the address that all its bids come from; nine of ten addresses name the channel, those of
    hot ones (below 0) never."""
    random = SplitMix(~seed, number)
    url = f"https://www.nexmark.com/{'/'.join(_text(random, 5, '_') for _ in range(3))}/item.htm?query=1"
    if number < 0:
        return HOT_CHANNELS[number], url
    return f"channel-{number}", f"{url}&channel_id={_reversed(number)}" if random.below(10) > 0 else url


def _reversed(number: int) -> int:
    """Its 32 bits backwards, as a signed number whose sign is left out."""
    backwards = int(f"{number:032b}"[::-1], 2)
    return min(backwards, (1 << 32) - backwards)
