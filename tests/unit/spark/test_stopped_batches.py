"""A micro-batch query that is stopped while a batch is computed has not failed, and one that is drained commits it."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.model.errors import FlameStreamError, Retryable, UserError
from flamestream.spark.frames.microbatch import MicroBatches


class Beside(MicroBatches):
    """Without Spark."""

    def __init__(self) -> None:
        self._over, self._draining, self._error = threading.Event(), threading.Event(), None
        self._committed: Any = SimpleNamespace(record=SimpleNamespace(cut=0))
        self._end = None

    def _cut(self, number: int) -> Any:
        return number


class Failing(Beside):
    """Its first batch fails, where `stopped` as a stop ends it."""

    def __init__(self, error: FlameStreamError, *, stopped: bool) -> None:
        super().__init__()
        self._fails_with, self._stopped = error, stopped

    def _compute(self, rows: Any, epoch: int, cut: Any) -> None:
        if self._stopped:
            self.stop()
        raise self._fails_with


@pytest.mark.parametrize(
    ("error", "stopped", "told"),
    [
        (Retryable("Spark gave up: java.lang.InterruptedException"), True, False),
        (Retryable("Spark gave up: java.lang.OutOfMemoryError"), False, True),
        (UserError("no number"), True, True),
    ],
)
def test_what_a_stop_interrupts_is_no_failure(error: FlameStreamError, stopped: bool, told: bool) -> None:
    batches = Failing(error, stopped=stopped)
    with pytest.raises(type(error)):  # or Spark would write down as done what nobody has computed
        batches._batch(None, 1, 0)
    assert batches._error is (error if told else None)


class Drained(Beside):
    """A signal comes while its first batch is computed."""

    computed = 0

    def _compute(self, rows: Any, epoch: int, cut: Any) -> None:
        self.drain()
        assert self._busy and not self._over.is_set(), "a drain waits for it"
        self.computed += 1


def test_a_drain_lets_the_batch_at_hand_commit_and_no_other_one_begin() -> None:
    batches = Drained()
    batches._batch(None, 1, 0)
    assert batches._over.is_set() and batches._error is None
    with pytest.raises(Exception, match="batch 1 began when the run was over"):
        batches._batch(None, 2, 1)
    assert batches.computed == 1


def test_a_drain_between_two_batches_is_over_before_the_next_one() -> None:
    batches = Drained()
    batches.drain()
    with pytest.raises(Exception, match="batch 0 began when the run was over"):
        batches._batch(None, 1, 0)
    assert batches._over.is_set() and batches.computed == 0
