"""The ports of a worker and of the coordinator: their outside, as Protocols that a shell implements.

A worker's ports mirror its actions one to one: the host hands each action to the port of its kind, and the
port reports back by posting events of the same fence. So a simulated world and the real one differ below this
line only.

Every port method returns at once. What takes time happens in the reactor's callbacks or in
`Reactor.background`; a port never calls `post` from within the method that was called, only from a later turn
of the loop.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from flamestream.core.protocol import actions
from flamestream.core.protocol.events import Event
from flamestream.core.protocol.job_record import JobRecord as JobRecord
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import Instant, Time, Timestamp

T = TypeVar("T")
Post = Callable[[Event], None]


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Background(Protocol):
    """Where blocking calls go: threads that are shared, or somebody's own."""

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a helper thread, then `done` in this loop with its result or the exception it
        raised."""
        ...


class Reactor(Background, Protocol):
    """The one loop of a process: readiness of sockets, timers, and the way back from helper threads."""

    def now(self) -> Timestamp:
        """Microseconds since 1970: for stamps. Somebody may set that clock, forwards and back."""
        ...

    def instant(self) -> Instant:
        """Microseconds of a clock that nobody sets, and whose zero means nothing: for durations."""
        ...

    def watch(
        self,
        fd: int,
        *,
        readable: Callable[[], None] | None = None,
        writable: Callable[[], None] | None = None,
    ) -> None:
        """Call back, in this loop, whenever `fd` is ready. Replaces an earlier watch of the same fd."""
        ...

    def unwatch(self, fd: int) -> None:
        """Forget `fd`. Unknown ones are ignored."""
        ...

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, in this loop."""
        ...

    def soon(self, call: Callable[[], None]) -> None:
        """Call at the next turn of this loop. Safe from any thread."""
        ...


class Links(Protocol):
    """Frames to and from the other workers of an attempt, in order per peer. Posts FromPeer and
    LinkBroken."""

    def link(self, action: actions.LinkPeers) -> None: ...
    def send(self, action: actions.ToPeer) -> None: ...


class Journal(Protocol):
    """The durable log of one front's order decisions. Posts JournalSealed, JournalAppended, JournalFailed."""

    def seal(self, action: actions.SealJournal) -> None: ...
    def append(self, action: actions.Append) -> None: ...
    def trim(self, action: actions.TrimJournal) -> None: ...


class Producer(Protocol):
    """The outside of one front. Posts RecordsArrived within the last Pull, RunRead, SourceEnded,
    SourceFailed."""

    def read(self, action: actions.ReadRun) -> None: ...
    def follow(self, action: actions.Follow) -> None: ...
    def pull(self, action: actions.Pull) -> None: ...
    def durable(self, time: Time, partition: str, upto: int) -> None:
        """Records of `partition` below offset `upto` are in the journal: a client that waits for that may be
        told."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """The outside of one sink. Posts SinkOpened, SinkFenced, BundlesAcknowledged."""

    def open(self, action: actions.OpenSink) -> None: ...
    def deliver(self, action: actions.Deliver) -> None: ...
    def close(self) -> None: ...


class Caller(Protocol):
    """The outside of all calls of a worker. Posts CallReturned."""

    def make(self, action: actions.MakeCall) -> None: ...
    def close(self) -> None: ...


class Asking(Protocol):
    """The clients of a worker, who ask for states of keys. Posts Queried, QueryLeft."""

    def serve(self, here: bool, /) -> None:
        """Whether this worker takes part, and can be asked."""
        ...

    def told(self, action: actions.Answered | actions.NotAnswered) -> None: ...
    def close(self) -> None: ...


@runtime_checkable
class Troubled(Protocol):
    """A producer or consumer that can have a lasting trouble which does not stop the worker."""

    @property
    def problem(self) -> str:
        """The trouble, for `status`; "" if all is well."""
        ...


@runtime_checkable
class Grouped(Producer, Protocol):
    """A producer that tells its server how far epochs have come, for whoever looks at lag."""

    def committed(self, offsets: Mapping[Partition, Offset]) -> None:
        """Everything below these offsets is in a committed epoch."""
        ...


class Snapshots(Protocol):
    """Segments to and from the object store. Posts Uploaded, UploadFailed, Loaded, LoadFailed, Prefetched."""

    def upload(self, action: actions.Upload) -> None: ...
    def load(self, action: actions.Load) -> None: ...
    def prefetch(self, action: actions.Prefetch) -> None: ...


# --- blocking ports: called from helper threads, and by the coordinator's shell -----------------------------


class ObjectStore(Protocol):
    """Immutable named objects. Names are relative, parts separated by '/', and no object's name is another's
    prefix plus '/'.

    Errors: `errors.StoreUnavailable` (retryable, after bounded retries), `errors.Corrupt` (an object is
    missing that must be there).
    """

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        """Create the object, durably. False if the name exists already; never overwrites, never leaves a part
        of it visible."""
        ...

    def get(self, name: str) -> bytes:
        """Bytes of an object. Raises `errors.Corrupt` naming it if there is none."""
        ...

    def delete(self, *names: str) -> None:
        """Remove them; absent ones are fine."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted. For people and for orphans only: no decision rests on
        it."""
        ...


class JobRecords(Protocol):
    """The job record's home (ZooKeeper, or a file on one machine). Errors: `errors.ClusterStateUnavailable`
    (outcome unknown)."""

    def read(self) -> tuple[JobRecord, int] | None:
        """The record and its version, or None before the first attempt."""
        ...

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        """Write if the version is still `version` (None: if there is none). The new version, or None on a
        conflict."""
        ...
