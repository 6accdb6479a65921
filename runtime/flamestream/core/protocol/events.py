"""The events of a worker. The shell turns the outside into these; `Worker.step` takes a pass of them at a
time.

Frozen slotted dataclasses, one meaning each. Every answer names the fence it belongs to, so an answer to an
older attempt is recognised and dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.messages import Frame, ToWorker
from flamestream.core.protocol.queries import Lookup, Scan
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import (
    Epoch,
    Fence,
    Offset,
    Partition,
    SequenceNumber,
    SinkName,
    Slot,
    SourceName,
    WorkerId,
)
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import START, FrontId, Time, Timestamp


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal entry: `count` records of `partition` from `first` on entered as one run at `time`.

    `payloads` is `payload.encode_many` of them if the source cannot replay; b"" otherwise. An entry without
    records may have a marker there, which tells how far its partition is in event time (model/event_time.py).
    """

    time: Time
    partition: Partition
    first: Offset
    count: int
    payloads: bytes = b""
    end: Offset | None = None
    """The offset at which the partition goes on, of a source whose offsets have gaps; None: right behind, at
    `first + count`."""

    @property
    def next(self) -> Offset:
        """The offset that the partition's next run begins at, or above if offsets have gaps."""
        return Offset(self.first + self.count) if self.end is None else self.end

    @property
    def is_pledge(self) -> bool:
        """Whether the entry brings nothing and decides no offset: nothing new was stamped at or below `time`,
        and nothing will be."""
        return not self.moves and not self.payloads

    @property
    def moves(self) -> bool:
        """Whether the entry brings records, or decides where its partition goes on. Pledges and markers do
        neither."""
        return bool(self.count) or self.end is not None


@dataclass(frozen=True, slots=True)
class LastBundle:
    """A consumer's memory of a slot: enough to filter a replay and to check its first items."""

    sequence: SequenceNumber
    t_last: bytes
    items: bytes
    """The items of the bundle as they were delivered (`bundle.items`)."""


@dataclass(frozen=True, slots=True)
class FromCoordinator:
    """A message of the coordinator, under whatever fence."""

    message: ToWorker


@dataclass(frozen=True, slots=True)
class FromPeer:
    """A frame of another worker, behind all of its frames before."""

    peer: WorkerId
    frame: Frame


@dataclass(frozen=True, slots=True)
class LinkBroken:
    """The link to `peer` has ended for good: frames may be lost."""

    fence: Fence
    peer: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsArrived:
    """New records of a front, in the order of their partition. `hint` is the source's own time (0: none)."""

    fence: Fence
    front: FrontId
    partition: Partition
    first: Offset
    payloads: Sequence[object]
    size: int
    """Bytes of input, for credit."""
    hint: Timestamp = Timestamp(0)
    end: Offset | None = None
    """The `end` of the `Entry` that it becomes. Without payloads it says only where the partition begins: a
    decision that is journalled."""
    traces: Mapping[int, str] | None = None
    """Contexts that records came with (`traceparent`), by their places here (-1: all of them); of no concern to
    the worker."""


@dataclass(frozen=True, slots=True)
class RunRead:
    """The records of a journalled run, read again for its replay."""

    fence: Fence
    front: FrontId
    entry: Entry
    payloads: Sequence[object]
    traces: Mapping[int, str] | None = None
    """As of RecordsArrived."""


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """A bounded source has no more records after those already given."""

    fence: Fence
    front: FrontId


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source cannot give what it must (data expired, changed, unreadable folder)."""

    fence: Fence
    front: FrontId
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class JournalAppended:
    """Every entry of `front` up to `time` is durable."""

    fence: Fence
    front: FrontId
    time: Time


@dataclass(frozen=True, slots=True)
class JournalFailed:
    """An append failed for now (disk full): the front promises nothing until a later append succeeds."""

    fence: Fence
    front: FrontId
    message: str


@dataclass(frozen=True, slots=True)
class JournalSealed:
    """The entries of `front` that count, above the cut, oldest first."""

    fence: Fence
    front: FrontId
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class SinkOpened:
    """The consumer refuses older fences from now on; `last` is its memory of the slots asked for."""

    fence: Fence
    sink: SinkName
    last: Mapping[Slot, LastBundle]
    newest: bytes = b""
    """The greatest meta that the consumer has seen of any slot, if that can be above all of `last`: no new
    run may be at or below it."""


@dataclass(frozen=True, slots=True)
class SinkFenced:
    """The consumer knows a newer fence: this worker is a zombie and gives up."""

    fence: Fence
    sink: SinkName


@dataclass(frozen=True, slots=True)
class SinkFailed:
    """The consumer cannot go on: it lost or changed what it had, was given a wrong sequence, or a user's
    callback raised."""

    fence: Fence
    sink: SinkName
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class BundlesAcknowledged:
    """The delivery numbered `number` of `sink` is durable at its consumer."""

    fence: Fence
    sink: SinkName
    number: int


@dataclass(frozen=True, slots=True)
class CallReturned:
    """The outside's results for a request, or the error it gave instead."""

    fence: Fence
    call: SourceName
    request: Meta
    results: Sequence[object] = ()
    error: ErrorValue | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The rows of an Upload are durable in `segments`, `held` and `requests`; `segments` make those
    `replaced` superfluous."""

    fence: Fence
    epoch: Epoch
    segments: Sequence[SegmentRef]
    replaced: Sequence[str]
    held: Sequence[SegmentRef] = ()
    requests: Sequence[SegmentRef] = ()


@dataclass(frozen=True, slots=True)
class UploadFailed:
    """The store did not take an Upload: its epoch cannot be accepted."""

    fence: Fence
    epoch: Epoch
    message: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The chains of the slots asked for, of all segments asked for, in any order."""

    fence: Fence
    chains: Sequence[Chain]
    held: Sequence[Chain] = ()
    """Chains of the held output asked for, whatever their slots."""
    requests: Sequence[Chain] = ()
    """Chains of the requests asked for, whatever their slots."""


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """`category` is retryable (the store is away) or corrupt (a part is missing or damaged)."""

    fence: Fence
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class Prefetched:
    """The chains that a Prefetch asked for; None: they cannot be read now."""

    number: int
    chains: Sequence[Chain] | None


class Queried(msgspec.Struct, frozen=True):  # there are many: it is made in a tenth of the time
    """A client asks for the states of keys. Answer: Answered or NotAnswered, which say `number`."""

    number: int
    lookups: Sequence[Lookup]
    strict: bool
    """Whether nothing may be missing that anybody could have seen; else the answer may be a little old."""
    at_least: Time = START
    """Everything below it has to be in the answer."""
    scan: Scan | None = None
    """The keys, if they are to be found."""
    unlike: bytes | None = None
    """The encoded state of the one key that its client knows: the answer waits until it is another; b"": until there
    is one. None: it waits for nothing. Never with `strict`."""


@dataclass(frozen=True, slots=True)
class QueryLeft:
    """Nobody waits for the answer of query `number` any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Woken:
    """Nothing happened; asked for by the action Wake, or a heartbeat."""


RecoveryAnswer = SinkOpened | JournalSealed | Loaded | LoadFailed
Answer = (
    LinkBroken
    | RecordsArrived
    | RunRead
    | SourceEnded
    | SourceFailed
    | JournalAppended
    | JournalFailed
    | SinkFenced
    | SinkFailed
    | BundlesAcknowledged
    | CallReturned
    | Uploaded
    | UploadFailed
    | RecoveryAnswer
)
"""Events of one fence, which change nothing under another."""
Event = FromCoordinator | FromPeer | Prefetched | Queried | QueryLeft | Woken | Answer
