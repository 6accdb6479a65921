"""Running aggregates say after each item what holds so far."""

from dataclasses import dataclass
from typing import Any

import flamestream as fs
from support.event_time import results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Bid:
    auction: int
    user: str
    price: int


BIDS = [Bid(1, "ann", 5), Bid(1, "bob", 7), Bid(2, "ann", 1), Bid(1, "ann", 7), Bid(1, "cat", 6)]


def run(build: Any) -> list[Any]:
    graph = fs.Graph("running")
    build(graph.source("bids")).sink("out")
    return results(graph, [("bids", bid) for bid in BIDS], ended=False)["out"]


def test_distinct_count_counts_each_value_once_a_key() -> None:
    assert run(lambda bids: bids.distinct_count("user", key="auction")) == [
        (1, 1),
        (1, 2),
        (2, 1),
        (1, 2),
        (1, 3),
    ]


def test_top_has_the_greatest_first_and_the_earlier_of_equal_ones_before_the_later() -> None:
    best = run(lambda bids: bids.top(3, by="price", key="auction"))
    assert best[2] == (2, (BIDS[2],))
    assert best[-1] == (1, (BIDS[1], BIDS[3], BIDS[4]))
