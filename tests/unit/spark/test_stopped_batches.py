"""A micro-batch query that is stopped while a batch is computed has not failed."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.model.errors import FlameStreamError, Retryable, UserError
from flamestream.spark.frames.microbatch import MicroBatches


class Failing(MicroBatches):
    """Its first batch fails, where `stopped` as a stop ends it."""

    def __init__(self, error: FlameStreamError, *, stopped: bool) -> None:
        self._over, self._error = threading.Event(), None
        self._committed: Any = SimpleNamespace(record=SimpleNamespace(committed=0))
        self._fails_with, self._stopped = error, stopped

    def _cut(self, number: int) -> Any:
        return number

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
