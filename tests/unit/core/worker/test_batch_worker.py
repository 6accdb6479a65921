"""A batch worker under the real coordinator: whatever dies and whichever links break, each result is
delivered once, of the state that is right."""

from typing import Any

import pytest

from flamestream.core.protocol import messages as msg
from flamestream.core.worker.batch_worker import BatchDone, BatchWorker, behind
from support.core.batch_bench import STEP, BatchBench


def expected(bench: BatchBench) -> list[tuple[int, int]]:
    sums, total = [], 0
    for time in bench.times:
        total += time // STEP
        sums.append((time, total))
    return sums


@pytest.mark.parametrize("seed", range(150))
def test_each_result_is_delivered_once_through_any_schedule(seed: int) -> None:
    bench = BatchBench(seed)
    assert bench.run() == "completed"
    assert bench.consumer.had == expected(bench)


@pytest.mark.parametrize("seed", range(30))
def test_a_drain_ends_at_an_epoch_with_nothing_delivered_above_it(seed: int) -> None:
    bench = BatchBench(seed, faults=False, runs=200)
    for _ in range(100):
        bench.rng.choice(bench._all_steps())()
    bench.drain()
    assert bench.run() == "drained"
    cut = bench.bench.record.cut
    assert bench.consumer.had == [each for each in expected(bench) if each[0] < cut]


class AdvancesWhenItAccepts(BatchWorker):
    """An epoch may abort."""

    def _accept(self, batch: BatchDone) -> None:
        assert self._announced is not None
        self._committed = behind(self._committed, batch, self._announced, None)
        super()._accept(batch)
        self._batch = None


class TakesAnyCommit(BatchWorker):
    """The coordinator tells again what was committed before this batch."""

    def _hear_attempt(self, message: Any) -> None:
        if isinstance(message, msg.Committed):
            self._accepted = message.epoch
        super()._hear_attempt(message)


class ForgetsWhatIsCommitted(BatchWorker):
    """A recovery begins at what is committed, not at the beginning."""

    def _begin(self, index: Any) -> None:
        super()._begin(None)


@pytest.mark.parametrize("kind", [AdvancesWhenItAccepts, TakesAnyCommit, ForgetsWhatIsCommitted])
def test_a_broken_worker_is_caught(kind: type[BatchWorker]) -> None:
    def is_right(seed: int) -> bool:
        bench = BatchBench(seed, kind)
        try:
            return bench.run() == "completed" and bench.consumer.had == expected(bench)
        except (AssertionError, ValueError):
            return False

    assert not all(is_right(seed) for seed in range(150))
