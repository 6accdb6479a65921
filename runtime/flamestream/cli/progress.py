"""The progress of a job, in a line or on a screen, from status.json.

Does not: ask anybody. What the coordinator has not written is not shown.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.table import Table

from flamestream.cli.output import errors
from flamestream.job.status import JobStatus
from flamestream.model.time import moment
from flamestream.node.run_folder import RunFolder


def line(status: JobStatus, per_second: float | None) -> str:
    """Everything in one line."""
    parts = [
        status.phase,
        f"attempt {status.attempt}",
        f"epoch {status.epoch}",
        f"{status.items_in:,} in",
        f"{status.items_out:,} out",
    ]
    if per_second is not None:
        parts.append(f"{per_second:,.0f} items/s")
    if status.latency is not None and status.latency.calls:
        parts.append(
            f"latency {status.latency.p50_ms:.0f} ms (p99 {status.latency.p99_ms:.0f}) of the last minute"
        )
    return "  ".join([*parts, *status.problems])


def table(status: JobStatus, pids: dict[str, int]) -> Table:
    """A row a worker."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("worker", "pid", "in", "out", "minimal time", "settled", ""):
        grid.add_column(heading, justify="left" if heading in ("worker", "") else "right")
    for worker in status.workers:
        figures = (
            f"{worker.items_in:,}",
            f"{worker.items_out:,}",
            moment(worker.minimal),
            moment(worker.settled),
        )
        grid.add_row(worker.worker, str(pids.get(worker.worker, "")), *figures, worker.problem)
    for name in status.standbys:
        grid.add_row(name, str(pids.get(name, "")), "", "", "", "", "standby")
    return grid


@contextmanager
def progress_line(folder: RunFolder, shown: bool) -> Iterator[Callable[[], None]]:
    """A line on the terminal that follows the job: gives the function that shows what is new, which is silent
    unless `shown`."""
    if not shown:
        yield lambda: None
        return
    last: tuple[float, int] | None = None
    with errors.status("starting") as spinner:

        def look() -> None:
            nonlocal last
            if (status := folder.status()) is None:
                return
            now, rate = time.monotonic(), None
            if last is not None and now > last[0]:
                rate = max(0.0, (status.items_out - last[1]) / (now - last[0]))
            last = now, status.items_out
            spinner.update(line(status, rate))

        yield look
