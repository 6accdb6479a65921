"""A job that is stopped and started with other sources, drained or not: what it delivers is what one graph with all of
them makes of what was read, and no source goes with records that are in no state."""

from random import Random

import pytest

from flamestream.simulation.changes.restarts import changing_job, restarting
from flamestream.simulation.settings import promising
from flamestream.simulation.simulator import Result
from flamestream.testing import simulate
from support.seeds import chunks


def _run(seed: int, guarantee: str = "exactly-once") -> Result:
    return simulate(seed, job=changing_job(Random(seed)), adjust=promising(guarantee, restarting()))


@pytest.mark.parametrize("first", chunks(0, 600, 100, at_push=200))
def test_sources_come_and_go_and_come_back(first: int) -> None:
    results = [_run(seed) for seed in range(first, first + 100)]
    for what in ("front.gone", "front.began in a stream that ran", "sources.refused to go"):
        assert sum(result.coverage[what] for result in results) > 20, what


def test_so_they_do_where_output_waits_for_commits() -> None:
    results = [_run(seed, "exactly-once-2pc") for seed in range(60)]
    assert sum(result.coverage["front.gone"] for result in results) > 10
