"""The other guarantees hold their own invariants, and their runs really contain what is special about
them."""

from random import Random

import pytest

from flamestream.model.at import At, at
from flamestream.model.graph import Graph
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, Payload, SimJob, concatenation, key_of
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate

SEEDS = range(120)


@pytest.mark.parametrize(
    ("guarantee", "special"),
    [
        ("exactly-once-2pc", "snapshot.holds output"),
        ("at-most-once", "front.skipped records"),
        ("at-least-once", "consumer.repeated item"),
        ("none", "job.began anew"),
    ],
)
def test_every_invariant_holds_at_every_event(guarantee: str, special: str) -> None:
    seen = sum(simulate(seed, adjust=promising(guarantee)).coverage[special] for seed in SEEDS)
    assert seen > len(SEEDS) // 2


def _marked(payload: Payload, place: At) -> Payload:
    return payload[0], f"{payload[1]}{place.uuid()[:6]}{place.random():.3f}"


def _chance_job(rng: Random) -> SimJob:
    """What a place in the order gives, before a fold and behind it."""
    graph = Graph("chance")
    stream = graph.source("s0").map(at(_marked))
    stream.sink("beside", key=key_of)
    concatenation(rng, stream).map(at(_marked)).sink("out", key=key_of)
    return SimJob(graph, DEAD_LETTERS, lambda rng, number: (LETTERS[rng.randrange(4)], f"v{number}"), 1)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_fs_at_draws_is_the_references(guarantee: str) -> None:
    """Under `none` too: a place is known where no journal is, for the attempt has its own."""
    results = [
        simulate(seed, adjust=promising(guarantee), job=_chance_job(Random(seed))) for seed in range(15)
    ]
    assert sum(result.delivered for result in results) > 100
