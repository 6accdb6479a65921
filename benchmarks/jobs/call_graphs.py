"""The jobs that `python benchmarks calls` measures: bids as they are, bids that ask an echo over TCP, one by
one or many at once, and bids beside calls that take two seconds. The port of the echo is in the environment:
ECHO."""

import asyncio
import os
from itertools import chain

from nexmark.events import Bid
from nexmark.queries.columns import bids
from time_graphs import decoded

import flamestream as fs

Row = tuple[int, int, int]


def columns(bid: Bid) -> Row:
    return bid.auction, bid.bidder, bid.price


def rows(graph: fs.Graph) -> fs.Stream[Row]:
    return bids(graph.source("events", decoded)).map(columns)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
idle: list[Connection] = []
"""Connections to the echo that no call uses now."""


@fs.call(timeout="10s", concurrency=256)
async def echoed(row: Row, call: fs.Call) -> Row:
    return (await said(call.id, [row]))[0]


@fs.call(timeout="10s", batch=64, linger="5ms")
async def echoed_at_once(asked: list[Row], calls: list[fs.Call]) -> list[Row]:
    return await said(calls[0].id, asked)


async def said(name: str, asked: list[Row]) -> list[Row]:
    """What the echo says: the same rows."""
    port = int(os.environ["ECHO"])
    reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
    writer.write(" ".join(map(str, (name, *chain.from_iterable(asked)))).encode() + b"\n")
    numbers = list(map(int, (await reader.readline()).split()[1:]))
    idle.append((reader, writer))
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


@fs.call(timeout="10s", concurrency=4096)
async def two_seconds(row: Row) -> Row:
    await asyncio.sleep(2)
    return row


plain = fs.Graph("plain")
rows(plain).sink("results")

echo = fs.Graph("echo")
rows(echo).call(echoed).sink("results")

batched = fs.Graph("batched")
rows(batched).call(echoed_at_once).sink("results")

beside = fs.Graph("beside")
_rows = rows(beside)
_rows.sink("results")
_rows.filter(lambda row: row[0] % 10 == 0).call(two_seconds).sink("slow")
