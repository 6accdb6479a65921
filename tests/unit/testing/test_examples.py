"""Every example means what its text says: the reference gives what a hand computation gives."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from flamestream.job.application import load
from flamestream.model.event_time import ENDED
from flamestream.model.records import Document
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import ERRORS, interpret
from support.docs.examples import EXAMPLES, example_file

EVENT_TIME = EXAMPLES / "event_time"


def at(timestamp: int, front: int = 0) -> Time:
    return time_of(Timestamp(timestamp), FrontId(front))


def outputs(
    example: str, sink: str, runs: Sequence[tuple[Time, Sequence[Any]]], errors: int = 0
) -> list[Any]:
    results = interpret(load(example_file(f"{example}.py"), "graph"), runs)
    assert len(results[ERRORS]) == errors
    return [
        payload
        if isinstance(payload, str)
        else tuple(getattr(payload, name) for name in payload.__dataclass_fields__)
        for _, payload in results[sink]
    ]


def test_inverted_index() -> None:
    documents = [Document("1.txt", "To be, or not to be"), Document("2.txt", "Be quick")]
    assert outputs("inverted_index", "index", [(at(1), documents)]) == [
        ("to", "1.txt", (0, 4), 1),
        ("be", "1.txt", (1, 5), 1),
        ("or", "1.txt", (2,), 1),
        ("not", "1.txt", (3,), 1),
        ("be", "2.txt", (0,), 2),
        ("quick", "2.txt", (1,), 1),
    ]


def test_word_count() -> None:
    lines = ["a rose is a rose", "is a rose"]
    counts = [("a", 1), ("rose", 1), ("is", 1), ("a", 2), ("rose", 2), ("is", 2), ("a", 3), ("rose", 3)]
    assert outputs("word_count", "counts", [(at(1), lines)]) == counts


@pytest.mark.parametrize(("letters", "texts"), [("abc", ["a", "ab", "abc"]), ("bac", ["b", "ba", "bac"])])
def test_concatenation(letters: str, texts: list[str]) -> None:
    runs = [(at(time), [letter]) for time, letter in enumerate(letters, 1)]
    assert outputs("concatenation", "texts", runs) == texts


def test_two_front_merge() -> None:
    prices, orders = 0, 1
    runs = [
        (at(1, orders), ["pen 1"]),
        (at(2, prices), ["pen 150", "ink 900"]),
        (at(2, orders), ["pen 2"]),
        (at(3, prices), ["pen 170"]),
        (at(4, orders), ["pen 3", "ink 1"]),
    ]
    assert outputs("two_front_merge", "valued", runs) == [
        ("pen", 1, 0),
        ("pen", 2, 150),
        ("pen", 3, 170),
        ("ink", 1, 900),
    ]


def minute_counts(sink: str, lines: list[str]) -> list[tuple[Any, ...]]:
    return outputs(
        "minute_counts", sink, [(at(number), [record]) for number, record in enumerate([*lines, ENDED], 1)]
    )


def test_minute_counts() -> None:
    """20 s is late behind 95 s; 40 s behind 121 s; 59 s behind 63 s is not: the minute is open for 30 s
    more."""
    lines = (EVENT_TIME / "data" / "events.txt").read_text().splitlines()
    counts = sorted(minute_counts("users", lines), key=lambda count: (count[1], count[0]))
    assert counts == [
        ("ada", 0, 60, 2),
        ("bob", 0, 60, 2),
        ("ada", 60, 120, 1),
        ("bob", 60, 120, 1),
        ("ada", 120, 180, 1),
    ]
    assert minute_counts("late", lines) == [(20, "ada"), (40, "bob")]


@pytest.mark.parametrize("seed", range(20))
def test_minute_counts_count_every_event_once_whatever_their_order(seed: int) -> None:
    """Against a plain loop."""
    chance = random.Random(seed)
    events = [(chance.randrange(400), chance.choice(["ada", "bob"])) for _ in range(60)]
    counts: Counter[tuple[str, int]] = Counter()
    late, newest = [], 0
    for seconds, user in events:
        minute = seconds // 60
        if minute * 60 + 90 <= newest:
            late.append((seconds, user))
        else:
            counts[user, minute] += 1
        newest = max(newest, seconds)
    lines = [f"{seconds} {user}" for seconds, user in events]
    expected = {(user, minute * 60, minute * 60 + 60, count) for (user, minute), count in counts.items()}
    assert set(minute_counts("users", lines)) == expected
    assert minute_counts("late", lines) == late


def test_turnover() -> None:
    lines = ["north,250", "south,1200", "north,99", "north,a lot", "south,1"]
    totals = [("north", 250, 250), ("south", 1200, 1200), ("north", 349, 99), ("south", 1201, 1)]
    assert outputs("turnover", "turnover", [(at(1), lines)], errors=1) == totals


# --- programs in event time, against plain loops over the same lines ----------------------------------------


def rows(name: str) -> list[dict[str, Any]]:
    """The records of an example's file, with their times as datetimes."""
    lines = (EVENT_TIME / "data" / f"{name}.jsonl").read_text().splitlines()
    return [{**row, "at": datetime.fromisoformat(row["at"])} for row in map(json.loads, lines)]


def given(example: str, sink: str) -> list[Any]:
    """What a sink gets of all lines. Nothing of the examples' data is too late."""
    graph = load(EVENT_TIME / f"{example}.py", "graph")
    results = graph.run(
        **{
            vertex.name: (EVENT_TIME / "data" / f"{vertex.name}.jsonl").read_text().splitlines()
            for vertex in graph.sources
        }
    )
    assert not results.pop("late", None)
    return results[sink]


def test_sessions_are_clicks_with_less_than_half_an_hour_between() -> None:
    visits: list[tuple[str, list[datetime]]] = []
    for user in ("ann", "bob", "cid"):
        times = sorted(row["at"] for row in rows("clicks") if row["user"] == user)
        visits.append((user, [times[0]]))
        for before, time in pairwise(times):
            if time - before >= timedelta(minutes=30):
                visits.append((user, []))
            visits[-1][1].append(time)
    assert len(visits) > 3, "somebody came back"
    expected = {(user, times[0], len(times)) for user, times in visits}
    assert {(visit.user, visit.begin, len(visit.pages)) for visit in given("sessions", "visits")} == expected


def test_top_pages_have_the_most_clicks_of_ten_minutes() -> None:
    clicks, five = rows("clicks"), timedelta(minutes=5)
    for top in given("top_pages", "tops"):
        assert top.end - top.start == 2 * five
        counts = Counter(row["page"] for row in clicks if top.start <= row["at"] < top.end)
        assert [count for _, count in top.value] == sorted(counts.values(), reverse=True)[:3]
        assert all(counts[page] == count for page, count in top.value)


def test_first_clicks_have_each_id_once() -> None:
    assert [click.id for click in given("first_clicks", "clicks")] == list(
        dict.fromkeys(row["id"] for row in rows("clicks"))
    )


def test_adverts_led_to_the_clicks_of_the_next_five_seconds() -> None:
    pairs = Counter(
        (view["advert"], click["page"], click["user"])
        for view in rows("views")
        for click in rows("clicks")
        if view["user"] == click["user"] and timedelta() <= click["at"] - view["at"] <= timedelta(seconds=5)
    )
    assert pairs
    assert Counter((led.advert, led.page, led.user) for led in given("led_to", "led")) == pairs


def test_what_was_sold_is_priced_at_the_newest_rate_of_its_time() -> None:
    expected = {}
    for sold in rows("sold"):
        known = [
            rate
            for rate in rows("rates")
            if rate["currency"] == sold["currency"] and rate["at"] <= sold["at"]
        ]
        newest = max(known, key=lambda rate: rate["at"], default={"thousandths": 1000})
        expected[sold["id"]] = sold["cents"] * newest["thousandths"] // 1000
    assert {priced.id: priced.cents for priced in given("in_euros", "priced")} == expected
