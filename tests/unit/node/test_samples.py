"""Samples: figures of a second, from what workers report."""

from typing import Any

import msgspec

from flamestream.core.protocol.latency import BOUNDS, quantile
from flamestream.core.protocol.messages import Progress
from flamestream.core.protocol.output_gaps import OutputGaps
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import END, START
from flamestream.node.samples import SILENT, Sample, Sampling

A, B = WorkerId("a"), WorkerId("b")
SECOND = 1_000_000
BEGAN = 1_700_000_000 * SECOND
NOW: dict[str, Any] = {"attempt": 2, "epoch": 7, "snapshot_size": 9, "busy": 0.5, "in_flight": 3}


def counted(**by_bound: int) -> list[int]:
    """Counts with so many calls up to a bound of so many milliseconds."""
    counts = [0] * (len(BOUNDS) + 1)
    for bound, count in by_bound.items():
        counts[BOUNDS.index(int(bound.lstrip("ms")))] = count
    return counts


class Seconds:
    """A coordinator that hears of workers, second by second."""

    def __init__(self) -> None:
        self.now, self.gaps = BEGAN, OutputGaps()
        self._sampling, self._last = Sampling(self.now, 0), dict[WorkerId, Progress]()

    def hears(self, worker: WorkerId, items_in: int = 0, items_out: int = 0, **more: Any) -> None:
        told = msgspec.structs.replace(Progress(NO_FENCE, START, START, END, items_in, items_out), **more)
        self._sampling.heard(worker, self._last.get(worker), told, self.now)
        self._last[worker] = told

    def loses(self, worker: WorkerId) -> None:
        self._sampling.left(worker)

    def over(self, seconds: float = 1) -> Sample:
        self.now += int(seconds * SECOND)
        return self._sampling.sample(self.now, self.now - BEGAN, self.gaps, **NOW)

    def quiet(self, seconds: float, *workers: WorkerId) -> None:
        """So long nothing happens; then these workers report."""
        self.now += int(seconds * SECOND)
        for worker in workers:
            self.hears(worker)


def test_a_rate_is_what_all_workers_have_done_in_a_second() -> None:
    job = Seconds()
    for worker in (A, B):
        job.hears(worker)
    job.hears(A, 50, 20)
    job.hears(A, 300, 40)
    job.hears(B, 100, 20, replayed=50)
    found = job.over(2)
    assert (found.items_in, found.items_out) == (175.0, 30.0)
    assert (job.over().items_in, job.over().items_out) == (0.0, 0.0)
    assert (found.at, found.epoch, found.attempt, found.snapshot_size) == (BEGAN + 2 * SECOND, 7, 2, 9)


def test_what_a_worker_has_done_for_another_coordinator_is_of_no_second() -> None:
    job = Seconds()
    job.hears(A, 10_000, 5_000, latency=counted(ms1=900), release=counted(ms1=900))
    assert (found := job.over()).items_in == 0.0 and found.p50_ms is None
    job.hears(A, 10_010, 5_000, latency=counted(ms1=900, ms50=1), release=counted(ms1=900))
    assert (found := job.over()).items_in == 10.0 and found.p50_ms == quantile(counted(ms50=1), 0.5)


def test_percentiles_are_of_the_second_alone_and_of_all_workers() -> None:
    job = Seconds()
    for worker, calls in ((A, 1000), (B, 5)):
        job.hears(worker, latency=counted(ms1=calls), release=counted(ms1=calls))
    job.over()
    job.hears(A, latency=counted(ms1=1000, ms50=3), release=counted(ms1=1001))
    job.hears(B, latency=counted(ms1=6), release=counted(ms1=5))
    found, together = job.over(), counted(ms1=1, ms50=3)
    assert (found.p50_ms, found.p99_ms) == (quantile(together, 0.5), quantile(together, 0.99))
    assert found.release_p50_ms == quantile(counted(ms1=1), 0.5)
    assert (job.over().p50_ms, job.over().release_p99_ms) == (None, None), "nothing came"


def test_the_first_counts_of_a_worker_that_has_told_of_none_are_of_its_second() -> None:
    job = Seconds()
    job.hears(A)
    job.hears(A, latency=counted(ms10=4), release=counted(ms10=4))
    assert job.over().p50_ms == quantile(counted(ms10=4), 0.5)


def test_a_worker_that_is_lost_counts_up_to_its_last_report() -> None:
    job = Seconds()
    job.hears(A)
    job.hears(A, 30)
    job.loses(A)
    assert job.over().items_in == 30.0


def test_a_gap_is_told_as_long_as_it_is_and_in_the_end_once() -> None:
    job = Seconds()
    job.gaps.gave(BEGAN, BEGAN + SECOND // 2)
    job.quiet(1, A)
    assert job.over(0).gap_ms == 500
    job.quiet(1, A)
    assert job.over(0).gap_ms == 1500
    job.gaps.gave(BEGAN + 2_200_000, BEGAN + 3_000_000)
    job.quiet(1, A)
    assert job.over(0).gap_ms == 1700
    job.gaps.gave(BEGAN + 3_000_000, BEGAN + 4_000_000)
    job.quiet(1, A)
    assert job.over(0).gap_ms == 0


def test_a_pause_in_what_some_have_told_is_no_gap_before_all_have() -> None:
    job = Seconds()
    job.gaps.gave(BEGAN, BEGAN + SECOND)
    job.quiet(1, A, B)
    job.over(0)
    job.gaps.gave(BEGAN + 1_600_000, BEGAN + 1_900_000)  # A's; B gave in between, and has not said so yet
    job.quiet(0.9, A)
    assert job.over(0.1).gap_ms == 0
    job.gaps.gave(BEGAN + SECOND, BEGAN + 2 * SECOND)
    job.quiet(0, A, B)
    assert job.over(1).gap_ms == 0


def test_a_worker_that_is_silent_hides_no_gap() -> None:
    job = Seconds()
    job.gaps.gave(BEGAN, BEGAN)
    job.quiet(0, A, B)
    job.quiet(SILENT / SECOND, A)
    assert job.over(0).gap_ms == SILENT / 1000
