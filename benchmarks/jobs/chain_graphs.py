"""The jobs that `python benchmarks productions` measures: bids through chains of functions of one's own, with a
door before each: an expression between two is deterministic, and stays where it is."""

from typing import Final

from nexmark.events import Bid
from nexmark.queries.columns import bids
from time_graphs import decoded

import flamestream as fs

Row = tuple[int, int, int]
DOORS: Final = (1, 2, 4)


def columns(bid: Bid) -> Row:
    return bid.auction, bid.bidder, bid.price


def same(row: Row) -> Row:
    return row


def chains(doors: int) -> fs.Graph:
    """Under `strong-productions` each of its functions is a production."""
    graph = fs.Graph(f"chains{doors}")
    rows = bids(graph.source("events", decoded)).map(columns)
    for _ in range(doors - 1):
        rows = rows.filter(fs.item[0] >= 0).map(same)
    rows.sink("results")
    return graph


globals().update({f"chains{doors}": chains(doors) for doors in DOORS})
