"""A history of the jobs that this process coordinates: the newest lines of its log, and the marks that they make.

Keeps: MOST_LINES of all jobs, MOST_MARKS of each of MOST_JOBS; it takes a line's time only where a line is written.
Does not: outlive the process: another leader begins its own.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flamestream.machine.logs import JsonLines
from flamestream.ui.marks import Mark, mark_of, without_repeats

MOST_LINES: Final = 2000
MOST_MARKS: Final = 64
MOST_JOBS: Final = 5000


class History(logging.Handler):
    """A handler of log records; a record's field `job` says whose it is."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(JsonLines({"role": "coordinator"}))
        self._lines: deque[tuple[str, str]] = deque(maxlen=MOST_LINES)
        self._marks: dict[str, deque[Mark]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        job = getattr(record, "job", None)
        if not isinstance(job, str):
            return
        line = self.format(record)
        self._lines.append((job, line))
        if (mark := mark_of(line.encode())) is not None:
            known = self._marks.pop(job, None) or deque(maxlen=MOST_MARKS)
            known.append(mark)
            self._marks[job] = known  # the newest last: the first is forgotten first
            if len(self._marks) > MOST_JOBS:
                del self._marks[next(iter(self._marks))]

    def lines(self, *jobs: str) -> list[str]:
        """The lines of these names of a job."""
        with self._held():
            return [line for job, line in self._lines if job in jobs]

    def marks(self, *jobs: str) -> list[Mark]:
        """The marks of these names of a job."""
        with self._held():
            found = [mark for job in dict.fromkeys(jobs) for mark in self._marks.get(job, ())]
        return without_repeats(sorted(found, key=lambda mark: mark.at))

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()
