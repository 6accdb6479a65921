"""A worker's life in a Spark task: how it ends, and what follows."""

import pytest

from flamestream.model.errors import Retryable
from flamestream.spark.streaming.task import SHORT_LIFE, Life, WorkerMain, live

LIFE = Life(1, 3, "beef")


class Time:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.paused: list[float] = []

    def live(self, main: WorkerMain) -> None:
        live(main, LIFE, lambda: self.now, self.paused.append)

    def after(self, seconds: float, code: int) -> WorkerMain:
        """A worker that ends with `code` after so long."""

        def main(life: Life) -> int:
            assert life is LIFE
            self.now += seconds
            return code

        return main


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_worker_that_was_told_to_stop_ends_its_task_at_once(time: Time) -> None:
    time.live(time.after(0.1, 0))
    assert time.paused == []


def test_a_failure_makes_spark_start_another_life(time: Time) -> None:
    with pytest.raises(Retryable, match=r"worker w1\.3-beef ended with exit code 4"):
        time.live(time.after(10, 4))
    assert time.paused == []


def test_a_worker_that_fails_as_soon_as_it_starts_does_not_keep_a_core_busy(time: Time) -> None:
    with pytest.raises(Retryable):
        time.live(time.after(0.1, 1))
    assert time.paused == [SHORT_LIFE]


def test_one_that_raises_as_soon_as_it_starts_does_not_either(time: Time) -> None:
    def main(_: Life) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        time.live(main)
    assert time.paused == [SHORT_LIFE]
