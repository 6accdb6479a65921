"""Workers of two releases, while the image changes: in no attempt together, and nothing is lost or stands still."""

from collections import Counter

import pytest

from flamestream.simulation.kinds import KINDS, run
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 1000, 100, at_push=100))
def test_each_attempt_is_of_one_release_whatever_crashes(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 100):
        told += run("releases", seed).coverage
    assert told["worker.retired"] > 150
    assert told["recovery.of a survivor"] > 50


@pytest.mark.parametrize("guarantee", KINDS["releases"].guarantees[1:])
def test_so_it_is_under_every_guarantee(guarantee: str) -> None:
    assert sum(run("releases", seed, guarantee).coverage["worker.retired"] for seed in range(20)) > 30
