"""Samples: figures of a second, from what only grows."""

from flamestream.core.protocol.latency import BOUNDS, quantile
from flamestream.job.status import WorkerFigures
from flamestream.ui.samples import MOST, Sample, Samples
from support.runs.shown_job import BEGAN, SECOND, status

ONE_IN = [0] * (len(BOUNDS) + 1)


def counted(**by_bound: int) -> list[int]:
    """Counts with so many calls up to a bound of so many milliseconds."""
    counts = list(ONE_IN)
    for bound, count in by_bound.items():
        counts[BOUNDS.index(int(bound.lstrip("ms")))] = count
    return counts


def sampled(*told: object) -> Sample:
    samples = Samples()
    found = [samples.take(each) for each in told]  # type: ignore[arg-type]
    assert found[-1] is not None
    return found[-1]


def test_a_rate_is_what_has_come_in_a_second() -> None:
    found = sampled(
        status(items_in=100, items_out=50), status(BEGAN + 2 * SECOND, items_in=300, items_out=60)
    )
    assert (found.items_in, found.items_out) == (100.0, 5.0)


def test_what_another_coordinator_counts_is_no_rate() -> None:
    found = sampled(status(items_in=100), status(BEGAN + SECOND, items_in=3, pid=8))
    assert (found.items_in, found.items_out) == (None, None)


def test_percentiles_are_of_the_second_alone_and_of_all_workers() -> None:
    def worker(name: str, **by_bound: int) -> WorkerFigures:
        return WorkerFigures(worker=name, connected=True, latencies=counted(**by_bound))

    before = status(workers=[worker("a", ms1=1000), worker("b", ms1=5)])
    after = status(BEGAN + SECOND, workers=[worker("a", ms1=1000, ms50=3), worker("b", ms1=6)])
    found = sampled(before, after)
    assert found.p99_ms == quantile(counted(ms1=1, ms50=3), 0.99)
    assert found.p50_ms == quantile(counted(ms1=1, ms50=3), 0.5)


def test_a_worker_that_is_new_has_counted_since_then() -> None:
    new = WorkerFigures(worker="b", connected=True, latencies=counted(ms10=4))
    found = sampled(status(workers=[]), status(BEGAN + SECOND, workers=[new]))
    assert found.p50_ms == quantile(counted(ms10=4), 0.5)


def test_without_a_call_there_is_no_percentile() -> None:
    found = sampled(status(), status(BEGAN + SECOND))
    assert (found.p50_ms, found.p99_ms) == (None, None)


def test_a_gap_is_the_longest_that_ended_since_or_has_not_ended() -> None:
    gaps = [(BEGAN - SECOND, 900_000), (BEGAN + 300_000, 200_000), (BEGAN + 600_000, 50_000)]
    last = {"last_output": BEGAN + SECOND, "gaps": gaps}
    assert sampled(status(), status(BEGAN + SECOND, **last)).gap_ms == 200
    assert sampled(status(), status(BEGAN + 3 * SECOND, **last)).gap_ms == 2000


def test_statuses_that_follow_each_other_fast_make_one_sample() -> None:
    samples = Samples()
    for step in range(12):
        samples.take(status(BEGAN + step * SECOND // 5))
    assert len(samples.all()) == 2


def test_an_hour_is_kept() -> None:
    samples = Samples()
    for second in range(MOST + 10):
        samples.take(status(BEGAN + second * SECOND))
    assert len(samples.all()) == MOST
    assert samples.all()[-1].at == BEGAN + (MOST + 9) * SECOND
