"""Stuck: a stream that does not go on although every worker is alive.

Two signs that a message was lost where nobody noticed, or nobody could tell the coordinator: the oldest cause
in flight stays the same (something that was sent is never acked), or a worker's minimal time stays behind the
acker's (it does not hear it any more).

Keeps: after faults stop, progress resumes (invariant 9). Does not: heal (healing.py).
"""

from collections.abc import Iterable

from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.protocol.messages import Progress
from flamestream.model.ids import WorkerId
from flamestream.model.time import END, START, Instant, Time, front_of


class Stuck:
    """The reports of one attempt's workers, and since when they are the same."""

    def __init__(self, deadlines: Deadlines, limit_us: int) -> None:
        self._deadlines, self._limit = deadlines, limit_us
        self.restart()

    def restart(self) -> None:
        """Begin anew: an attempt begins, or its workers were adopted."""
        self._oldest: tuple[Time, Instant] = (END, self._deadlines.now)
        self._acker = START
        self._behind: dict[WorkerId, tuple[Time, Instant]] = {}
        """Workers behind the acker: their minimal time, and since when it is that."""

    def hear(self, worker: WorkerId, report: Progress, *, acker: bool) -> None:
        """Take a report. What is in flight counts of the acker's worker only, minimal time of the others."""
        now = self._deadlines.now
        if acker:
            self._acker = report.minimal
            if report.oldest != self._oldest[0]:
                self._oldest = (report.oldest, now)
        elif report.minimal >= self._acker:  # it hears the acker
            self._behind.pop(worker, None)
        # one that is behind and moves is slow, not deaf: it is counted from here again
        elif self._behind.get(worker, (None, now))[0] != report.minimal:
            self._behind[worker] = (report.minimal, now)

    def sign(self, workers: Iterable[WorkerId]) -> str:
        """The sign that something does not go on; "" if all is well."""
        oldest, since = self._oldest
        if oldest != END and self._deadlines.due_in(since, self._limit):
            return f"the run at {oldest} (front {front_of(oldest)}) is in flight for {self._limit / 1e6:g} s"
        for worker in workers:
            if worker in self._behind and self._deadlines.due_in(self._behind[worker][1], self._limit):
                return (
                    f"{worker} has not heard that minimal time passed {self._behind[worker][0]} for "
                    f"{self._limit / 1e6:g} s"
                )
        return ""
