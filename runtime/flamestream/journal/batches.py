"""A journal on a server: entries go there in batches, one batch of a front under way at a time.

Entries of one turn of the loop make a batch, and what arrives while it is under way makes the next. A batch
that the server could not take is sent again until it does; the worker is told once of each reason. What may
wait meanwhile is bounded by the fronts' credit.

Keeps: JournalAppended only for a batch that its writer says is durable and counts. Does not: know a server
(journal/zookeeper.py, journal/kafka.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import msgspec

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import Entry, JournalAppended, JournalFailed
from flamestream.journal.fronts import AGAIN, AWAY, Outage, SealedFronts
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.ids import Attempt, Fence, Offset, Partition
from flamestream.model.time import FrontId, Time
from flamestream.ports import Background, Post, Reactor, Timer

PATIENCE: Final = 2.0
"""Seconds without an answer before the trouble is told."""
AROUND_AN_ENTRY: Final = 64
"""Bytes of an entry, at most, beside its payloads and the name of its partition."""
Done = Callable[[Exception | None], None]


class _Row(msgspec.Struct, frozen=True, array_like=True):
    time: int
    partition: str
    first: int
    count: int
    payloads: bytes
    end: int | None = None
    """Absent in batches of older versions."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgpack_decoder(list[_Row])


def encoded(entries: Iterable[Entry]) -> bytes:
    """A batch as it stands on the server."""
    return _encode(
        [_Row(each.time, each.partition, each.first, each.count, each.payloads, each.end) for each in entries]
    )


def decoded(data: bytes, name: str) -> list[Entry]:
    """The entries of the batch `name`. Raises Corrupt."""
    try:
        return [_entry(row) for row in _decode(data)]
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"journal batch {name} is damaged: {error}; restore it from a backup, or reset the job"
        ) from error


def _entry(row: _Row) -> Entry:
    end = None if row.end is None else Offset(row.end)
    return Entry(Time(row.time), Partition(row.partition), Offset(row.first), row.count, row.payloads, end)


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries that are written at once."""

    number: int
    """Its number under this fence, from 1 on; the same when it is sent again."""
    after: Time
    """Time of the front's last entry before it."""
    last: Time
    data: bytes


class Writer(Protocol):
    """Writes the batches of one front under one fence. Called in the loop."""

    largest: int
    """Bytes that a batch may have."""
    full: int
    """Bytes above which a batch has no second entry."""
    way_out: str
    """Advice for whoever has an entry that is larger."""

    def send(self, batch: Batch, done: Done) -> None:
        """Write the batch. `done`, in the loop: None if it is durable and every later seal gives it back; one
        of AWAY to send it again."""
        ...

    def trim(self, before: Time) -> None:
        """Delete batches with nothing at or above `before`. What cannot be deleted now is tried at the next
        trim."""
        ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """The answer of a seal."""

    entries: list[Entry]
    """The entries that count, from the cut on, by time."""
    last: Time
    """Time of the newest entry that counts, at whatever time."""
    writer: Writer


class Place(Protocol):
    """The place where a job's batches are."""

    @property
    def name(self) -> str:
        """The place in messages."""
        ...

    def seal(self, front: FrontId, attempt: Attempt, cut: Time) -> Sealed:
        """Fix what counts of older attempts. Blocks. Raises one of AWAY to be called again, Fenced if a newer
        attempt has sealed."""
        ...


class BatchJournal(SealedFronts["_Log", Sealed]):
    """`ports.Journal` for all fronts of a worker. `place.seal` is called in one of `threads`, or of the
    reactor's."""

    def __init__(
        self,
        place: Place,
        reactor: Reactor,
        post: Post,
        *,
        threads: Background | None = None,
        keep: bool = False,
    ) -> None:
        super().__init__(reactor, post, threads or reactor)
        self._place, self._keep = place, keep
        self._dirty: dict[FrontId, _Log] = {}

    def append(self, action: Append) -> None:
        """Make an entry durable. Answer: JournalAppended, from a later turn."""
        log = self._log_of(action)
        if log is not None:
            if not self._dirty:
                self._reactor.soon(self._flush)
            self._dirty[action.front] = log
            log.waiting.append(action.entry)

    def trim(self, action: TrimJournal) -> None:
        """Let old batches go, unless everything is kept."""
        log = self._logs.get(action.front)
        if log is not None and log.fence == action.fence and not self._keep:
            log.writer.trim(action.before)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for log in dirty.values():
            log.begin()

    def _name(self, front: FrontId) -> str:
        return f"journal of front {front} in {self._place.name}"

    def _sealer(self, action: SealJournal) -> Callable[[], Sealed]:
        return partial(self._place.seal, action.front, action.fence.attempt, action.cut)

    def _opened(self, action: SealJournal, sealed: Sealed) -> "tuple[_Log, list[Entry]]":
        return _Log(action.fence, sealed, self._reactor, partial(self._told, action.front)), sealed.entries

    def _told(self, front: FrontId, log: "_Log", result: Time | Exception) -> None:
        if not isinstance(result, Exception):
            self._post(JournalAppended(log.fence, front, result))
        elif isinstance(result, AWAY):
            message = f"cannot write {self._name(front)}: {result}; it is tried again until it succeeds"
            self._post(JournalFailed(log.fence, front, message))
        else:
            self._refused(log.fence, front, result)


class _Log:
    """The writing of one attempt for one front. Only in the loop's thread."""

    def __init__(
        self, fence: Fence, sealed: Sealed, reactor: Reactor, told: "Callable[[_Log, Time | Exception], None]"
    ) -> None:
        self.fence, self.writer = fence, sealed.writer
        self.waiting: list[Entry] = []
        self._reactor, self._told = reactor, told
        self._batch: Batch | None = None
        self._number, self._last = 0, sealed.last
        self._outage = Outage()
        self._abandoned = False
        self._late: Timer | None = None

    def abandon(self) -> None:
        """Write nothing more, and tell nobody."""
        self._abandoned = True
        if self._late is not None:
            self._late.cancel()

    def begin(self) -> None:
        """Send the next batch, if none is under way."""
        # One at a time (!): sent again after a lost answer it could land behind the next, and a reader of a
        # topic takes only times that grow.
        if self._batch is None and self.waiting and not self._abandoned and (taken := self._take()):
            self._number += 1
            self._batch = Batch(self._number, self._last, taken[-1].time, encoded(taken))
            self._last = self._batch.last
            self._send()

    def _take(self) -> list[Entry]:
        """Take as many entries as a batch may hold; none if the first one is too large already, which is
        told."""
        size, most, full = 0, self.writer.largest, self.writer.full
        for place, entry in enumerate(self.waiting):
            size += len(entry.payloads) + len(entry.partition.encode()) + AROUND_AN_ENTRY
            if size > full and place:
                taken, self.waiting = self.waiting[:place], self.waiting[place:]
                return taken
            if size > most:
                message = (
                    f"an entry of {len(entry.payloads)} bytes is more than the journal takes ({most}): "
                    f"{self.writer.way_out}"
                )
                self._give_up(PayloadError(message))
                return []
        taken, self.waiting = self.waiting, []
        return taken

    def _send(self) -> None:
        if self._batch is not None and not self._abandoned:
            # Silence is told, no more: only an answer says whether the batch is to be sent again.
            self._late = self._reactor.later(
                PATIENCE, lambda: self._trouble(TimeoutError("it has not answered yet"))
            )
            self.writer.send(self._batch, self._answered)

    def _answered(self, error: Exception | None) -> None:
        assert self._late is not None and self._batch is not None, "an answer to what was sent"
        self._late.cancel()
        if self._abandoned:
            return
        if error is None:
            last, self._batch, self._outage = self._batch.last, None, Outage()
            self._told(self, last)
            self.begin()
        elif isinstance(error, AWAY):
            self._trouble(error)
            self._reactor.later(AGAIN.after(self._outage.failures), self._send)
        else:
            self._give_up(error)

    def _trouble(self, error: Exception) -> None:
        if self._outage.fails(error):
            self._told(self, error)

    def _give_up(self, error: Exception) -> None:
        self.abandon()
        self._told(self, error)
