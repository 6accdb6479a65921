"""Simulated journals: one durable log a front, with seals.

An append becomes durable some time after it was asked for, in order; a seal fixes which entries of older
fences count: those that were durable at that moment, for ever. What a zombie appends later never counts. A
full disk fails appends for a while: the writer is told, the entries stay queued in order, and become durable
when there is room. An answer may be lost: then the same is asked again, and done already. An entry may be
damaged: whoever seals the journal and needs it says so, and the data is lost.

Keeps a full history besides, which no trim shortens, as the oracle of what has entered.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import (
    Entry,
    Event,
    JournalAppended,
    JournalFailed,
    JournalSealed,
    SourceFailed,
)
from flamestream.model.ids import NO_FENCE, Fence
from flamestream.model.time import FrontId, Time
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

Post = Callable[[Event], None]
MAX_QUEUED = 5_000


@dataclass(slots=True)
class Log:
    """The durable part of one front's journal."""

    sealed: Fence = NO_FENCE
    entries: list[Entry] = field(default_factory=list)
    history: list[Entry] = field(default_factory=list)
    trimmed: Time = Time(0)
    full_until: int = 0
    damaged: set[Time] = field(default_factory=set)
    """Entries that nobody can read any more."""


@dataclass(slots=True)
class _Writer:
    """The queue of one process for one front."""

    queue: list[tuple[Fence, Entry]] = field(default_factory=list)
    busy: bool = False
    failed: bool = False


class Journals:
    """The durable side of all journals. They outlive every process."""

    def __init__(self, world: World, delay: int, fronts: list[FrontId], answers: int) -> None:
        """`answers`: the longest from an entry that is durable to the answer that says so, which may be long behind a
        takeover."""
        self.world = world
        self.delay, self.answers = delay, answers
        self.logs = defaultdict(Log, {front: Log() for front in fronts})
        """Those of timed fronts too, once their source is gone and somebody asks."""
        self.durable: Callable[[FrontId, Entry], None] = lambda front, entry: None

    def write(self, front: FrontId, fence: Fence, entry: Entry) -> bool:
        """Make `entry` count, unless a newer fence has sealed the log. False if it never will."""
        log = self.logs[front]
        if fence < log.sealed:
            self.world.trace.cover("journal.zombie append refused")
            return False
        if log.entries and entry.time <= log.entries[-1].time:  # done already: the answer was lost
            return True
        log.entries.append(entry)
        log.history.append(entry)
        self.durable(front, entry)
        return True

    def seal(self, front: FrontId, fence: Fence, cut: Time) -> list[Entry] | None:
        """The entries that count, at or above `cut`; None if a newer fence has sealed already."""
        log = self.logs[front]
        if fence < log.sealed:
            return None
        log.sealed = fence  # (!) what older ones append from here on never counts
        self.world.require(
            cut >= log.trimmed,
            "5 commit",
            f"front {front} is to replay from {cut}, its journal begins at {log.trimmed}",
        )
        entries = log.entries[bisect_left(log.entries, cut, key=lambda e: e.time) :]
        self.world.trace.cover("journal.replayed" if entries else "journal.empty")
        return entries

    def trim(self, front: FrontId, fence: Fence, before: Time) -> None:
        """Forget entries below `before`."""
        log = self.logs[front]
        if fence >= log.sealed and before > log.trimmed:
            log.trimmed = before
            del log.entries[: bisect_left(log.entries, before, key=lambda e: e.time)]
            self.world.trace.cover("journal.trimmed")

    def fill_random(self, lasts: int) -> None:
        """Fill the disk of a random front for a while."""
        if self.logs:
            front = self.world.rng.choice(sorted(self.logs))
            self.logs[front].full_until = self.world.now + lasts
            self.world.faults.happened(Fault.JOURNAL_FULL)

    def damage_random(self) -> None:
        """Damage a random entry that is still kept."""
        kept = [(front, entry.time) for front, log in sorted(self.logs.items()) for entry in log.entries]
        if kept:
            front, time = self.world.rng.choice(kept)
            self.logs[front].damaged.add(time)
            self.world.faults.happened(Fault.JOURNAL_DAMAGE)

    def heal(self) -> None:
        """There is room again. Damage stays."""
        for log in self.logs.values():
            log.full_until = 0


class JournalPort:
    """The access of one worker process to the journals (`ports.Journal`)."""

    def __init__(self, journals: Journals, post: Post) -> None:
        self._journals = journals
        self._world = journals.world
        self._post = post
        self._writers: dict[FrontId, _Writer] = {}
        self._alive = True

    def close(self) -> None:
        """The process is gone. What was under way may still become durable (it may have been on its way to
        the disk)."""
        self._alive = False
        for writer in self._writers.values():
            # some of it was on its way to the disk
            del writer.queue[self._world.between(0, len(writer.queue) + 1) :]

    def seal(self, action: SealJournal) -> None:
        """Answered after a while."""
        self._world.after(self._delay(), self._seal, action)

    def append(self, action: Append) -> None:
        """Queued; durable in order."""
        writer = self._writers.setdefault(action.front, _Writer())
        writer.queue.append((action.fence, action.entry))
        self._world.require(
            len(writer.queue) <= MAX_QUEUED,
            "8 bounds",
            f"{len(writer.queue)} appends of front {action.front} are queued",
        )
        if not writer.busy:
            writer.busy = True
            self._world.after(self._delay(), self._flush, action.front, writer)

    def trim(self, action: TrimJournal) -> None:
        """At once: nobody waits for it."""
        self._journals.trim(action.front, action.fence, action.before)

    def _delay(self) -> int:
        delay = self._journals.delay
        usual = self._world.between(delay // 2, 2 * delay)
        return usual * 20 if self._world.hits(Fault.JOURNAL_SLOW) else usual

    def _seal(self, action: SealJournal) -> None:
        if not self._alive:
            return
        entries = self._journals.seal(action.front, action.fence, action.cut)
        if entries is None:
            self._say(JournalFailed(action.fence, action.front, "a newer attempt has sealed it"))
        elif self._world.hits(Fault.JOURNAL_ANSWER_LOST):
            self._say(JournalFailed(action.fence, action.front, "no answer; it is tried again"))
            self._world.after(20 * self._delay(), self._seal, action)
        else:
            self._world.after(
                self._world.between(0, self._journals.delay), self._say, self._sealed(action, entries)
            )

    def _sealed(self, action: SealJournal, entries: list[Entry]) -> Event:
        damaged = self._journals.logs[action.front].damaged
        if any(entry.time in damaged for entry in entries):
            return SourceFailed(
                action.fence, action.front, "corrupt", f"{name_of_journal(action.front)} is damaged"
            )
        return JournalSealed(action.fence, action.front, entries)

    def _flush(self, front: FrontId, writer: _Writer) -> None:
        """Some of the queue becomes durable, and its newest time is reported."""
        if self._world.now < self._journals.logs[front].full_until:
            if not writer.failed and writer.queue:
                writer.failed = True
                self._say(JournalFailed(writer.queue[0][0], front, "no space left on device"))
            self._world.after(2 * self._delay(), self._flush, front, writer)
            return
        writer.failed = False
        count = self._world.between(1, len(writer.queue) + 1)
        batch, writer.queue = writer.queue[:count], writer.queue[count:]
        written = [(fence, entry) for fence, entry in batch if self._journals.write(front, fence, entry)]
        if written and self._world.hits(Fault.JOURNAL_ANSWER_LOST):
            self._say(JournalFailed(written[-1][0], front, "no answer; it is tried again"))
            # It is durable already: asked for again, `write` only says so.
            writer.queue[:0] = batch
            self._world.after(20 * self._delay(), self._flush, front, writer)
            return
        if written:
            fence, newest = written[-1]
            self._world.after(
                self._world.between(0, self._journals.answers),
                self._say,
                JournalAppended(fence, front, newest.time),
            )
        writer.busy = bool(writer.queue)
        if writer.busy:
            self._world.after(self._delay(), self._flush, front, writer)

    def _say(self, event: Event) -> None:
        if self._alive:
            self._post(event)


def name_of_journal(front: FrontId) -> str:
    """A front's journal as messages call it."""
    return f"journal of front {front}"
