"""The simulated job record: compare-and-set on one versioned record, with lost answers and lost sessions.

Every write that takes effect is shown to the invariants first. Requests of one coordinator are answered in order, once each.
"""

from collections.abc import Callable

from flamestream.core.coordination import Event, RecordConflict, RecordRead, RecordUnknown, RecordWritten
from flamestream.core.job_record import JobRecord
from flamestream.testing.faults import Fault
from flamestream.testing.world import World

Answer = Callable[[Event], None]


class Records:
    """The record's home. It outlives every process."""

    def __init__(self, world: World, delay: int) -> None:
        self._world = world
        self._delay = delay
        self.record: JobRecord | None = None
        self.version: int | None = None
        self.written: Callable[[JobRecord | None, JobRecord], None] = lambda old, new: None

    def read(self, answer: Answer) -> None:
        """Answer: RecordRead or RecordUnknown."""
        if self._world.hits(Fault.RECORD_AWAY):
            self._world.after(self._time() * 5, answer, RecordUnknown("no answer"))
        else:
            self._world.after(self._time(), lambda: self._later(answer, RecordRead(self.record, self.version)))

    def compare_and_set(self, record: JobRecord, version: int | None, answer: Answer) -> None:
        """Answer: RecordWritten, RecordConflict or RecordUnknown."""
        if self._world.hits(Fault.RECORD_AWAY):
            self._world.after(self._time() * 5, answer, RecordUnknown("no answer, nothing written"))
        else:
            self._world.after(self._time(), self._write, record, version, answer)

    def fits(self, version: int | None) -> bool:
        """Whether a writer has seen the newest version."""
        return version == self.version

    def _time(self) -> int:
        return self._world.between(self._delay // 2, 2 * self._delay)

    def _later(self, answer: Answer, event: Event) -> None:
        self._world.after(self._time(), answer, event)

    def _write(self, record: JobRecord, version: int | None, answer: Answer) -> None:
        if not self.fits(version):
            self._world.trace.cover("record.conflict")
            self._later(answer, RecordConflict())
            return
        self.written(self.record, record)
        self.record, self.version = record, (self.version or 0) + 1
        if self._world.hits(Fault.RECORD_UNKNOWN):
            self._later(answer, RecordUnknown("connection lost after the request was sent"))
        else:
            self._later(answer, RecordWritten(self.version))
