"""A job that is stopped and started with other sources, drained or not: what it delivers is what one graph with all of
them makes of what was read, and no source goes with records that are in no state."""

import pytest

from flamestream.simulation.kinds import run
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 600, 100, at_push=100))
def test_sources_come_and_go_and_come_back(first: int) -> None:
    results = [run("restarts", seed) for seed in range(first, first + 100)]
    for what in ("front.gone", "front.began in a stream that ran", "sources.refused"):
        assert sum(result.coverage[what] for result in results) > 20, what


def test_so_they_do_where_output_waits_for_commits() -> None:
    results = [run("restarts", seed, "exactly-once-2pc") for seed in range(60)]
    assert sum(result.coverage["front.gone"] for result in results) > 10
