"""A process with a journal in a folder, driven by hand."""

from pathlib import Path

from flamestream.adapters.journal import FolderJournal
from flamestream.adapters.reactor import EpollReactor
from flamestream.core.actions import Append, SealJournal, TrimJournal
from flamestream.core.events import Entry, Event, JournalAppended, JournalSealed
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.time import FrontId, Time
from support.loops import turn_until

FRONT = FrontId(3)


def fence(attempt: int) -> Fence:
    return Fence(Attempt(attempt), LayoutVersion(attempt))


def entry(time: int, payloads: bytes = b"") -> Entry:
    return Entry(Time(time), Partition("docs"), Offset(time * 10), 2, payloads)


class Worker:
    """A process with a journal, driven by hand."""

    def __init__(
        self, loop: EpollReactor, root: Path, attempt: int, *, fsync: bool = False, rotate: int = 1 << 20, keep: bool = False
    ) -> None:
        self.loop = loop
        self.fence = fence(attempt)
        self.events: list[Event] = []
        self.journal = FolderJournal(root, loop, self.events.append, fsync=fsync, rotate=rotate, keep=keep)

    def seal(self, cut: int = 0) -> list[int]:
        self.journal.seal(SealJournal(self.fence, FRONT, Time(cut)))
        event = self.next()
        assert isinstance(event, JournalSealed), event
        assert event.fence == self.fence
        return [e.time for e in event.entries]

    def append(self, *times: int) -> Event:
        for time in times:
            self.journal.append(Append(self.fence, FRONT, entry(time)))
        return self.next()

    def trim(self, before: int) -> None:
        done: list[object] = []
        self.journal.trim(TrimJournal(self.fence, FRONT, Time(before)))
        self.loop.background(lambda: None, done.append)
        turn_until(self.loop, lambda: done, "helpers have caught up")

    def next(self) -> Event:
        turn_until(self.loop, lambda: self.events, "an event")
        return self.events.pop(0)

    def appended(self, time: int) -> JournalAppended:
        return JournalAppended(self.fence, FRONT, Time(time))
