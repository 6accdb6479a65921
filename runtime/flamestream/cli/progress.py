"""What a job is doing, in a line or on a screen, from status.json.

Does not: ask anybody. What the coordinator has not written is not shown.
"""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.status import Status as Spinner
from rich.table import Table

from flamestream.cli.output import errors
from flamestream.job.status import JobStatus
from flamestream.model.decoding import from_json
from flamestream.model.time import END, timestamp_of
from flamestream.node.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Figures:
    """What changes from look to look."""

    items_in: int
    items_out: int


def status_of(folder: RunFolder) -> JobStatus | None:
    """The newest status; None before the first."""
    try:
        return from_json(folder.status_file.read_bytes(), JobStatus)
    except FileNotFoundError:
        return None


def figures_of(status: JobStatus) -> Figures:
    """Sums over all workers that there were."""
    return Figures(status.items_in, status.items_out)


def line(status: JobStatus, per_second: float | None) -> str:
    """Everything in one line."""
    figures = figures_of(status)
    parts = [status.phase, f"attempt {status.attempt}", f"epoch {status.epoch}", f"{figures.items_in:,} in", f"{figures.items_out:,} out"]
    if per_second is not None:
        parts.append(f"{per_second:,.0f} items/s")
    if status.latency is not None and status.latency.calls:
        parts.append(f"latency {status.latency.p50_ms:.0f} ms (p99 {status.latency.p99_ms:.0f}) of the last minute")
    return "  ".join([*parts, *status.problems])


def moment(timestamp: int) -> str:
    """A timestamp, or that there is nothing after it."""
    return "end" if timestamp >= timestamp_of(END) else str(timestamp)


def table(status: JobStatus, pids: dict[str, int]) -> Table:
    """A row a worker."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("worker", "pid", "in", "out", "minimal time", "settled", ""):
        grid.add_column(heading, justify="left" if heading in ("worker", "") else "right")
    for worker in status.workers:
        figures = (f"{worker.items_in:,}", f"{worker.items_out:,}", moment(worker.minimal), moment(worker.settled))
        grid.add_row(worker.worker, str(pids.get(worker.worker, "")), *figures, worker.problem)
    for name in status.standbys:
        grid.add_row(name, str(pids.get(name, "")), "", "", "", "", "standby")
    return grid


class ProgressLine:
    """A line on the terminal that follows the job; silent when `shown` is false."""

    def __init__(self, folder: RunFolder, shown: bool) -> None:
        self._folder = folder
        self._spinner: Spinner | None = errors.status("starting") if shown else None
        self._last: tuple[float, int] | None = None

    def look(self) -> None:
        """Show what is new."""
        status = status_of(self._folder) if self._spinner is not None else None
        if status is None or self._spinner is None:
            return
        now, count = time.monotonic(), figures_of(status).items_out
        rate = None
        if self._last is not None and now > self._last[0]:
            rate = max(0.0, (count - self._last[1]) / (now - self._last[0]))
        self._last = now, count
        self._spinner.update(line(status, rate))

    def __enter__(self) -> Self:
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._spinner is not None:
            self._spinner.stop()
