"""An hour of samples in memory: exact, and small."""

import random

from flamestream.node.samples import MOST, Sample
from flamestream_operator.coordination.hours import MINUTE, Hour

SECOND = 1_000_000
BEGAN = 1_700_000_000 * SECOND


def noise(second: int, chance: random.Random) -> Sample:
    """All figures of a busy job, as different from second to second as they can be."""
    p50, release = round(chance.uniform(2, 4), 2), round(chance.uniform(1, 3), 2)
    return Sample(
        at=BEGAN + second * SECOND + 1000 * chance.randrange(3), p50_ms=p50, p99_ms=round(chance.uniform(8, 20), 2),
        release_p50_ms=release, release_p99_ms=round(chance.uniform(5, 9), 2),
        items_in=round(chance.gauss(20_000, 500), 1), items_out=round(chance.gauss(19_000, 500), 1),
        gap_ms=round(chance.uniform(10, 60), 1), epoch=second, attempt=2, busy=round(chance.uniform(0.3, 0.5), 3),
        in_flight=chance.randrange(500), snapshot_size=1_000_000 + second * 37 % 5000,
    )  # fmt: skip


def test_each_sample_comes_out_as_it_went_in_and_an_hour_of_them_is_kept_in_80_kb() -> None:
    hour, chance = Hour(), random.Random(7)
    all_ = [noise(second, chance) for second in range(MOST + 100)]
    all_[3000] = Sample(at=all_[3000].at)  # nothing came, and nobody was there
    for each in all_:
        hour.add(each)
    kept = hour.behind()
    assert kept == all_[-len(kept) :] and MOST <= len(kept) < MOST + MINUTE
    assert hour.size < 80_000
    for number in (0, 3000, MOST, MOST + 50, MOST + 99):
        assert hour.behind(all_[number].at) == [each for each in kept if each.at > all_[number].at]


def test_an_hour_of_a_job_that_rests_is_kept_in_15_kb() -> None:
    hour = Hour()
    for second in range(MOST):
        hour.add(
            Sample(at=BEGAN + second * SECOND, items_in=0.0, items_out=0.0, busy=second % 9 / 1000, epoch=9)
        )
    assert hour.size < 15_000
