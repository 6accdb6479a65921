"""The simulated job record: compare-and-set on one versioned record, with lost answers, lost sessions and
stale reads.

Every write that takes effect is shown to the invariants first. Requests of one coordinator are answered in
order, once each. A read may give an older version, as a server that lags behind would; but nobody is shown an
older one than was shown to him before.
"""

from collections.abc import Callable

from flamestream.core.coordinator.coordination import (
    Event,
    RecordConflict,
    RecordRead,
    RecordUnknown,
    RecordWritten,
)
from flamestream.core.protocol.job_record import JobRecord
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

Answer = Callable[[Event], None]


class Records:
    """The record's home. It outlives every process."""

    def __init__(self, world: World, delay: int) -> None:
        self._world = world
        self._delay = delay
        self.record: JobRecord | None = None
        self.version: int | None = None
        self.written: Callable[[JobRecord | None, JobRecord], None] = lambda old, new: None
        self._past: list[JobRecord | None] = [None]
        """The past records, by version."""
        self._shown: dict[str, int] = {}
        """The newest version that each reader has seen."""

    def read(self, reader: str, answer: Answer) -> None:
        """Answer: RecordRead or RecordUnknown."""
        if self._world.hits(Fault.RECORD_AWAY):
            self._world.after(self._time() * 5, answer, RecordUnknown("no answer"))
        else:
            self._world.after(self._time(), lambda: self._later(answer, self._seen_by(reader)))

    def compare_and_set(self, writer: str, record: JobRecord, version: int | None, answer: Answer) -> None:
        """Answer: RecordWritten, RecordConflict or RecordUnknown."""
        if self._world.hits(Fault.RECORD_AWAY):
            self._world.after(self._time() * 5, answer, RecordUnknown("no answer, nothing written"))
        else:
            self._world.after(self._time(), self._write, writer, record, version, answer)

    def fits(self, version: int | None) -> bool:
        """Whether a writer has seen the newest version."""
        return version == self.version

    def _time(self) -> int:
        return self._world.between(self._delay // 2, 2 * self._delay)

    def _later(self, answer: Answer, event: Event) -> None:
        self._world.after(self._time(), answer, event)

    def _seen_by(self, reader: str) -> RecordRead:
        newest, shown = len(self._past) - 1, self._shown.get(reader, 0)
        if shown < newest and self._world.hits(Fault.RECORD_STALE):
            newest = max(shown, newest - self._world.between(1, 4))
        self._shown[reader] = newest  # nobody is shown an older one than before (!)
        return RecordRead(self._past[newest], newest or None)

    def _write(self, writer: str, record: JobRecord, version: int | None, answer: Answer) -> None:
        if not self.fits(version):
            self._world.trace.cover("record.conflict")
            self._later(answer, RecordConflict())
            return
        self.written(self.record, record)  # the invariants first: they see what it replaces
        self.record, self.version = record, len(self._past)
        self._past.append(record)
        if self._world.hits(Fault.RECORD_UNKNOWN):
            # Not noted as shown: who heard nothing may next read an older record than his own.
            self._later(answer, RecordUnknown("connection lost after the request was sent"))
        else:
            self._shown[writer] = self.version
            self._later(answer, RecordWritten(self.version))
