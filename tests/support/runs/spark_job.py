"""Two worker tasks in a real Spark that leave traces of their lives (lives.py), and how a test watches
them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flamestream.model.errors import Retryable
from flamestream.spark.streaming.session import SparkDriver, SparkSettings
from flamestream.spark.streaming.streaming import WorkerTasks, run_workers
from support.eventually import eventually
from support.processes import alive
from support.runs.lives import Trace, live, newest

TESTS = Path(__file__).parents[2]


@dataclass(slots=True)
class Job:
    """Two worker tasks that leave traces in `folder`."""

    driver: SparkDriver
    folder: Path
    tasks: WorkerTasks
    ended: list[Retryable | None]

    def settled(self) -> dict[int, Trace]:
        """Both tasks' newest lives, once both are alive."""
        return eventually(self._both_alive, "both tasks run", within=90)

    def again(self, index: int, before: Trace) -> Trace:
        """The life of a task after `before`."""
        return eventually(lambda: self._after(index, before), f"task {index} is started again", within=90)

    def told_to_stop(self, code: int = 0) -> None:
        (self.folder / "stop").write_text(str(code))

    def _both_alive(self) -> dict[int, Trace] | None:
        now = newest(self.folder)
        return now if len(now) == 2 and all(alive(trace.pid) for trace in now.values()) else None

    def _after(self, index: int, before: Trace) -> Trace | None:
        now = newest(self.folder).get(index)
        return now if now and now.name != before.name else None


Start = Callable[[SparkDriver], Job]


def settings_in(folder: Path, master: str = "") -> SparkSettings:
    return SparkSettings(workers=2, scratch=folder / "spark", master=master, python_path=(TESTS,))


def started_in(folder: Path) -> Iterator[Start]:
    """The body of a fixture: a function that starts a job, which ends with the test."""
    started: list[Job] = []

    def job(driver: SparkDriver) -> Job:
        traces = folder / "lives"
        traces.mkdir()
        ended: list[Retryable | None] = []
        started.append(
            Job(
                driver,
                traces,
                run_workers(driver.context, 2, partial(live, str(traces)), ended.append),
                ended,
            )
        )
        return started[-1]

    yield job
    for one in started:
        one.tasks.stop()
