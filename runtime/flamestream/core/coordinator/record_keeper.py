"""The record keeper: the coordinator's one hand on the job record.

One request is under way at a time. A write whose outcome is unknown is settled before anything else is
decided: read; if what is there is what was written, it took effect; if the version is still the old one, the
same record is written again (so a write that was under way all the time and lands late is that same record);
otherwise somebody else has written. `JobRecord.writer` makes the comparison safe.

Keeps: nothing is believed written or not written before it is known (invariant 5); every write is a
compare-and-set against the version that was read, so a coordinator that has been overtaken changes nothing
(invariant 6). Does not: decide what to write.
"""

import enum
from collections.abc import Callable

from flamestream.core.coordinator.coordination import (
    ReadRecord,
    RecordConflict,
    RecordRead,
    RecordUnknown,
    RecordWritten,
    WriteRecord,
)
from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.coordinator.instructions import Instructions
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.time import Instant

RecordEvent = RecordRead | RecordWritten | RecordConflict | RecordUnknown


class News(enum.Enum):
    """The meaning of an answer."""

    NOTHING = enum.auto()
    READ = enum.auto()
    """The record is known for the first time."""
    WRITTEN = enum.auto()
    """My write took effect."""
    CHANGED = enum.auto()
    """Somebody else has written since it was read."""
    OVERTAKEN = enum.auto()
    """Somebody else has written, and my write did not take effect."""


class RecordKeeper:
    """`record` and `version` as known. Write only when `idle`."""

    def __init__(self, instructions: Instructions, deadlines: Deadlines, retry_us: int) -> None:
        self.record: JobRecord | None = None
        self.version: int | None = None
        self.known = False
        self.has_written = False
        """A write of mine has taken effect: whoever writes after it has read it, and so has taken over."""
        self.problem = ""
        self._instructions, self._deadlines, self._retry = instructions, deadlines, retry_us
        self._asked = False
        self._writing: JobRecord | None = None
        self._then: Callable[[], None] | None = None
        self._conflict = False
        self._read_at: Instant | None = None

    @property
    def idle(self) -> bool:
        """Whether the record is known, and no request is under way."""
        return self.known and not self._asked and self._writing is None and self._read_at is None

    def read(self) -> None:
        """Ask whether the record has changed, unless an answer is under way anyway."""
        if not self._asked:
            self._asked, self._read_at = True, None
            self._instructions.add(ReadRecord())

    def write(self, record: JobRecord, then: Callable[[], None]) -> None:
        """Write by compare-and-set. `then` is called once that has taken effect, never if not."""
        assert self.idle, "a write while another request is under way"
        self._writing, self._then = record, then
        self._send()

    def go_on(self) -> None:
        """Ask for the first time, or again when it is time to."""
        if not self.known and self._read_at is None:
            self.read()
        if self._read_at is not None and self._deadlines.due(self._read_at):
            self.read()

    def hear(self, event: RecordEvent) -> News:
        """The answer to the request under way. `then` has been called if it is WRITTEN."""
        self._asked = False
        match event:
            case RecordWritten(version):
                return self._took_effect(version)
            case RecordConflict():
                # No verdict yet: what is there may be my own write, whose first answer was lost.
                self._conflict = True
                self.read()
                return News.NOTHING
            case RecordUnknown(message):
                self.problem = f"cluster state: {message}"
                self._read_later()
                return News.NOTHING
            case RecordRead(record, version):
                self.problem = ""
                return self._seen(record, version)

    def _seen(self, record: JobRecord | None, version: int | None) -> News:
        # `writer` tells it from anybody else's (!); the version moves also where the record is written as it
        # was.
        if self._writing is not None and record == self._writing and version != self.version:
            assert version is not None, "a record without a version"
            return self._took_effect(version)
        if self.known and version == self.version:
            return self._unchanged()
        first, overtaken = not self.known, self._writing is not None
        self.record, self.version, self.known = record, version, True
        self._writing = self._then = None
        self._conflict = False
        if first:
            return News.READ
        return News.OVERTAKEN if overtaken else News.CHANGED

    def _unchanged(self) -> News:
        """My write has not taken effect (yet). After a conflict that is a stale read, so read again rather
        than write."""
        if self._writing is not None and self._conflict:
            self._read_later()
        elif self._writing is not None:
            # the same record again: if the first lands late after all, it is that same record (!)
            self._send()
        self._conflict = False
        return News.NOTHING

    def _took_effect(self, version: int) -> News:
        assert self._writing is not None, "an answer to a write that was not asked for"
        self.record, self.version, self.has_written = self._writing, version, True
        # cleared before it is called: the continuation may write again
        then, self._writing, self._then = self._then, None, None
        self._conflict, self.problem = False, ""
        assert then is not None, "a write without a continuation"
        then()
        return News.WRITTEN

    def _send(self) -> None:
        assert self._writing is not None, "nothing to write"
        self._asked = True
        self._instructions.add(WriteRecord(self._writing, self.version))

    def _read_later(self) -> None:
        self._read_at = Instant(self._deadlines.now + self._retry)
