"""Jobs for the simulator whose functions toss coins, under `strong-productions`: no two tries of them give
the same, and yet each input has one outcome, whatever crashes.

What follows depends on the order and on every byte of what they gave, so a replay that asked again ends in
other bytes than the reference, which has what was journalled.
"""

from random import Random
from typing import Any

from flamestream.model.calls.productions import with_productions
from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    LETTERS,
    Payload,
    SimJob,
    concatenation,
    diamond,
    key_of,
    rekey,
    scatter,
    windows,
)


class Coins:
    """Functions that nobody can call twice with the same result."""

    def __init__(self, rng: Random) -> None:
        self._rng = Random(rng.random())

    def tossed(self, payload: Payload) -> Payload:
        return payload[0], f"{payload[1]}{self._rng.random():.6f}"[-12:]

    def sometimes(self, payload: Payload) -> Payload:
        """A result, or an error."""
        if self._rng.random() < 0.2:
            raise ValueError(f"no luck with {payload[1]!r}")
        return self.tossed(payload)

    def several(self, payload: Payload) -> list[Payload]:
        """None, one or up to three of one toss: those of two tries are of different numbers, too."""
        key, value = self.tossed(payload)
        return [(key, f"{value}.{number}") for number in range(self._rng.choice([0, 1, 2, 3]))]

    def kept(self, _: Payload) -> bool:
        return self._rng.random() < 0.7

    def chain(self, rng: Random, stream: Stream[Any]) -> Stream[Any]:
        """A stream behind one to three productions, one behind the other."""
        match rng.randrange(3):
            case 0:
                stream = stream.map(self.tossed)
            case 1:
                stream = stream.flat_map(self.several)
            case _:
                stream = stream.filter(self.kept).map(self.sometimes)
        return stream.flat_map(self.several) if rng.random() < 0.4 else stream


def production_job(rng: Random) -> SimJob:
    """A job with one chain of productions or two, between stages that take items across workers or
    remember."""
    graph, coins = Graph("productions"), Coins(rng)
    stream: Stream[Any] = graph.source("s0")
    for _ in range(rng.choice([1, 1, 2])):
        if rng.random() < 0.6:
            stream = rng.choice([scatter, rekey, concatenation, windows, diamond])(rng, stream)
        stream = coins.chain(rng, stream)
    stream.sink("beside", key=key_of)
    concatenation(rng, stream).sink("out", key=key_of)
    return SimJob(with_productions(graph), DEAD_LETTERS, _record, 1)


def _record(rng: Random, number: int) -> Payload:
    return LETTERS[rng.randrange(4)], f"v{number}"
