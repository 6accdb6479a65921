"""Code that is changed while the job runs: every result is of one version of it, by the cut that its tick names."""

from random import Random

import pytest

from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.jobs.ticks import edited_job, ticking
from flamestream.simulation.kinds import OF_ONE_CUT, run
from flamestream.simulation.settings import Plan, promising
from flamestream.testing import simulate
from support.seeds import chunks

OTHERS = tuple(name for name in OF_ONE_CUT if name != "exactly-once")


@pytest.mark.parametrize("first", chunks(0, 1000, 50, at_push=50))
def test_each_result_is_of_one_version_whatever_crashes(first: int) -> None:
    results = [run("upgrades", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["tick.made"] for result in results) > 25


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", OTHERS)
def test_so_it_is_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [run("upgrades", seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["tick.made"] for result in results) > 8


def test_so_it_is_at_least_once_where_nobody_dies() -> None:
    """Else consumers that remember nothing may have got results above the cut already."""

    def without_faults(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.rates, faults.moments = {}, []
        return plan, faults

    direct = promising("at-least-once", ticking(without_faults))
    results = [simulate(seed, job=edited_job(Random(seed)), adjust=direct) for seed in range(40)]
    assert sum(result.coverage["tick.made"] for result in results) > 20


@pytest.mark.parametrize("first", chunks(0, 600, 50, at_push=50))
def test_sources_come_before_between_and_behind_others_whatever_crashes(first: int) -> None:
    results = [run("new-sources", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["front.began in a stream that ran"] for result in results) > 40


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", OTHERS)
def test_sources_come_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [run("new-sources", seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["tick.made"] for result in results) > 8


@pytest.mark.parametrize("first", chunks(0, 600, 50, at_push=50))
def test_code_that_kills_its_workers_goes_back_whatever_crashes(first: int) -> None:
    results = [run("fatal-code", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["tick.taken back"] for result in results) > 10


@pytest.mark.parametrize("first", chunks(0, 60, 30, at_push=30))
@pytest.mark.parametrize("guarantee", OTHERS)
def test_so_it_goes_back_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [run("fatal-code", seed, guarantee) for seed in range(first, first + 30)]
    assert sum(result.coverage["tick.taken back"] for result in results) > 1


@pytest.mark.parametrize("first", chunks(0, 100, 50, at_push=50))
def test_code_that_raises_goes_back_whatever_crashes(first: int) -> None:
    results = [run("raising-code", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["tick.taken back"] for result in results) > 4


@pytest.mark.parametrize("first", chunks(0, 1000, 50, at_push=50))
def test_another_job_goes_on_from_a_cut_whatever_crashes(first: int) -> None:
    results = [run("hand-overs", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["job.handed over"] for result in results) > 25


@pytest.mark.parametrize("first", chunks(0, 40, 20, at_push=20))
@pytest.mark.parametrize("guarantee", OTHERS)
def test_another_job_goes_on_under_every_guarantee(guarantee: str, first: int) -> None:
    results = [run("hand-overs", seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["job.handed over"] for result in results) > 8
