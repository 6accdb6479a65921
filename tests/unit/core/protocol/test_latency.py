"""Latencies are counted in classes: quantiles are right to a class, and only the last minute counts where
that is asked."""

import random

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.protocol.latency import BOUNDS, WINDOW, Latency, Recent, quantile


@given(st.lists(st.integers(0, 29_000_000), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_is_in_the_class_of_the_true_one(samples: list[int], share: float) -> None:
    latency = Latency()
    for sample in samples:
        latency.observe(sample)
    ordered = sorted(samples)
    true = ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))] / 1000
    place = next(at for at, bound in enumerate(BOUNDS) if true <= bound)
    low = BOUNDS[place - 1] if place else 0
    assert low <= quantile(latency.counts, share) <= BOUNDS[place]


def test_nothing_is_no_latency() -> None:
    assert quantile(Latency().counts, 0.99) == 0


def test_what_is_older_than_a_minute_does_not_count() -> None:
    latency, recent = Latency(), Recent()
    for second in range(200):
        latency.observe(900_000 if second < 60 else random.Random(second).randrange(1000, 3000))
        recent.take(second * 1_000_000, latency.counts)
    assert quantile(latency.counts, 0.99) > 500
    assert quantile(recent.counts(latency.counts), 0.99) <= 3
    assert sum(recent.counts(latency.counts)) <= WINDOW / 1_000_000 + 11


def test_all_of_the_last_minute_counts_from_its_oldest_mark() -> None:
    recent = Recent()
    recent.take(0, [1])
    recent.take(WINDOW // 2, [5])
    assert recent.counts([7]) == [6]
    recent.take(WINDOW + 1, [8])
    assert recent.counts([9]) == [4]
