"""Code that is changed while the job runs: every result is of one version of it, by the cut that its tick names."""

from random import Random

import pytest

from flamestream.simulation.changes.hand_overs import handing_over
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.jobs.ticks import (
    edited_job,
    failing,
    fatal_job,
    growing,
    growing_job,
    mistaken_job,
    ticking,
)
from flamestream.simulation.settings import Plan, promising
from flamestream.simulation.simulator import Result
from flamestream.testing import simulate
from support.seeds import chunks

STRICT = ("exactly-once-2pc", "at-most-once", "strong-productions", "none")


def _grown(seed: int, guarantee: str = "exactly-once") -> Result:
    return simulate(seed, job=growing_job(Random(seed)), adjust=promising(guarantee, growing()))


def _run(seed: int, guarantee: str = "exactly-once", calm: bool = False) -> Result:
    def without_faults(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.rates, faults.moments = {}, []
        return plan, faults

    direct = ticking(without_faults if calm else None)
    return simulate(seed, job=edited_job(Random(seed)), adjust=promising(guarantee, direct))


@pytest.mark.parametrize("first", chunks(0, 1000, 100, at_push=100))
def test_each_result_is_of_one_version_whatever_crashes(first: int) -> None:
    results = [_run(seed) for seed in range(first, first + 100)]
    assert sum(result.coverage["tick.made"] for result in results) > 50


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", STRICT)
def test_so_it_is_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [_run(seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["tick.made"] for result in results) > 8


def test_so_it_is_at_least_once_where_nobody_dies() -> None:
    """Else consumers that remember nothing may have got results above the cut already."""
    assert sum(_run(seed, "at-least-once", calm=True).coverage["tick.made"] for seed in range(40)) > 20


@pytest.mark.parametrize("first", chunks(0, 600, 100, at_push=100))
def test_sources_come_before_between_and_behind_others_whatever_crashes(first: int) -> None:
    results = [_grown(seed) for seed in range(first, first + 100)]
    assert sum(result.coverage["front.began in a stream that ran"] for result in results) > 80


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", STRICT)
def test_sources_come_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [_grown(seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["tick.made"] for result in results) > 8


def _taken_back(seed: int, guarantee: str = "exactly-once") -> Result:
    return simulate(seed, job=fatal_job(Random(seed)), adjust=promising(guarantee, failing()))


@pytest.mark.parametrize("first", chunks(0, 600, 100, at_push=100))
def test_code_that_kills_its_workers_goes_back_whatever_crashes(first: int) -> None:
    results = [_taken_back(seed) for seed in range(first, first + 100)]
    assert sum(result.coverage["tick.taken back"] for result in results) > 20


@pytest.mark.parametrize("first", chunks(0, 60, 30, at_push=30))
@pytest.mark.parametrize("guarantee", STRICT)
def test_so_it_goes_back_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [_taken_back(seed, guarantee) for seed in range(first, first + 30)]
    assert sum(result.coverage["tick.taken back"] for result in results) > 1


@pytest.mark.parametrize("first", chunks(0, 100, 50, at_push=50))
def test_code_that_raises_goes_back_whatever_crashes(first: int) -> None:
    seeds = range(first, first + 50)
    results = [simulate(seed, job=mistaken_job(Random(seed)), adjust=ticking()) for seed in seeds]
    assert sum(result.coverage["tick.taken back"] for result in results) > 4


def _handed_over(seed: int, guarantee: str = "exactly-once") -> Result:
    return simulate(seed, job=edited_job(Random(seed)), adjust=promising(guarantee, handing_over()))


@pytest.mark.parametrize("first", chunks(0, 1000, 100, at_push=100))
def test_another_job_goes_on_from_a_cut_whatever_crashes(first: int) -> None:
    results = [_handed_over(seed) for seed in range(first, first + 100)]
    assert sum(result.coverage["job.handed over"] for result in results) > 50


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", STRICT)
def test_another_job_goes_on_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [_handed_over(seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["job.handed over"] for result in results) > 8
