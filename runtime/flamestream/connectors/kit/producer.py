"""The producer of a source that is read by blocking calls: files, above all.

A `Reader` reads; this turns its chunks into events within the credit. One call of the reader is under way at
a time, in a helper thread, and it reads ahead by a bounded buffer while the front works. Replays come first:
a reader's journalled runs are read in the order asked before anything new.

Keeps: records leave in the reader's order and within the last Pull; after a newer fence nothing of an older
one is posted; an OSError or Retryable of the reader is retried a bounded number of times and then fails the
source; a Retryable (a server that is away) for as long as it takes once a call has succeeded. Does not: read
(listed.py, followed.py).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from flamestream.connectors.kit.credit import CreditProducer
from flamestream.core.protocol.actions import Follow, ReadRun
from flamestream.core.protocol.events import Entry, RunRead, SourceEnded, SourceFailed
from flamestream.loop.background import Threads
from flamestream.loop.silence import Silence
from flamestream.model.backoff import Backoff
from flamestream.model.errors import FlameStreamError, Retryable
from flamestream.model.failure import said
from flamestream.model.ids import Fence, Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, Timestamp
from flamestream.model.vertex import name_of
from flamestream.ports import Background, Post, Reactor, Timer

T = TypeVar("T")
READ_RECORDS: Final = 512
READ_SIZE: Final = 1 << 20
"""A call of the reader gives about this much; the buffer holds at most twice of it."""
MAX_RECORD: Final = 16 << 20
"""Bytes; a longer record is an error value."""
MAX_RUNS_A_CALL: Final = 256
MAX_TRIES: Final = 6
AGAIN: Final = Backoff(0.1, 2.0)
SLOW_SECONDS: Final = 5.0
"""A call of the reader that takes longer is told."""


def error_item(source: str, error: str, message: str) -> ErrorValue:
    """The payload that stands where something could not be read."""
    return ErrorValue(function=f"source {source}", error=error, message=message)


def payload_of_number(function: Callable[[int], Any] | None, number: int) -> object:
    """The record with this number, of a source that is a function of numbers."""
    if function is None:
        return number
    try:
        return function(number)
    except Exception as error:  # noqa: BLE001  # whatever the user's function raises is an item of the stream
        return ErrorValue(
            function=name_of(function), error=type(error).__name__, message=f"number {number}: {said(error)}"
        )


@dataclass(slots=True)
class Chunk:
    """Consecutive records of one partition, with the bytes of input of each."""

    partition: Partition
    first: Offset
    payloads: list[object]
    sizes: list[int]
    ends: list[Offset] | None = None
    """The offset behind each record, of a source whose offsets have gaps. No records: the partition begins at
    `first`."""
    hint: Timestamp = Timestamp(0)
    traces: dict[int, str] | None = None
    """Contexts that records came with (`traceparent`), by their places."""

    def contexts(self, count: int) -> dict[int, str] | None:
        """Those of the first `count` records, which leave; the others' places are counted anew."""
        if not self.traces:
            return None
        leaving = {place: context for place, context in self.traces.items() if place < count}
        self.traces = {place - count: context for place, context in self.traces.items() if place >= count}
        return leaving


class Reader(Protocol):
    """Blocking; called by one thread at a time. After an OSError or Retryable the same call may be made
    again, and gives the same."""

    ended: bool
    """All that `seek` asked for has been given."""
    idle_seconds: float
    """The time until it is looked at again after `next` gave nothing."""

    @property
    def problem(self) -> str:
        """Why it gives nothing although there may be something; "" if all is well."""

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        """Read on from `offsets`."""

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        """The next chunks, of about so many records and bytes; nothing if nothing is there now."""

    def read(self, entry: Entry) -> list[object]:
        """The records of a journalled run, again. Raises Corrupt if they are not what they were."""


@runtime_checkable
class TracedReader(Protocol):
    """A reader whose records come with contexts of their senders."""

    def contexts(self) -> Mapping[int, str] | None:
        """Those of the run that `read` gave last, by their places."""
        ...


class ReadingProducer(CreditProducer):
    """`ports.Producer` over a Reader."""

    def __init__(
        self, reader: Reader, front: FrontId, post: Post, reactor: Reactor, *,
        threads: Background | None = None, tries: int | None = MAX_TRIES,
    ) -> None:  # fmt: skip
        """`threads`: where the reader is called, if not in the reactor's.

        `tries`: how often a call may fail with an OSError; None for ever, as befits a server that will come
        back."""
        super().__init__(front, post, reactor)
        self._reader, self._threads = reader, threads or reactor
        self._contexts = reader.contexts if isinstance(reader, TracedReader) else _none
        self._runs: deque[ReadRun] = deque()
        self._seek: Mapping[Partition, Offset] | None = None
        self._buffer: deque[Chunk] = deque()
        self._buffered = self._buffered_size = 0
        self._busy = False
        self._stopped = False
        self._at_end = False
        self._most_tries = tries
        self._tries = 0
        self._proved = False
        """A call has succeeded: settings are right, so a server that is away now is waited for."""
        self._timer: Timer | None = None
        self._failure = ""
        self._silence = Silence(SLOW_SECONDS)
        """While the reader is at a call."""

    @property
    def problem(self) -> str:
        """Why a read is being retried, or that none is answered; "" if all is well."""
        return self._failure or self._reader.problem or self._silence.problem

    def read(self, action: ReadRun) -> None:
        if self._adopt(action.fence):
            self._runs.append(action)
            self._soon()

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._restart()
            self._seek, self._following = dict(action.offsets), True
            self._soon()

    def close(self) -> None:
        self._stopped = True
        self._cancel_timer()

    # --- what is asked --------------------------------------------------------------------------------------

    def _forget(self) -> None:
        # A source that failed under an older fence is tried again under this one.
        self._stopped, self._tries = False, 0
        self._runs.clear()
        self._restart()

    def _restart(self) -> None:
        self._cancel_timer()
        self._seek = None
        self._buffer.clear()
        self._buffered = self._buffered_size = 0
        self._at_end = False

    def _turn(self) -> None:
        if not self._stopped:
            self._give()
            self._work()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- reading --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Start the next call of the reader, if there is one to make."""
        if self._busy or self._timer is not None:
            return
        fence, reader = self._fence, self._reader
        if self._runs:
            # They stay in the queue until they are read: after a failure the same ones are read again.
            runs = [self._runs[i] for i in range(min(len(self._runs), MAX_RUNS_A_CALL))]
            self._call(
                fence,
                lambda: [(reader.read(run.entry), self._contexts()) for run in runs],
                lambda read: self._runs_read(runs, read),
            )
        elif self._seek is not None:
            offsets = self._seek
            self._call(fence, lambda: reader.seek(offsets), lambda _: self._sought(offsets))
        elif (
            self._following
            and not self._at_end
            and self._buffered < READ_RECORDS
            and self._buffered_size < READ_SIZE
        ):
            self._call(fence, lambda: (reader.next(READ_RECORDS, READ_SIZE), reader.ended), self._arrived)

    def _call(self, fence: Fence, work: Callable[[], T], done: Callable[[T], None]) -> None:
        def back(result: T | Exception) -> None:
            self._busy = False
            self._silence.end()
            if self._stopped:
                return
            # Else a newer fence has come meanwhile: nobody wants this result, but only now is the reader
            # free.
            if fence == self._fence:
                self._settle(result, done)
            self._turn()

        self._busy = True
        self._silence.begin()
        self._threads.background(work, back)

    def _settle(self, result: T | Exception, done: Callable[[T], None]) -> None:
        if isinstance(result, OSError | Retryable):
            self._retry(result)
        elif isinstance(result, FlameStreamError):
            self._fail(result.category, str(result))
        elif isinstance(result, Exception):
            raise result
        else:
            self._tries, self._failure, self._proved = 0, "", True
            done(result)

    def _retry(self, error: OSError | Retryable) -> None:
        self._tries += 1
        self._failure = str(error)
        # Before a call has ever succeeded the settings may be wrong, and nobody would hear of it while it is
        # tried for ever.
        waits = self._most_tries is None or (self._proved and isinstance(error, Retryable))
        if not waits and self._most_tries is not None and self._tries >= self._most_tries:
            self._fail("retryable", f"{error}; tried {self._tries} times")
        else:
            self._timer = self._reactor.later(AGAIN.after(self._tries), self._look_again)

    def _fail(self, category: str, message: str) -> None:
        self._stopped = True
        self._post(SourceFailed(self._fence, self._front, category, message))

    def _runs_read(
        self, runs: list[ReadRun], read: list[tuple[list[object], Mapping[int, str] | None]]
    ) -> None:
        for run, (payloads, contexts) in zip(runs, read, strict=True):
            self._runs.popleft()
            self._post(RunRead(run.fence, self._front, run.entry, payloads, contexts))

    def _sought(self, offsets: Mapping[Partition, Offset]) -> None:
        # Another Follow may have come while this one was sought: then it is sought next.
        if self._seek is offsets:
            self._seek = None

    def _arrived(self, read: tuple[Sequence[Chunk], bool]) -> None:
        chunks, ended = read
        if self._seek is not None:
            return  # a later Follow of the same fence overtook this call
        self._buffer.extend(chunks)
        self._buffered += sum(len(chunk.payloads) for chunk in chunks)
        self._buffered_size += sum(sum(chunk.sizes) for chunk in chunks)
        if ended:
            self._at_end = True
            if not self._buffer:
                self._post(SourceEnded(self._fence, self._front))
        elif not chunks:
            self._timer = self._reactor.later(self._reader.idle_seconds, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._turn()

    # --- giving ---------------------------------------------------------------------------------------------

    def _give(self) -> None:
        """Post what the credit allows."""
        if not self._buffer:
            return
        while self._buffer and self._records > 0 and self._size > 0:
            self._give_chunk(self._buffer[0])
        if not self._buffer and self._at_end:
            self._post(SourceEnded(self._fence, self._front))

    def _give_chunk(self, chunk: Chunk) -> None:
        count, size = 0, 0
        most = min(self._records, len(chunk.payloads))
        # The last record may overdraw the credit: one that is bigger than it could never leave otherwise.
        while count < most and size < self._size:
            size += chunk.sizes[count]
            count += 1
        end = None if chunk.ends is None else chunk.ends[count - 1] if count else chunk.first
        self._post_records(
            chunk.partition, chunk.first, chunk.payloads[:count], size, chunk.hint, end, chunk.contexts(count)
        )
        self._buffered -= count
        self._buffered_size -= size
        if count == len(chunk.payloads):
            self._buffer.popleft()
        else:
            del chunk.payloads[:count], chunk.sizes[:count]
            chunk.first = Offset(chunk.first + count) if end is None else end
            if chunk.ends is not None:
                del chunk.ends[:count]


def _none() -> None:
    """No contexts: the records of most readers come without."""


class ServerReader(Reader, Protocol):
    """A reader with a connection."""

    def close(self) -> None:
        """Let the connection go."""


class ServerProducer(ReadingProducer):
    """`ports.Producer` of a source that a server has: its reader waits in a thread of its own, for ever if it
    must.

    The reader is closed by its thread, behind whatever it is doing."""

    def __init__(self, reader: ServerReader, front: FrontId, post: Post, reactor: Reactor) -> None:
        self._thread = Threads(1, reactor.soon)
        super().__init__(reader, front, post, reactor, threads=self._thread, tries=None)
        self._closing = reader.close

    def close(self) -> None:
        super().close()
        self._thread.close(self._closing)
