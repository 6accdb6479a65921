"""A process with a journal, driven by hand."""

from collections.abc import Callable

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import Entry, Event, JournalAppended, JournalSealed
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.time import FrontId, Time
from flamestream.ports import Journal, Post
from support.loops import turn_until

FRONT = FrontId(3)


def fence(attempt: int) -> Fence:
    return Fence(Attempt(attempt), LayoutVersion(attempt))


def entry(time: int, payloads: bytes = b"") -> Entry:
    """The next offset is not right behind it, as in a topic with gaps."""
    return Entry(Time(time), Partition("docs"), Offset(time * 10), 2, payloads, Offset(time * 10 + 7))


class Worker:
    """Its journal is what `build` makes."""

    def __init__(self, loop: EpollReactor, attempt: int, build: Callable[[Post], Journal]) -> None:
        self.loop, self.fence = loop, fence(attempt)
        self.events: list[Event] = []
        self.journal = build(self.events.append)

    def seal(self, cut: int = 0) -> list[int]:
        """Times of what counts."""
        return [each.time for each in self.sealed(cut)]

    def sealed(self, cut: int = 0) -> list[Entry]:
        self.ask_to_seal(cut)
        event = self.next()
        assert isinstance(event, JournalSealed), event
        assert event.fence == self.fence
        return list(event.entries)

    def ask_to_seal(self, cut: int = 0) -> None:
        self.journal.seal(SealJournal(self.fence, FRONT, Time(cut)))

    def append(self, *times: int) -> Event:
        """The first answer."""
        self.ask(*times)
        return self.next()

    def ask(self, *times: int, payloads: bytes = b"") -> None:
        for time in times:
            self.journal.append(Append(self.fence, FRONT, entry(time, payloads)))

    def ask_to_trim(self, before: int) -> None:
        self.journal.trim(TrimJournal(self.fence, FRONT, Time(before)))

    def next(self) -> Event:
        turn_until(self.loop, lambda: self.events, "an event")
        return self.events.pop(0)

    def reported(self, upto: int) -> list[Event]:
        """Wait until everything up to this time is durable. What was said before."""
        before: list[Event] = []
        while not (isinstance(event := self.next(), JournalAppended) and event.time >= upto):
            before.append(event)
        return before

    def wrote(self, time: int) -> list[Event]:
        """As `ask`, and `reported`."""
        self.ask(time)
        return self.reported(time)

    def appended(self, time: int) -> JournalAppended:
        return JournalAppended(self.fence, FRONT, Time(time))
