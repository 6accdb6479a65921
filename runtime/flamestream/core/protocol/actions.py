"""The actions of a worker. The shell carries each out and reports back with an event of the same fence.

A shell carries out the actions of one step in their order; those without a promise of order (uploads, loads)
may take their time. Whatever is under way for an older fence when a newer one appears may be dropped; its
answers are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.messages import Frame, ToCoordinator
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
from flamestream.model.time import FrontId, Time, Timestamp


@dataclass(frozen=True, slots=True)
class ToldCoordinator:
    """Send `message` to the coordinator, now or when there is one again."""

    message: ToCoordinator


@dataclass(frozen=True, slots=True)
class ToPeer:
    """Send `frame` to another worker of the same attempt, behind all frames before."""

    peer: WorkerId
    frame: Frame


@dataclass(frozen=True, slots=True)
class LinkPeers:
    """Close every link of older fences; from now on exchange frames with `addresses` under `fence`,
    authenticated by `key`."""

    fence: Fence
    key: str
    addresses: Mapping[WorkerId, str]


@dataclass(frozen=True, slots=True)
class SealJournal:
    """Fix for ever which entries of older fences count, and give those above `cut`. Answer: JournalSealed."""

    fence: Fence
    front: FrontId
    cut: Time


@dataclass(frozen=True, slots=True)
class Append:
    """Make `entry` durable. Answer: JournalAppended (may be coalesced: the newest time stands for all
    before)."""

    fence: Fence
    front: FrontId
    entry: Entry


@dataclass(frozen=True, slots=True)
class TrimJournal:
    """Entries below `before` are not needed any more."""

    fence: Fence
    front: FrontId
    before: Time


@dataclass(frozen=True, slots=True)
class Saved:
    """Records below `offsets` are in the snapshot at `cut`, and not asked for again. Of a front that has no
    journal and cannot be read again."""

    fence: Fence
    front: FrontId
    cut: Time
    offsets: Mapping[Partition, Offset]


@dataclass(frozen=True, slots=True)
class ReadRun:
    """Read the records of a journalled run again. Answer: RunRead (or SourceFailed). Answered in the order
    asked."""

    fence: Fence
    front: FrontId
    entry: Entry


@dataclass(frozen=True, slots=True)
class Follow:
    """Read on from `offsets` (partitions not named start at their beginning). Records come only within the
    credit of Pull."""

    fence: Fence
    front: FrontId
    offsets: Mapping[Partition, Offset]
    saved: Mapping[Partition, Offset] | None = None
    """Nothing below is asked for again; None: nothing below `offsets`."""


@dataclass(frozen=True, slots=True)
class Pull:
    """The front can take this much more: up to `records` records and about `size` bytes, not added to earlier
    pulls but replacing them."""

    fence: Fence
    front: FrontId
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class OpenSink:
    """Open every one of `slots` at the consumer under `fence`. Answer: SinkOpened or SinkFenced."""

    fence: Fence
    sink: SinkName
    slots: Sequence[Slot]


class Bundle(NamedTuple):
    """Items that one slot delivers at once; a tuple, because a document makes some seventy of them."""

    slot: Slot
    sequence: SequenceNumber
    t_last: bytes
    """The meta of the last item."""
    items: bytes
    """The items themselves, as `payload.encode_items` gives them."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand over `bundles`, atomic per slot, resent byte for byte until acknowledged. One call is in flight
    per sink."""

    fence: Fence
    sink: SinkName
    number: int
    bundles: Sequence[Bundle]
    traces: Mapping[bytes, str] | None = None
    """Contexts (`traceparent`) for those that get the items, by what their metas begin with: a run, or one of
    its records. Put in by the shell; the worker has none."""


@dataclass(frozen=True, slots=True)
class MakeCall:
    """Ask the outside, as often as the call's settings say. Answer: CallReturned, also of an error. A request
    that is under way already, for an older fence, need not be made again."""

    fence: Fence
    call: SourceName
    request: Meta
    payload: bytes
    """Encoded."""
    id: str
    """The name by which the outside knows the call (`Call.id`)."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Write `rows` as segments of `epoch`; merge `compact` into fewer. Names carry epoch, attempt, writer and
    a nonce. A great snapshot is several of them, one after the other."""

    fence: Fence
    epoch: Epoch
    rows: Sequence[Row]
    compact: Sequence[SegmentRef]
    held: Sequence[Row] = ()
    """Rows of held output, which become segments of their own."""
    requests: Sequence[Row] = ()
    """Rows of requests, which do too."""
    kept: frozenset[int] | None = None
    """Numbers of the operations that there are: of others a merge keeps no rows, but for those that are
    places. None: it keeps all."""


@dataclass(frozen=True, slots=True)
class Load:
    """Read `segments`, check them, give the chains of `slots`; and all chains of `held` and of `requests`.
    Answer: Loaded or LoadFailed."""

    fence: Fence
    segments: Sequence[SegmentRef]
    slots: Sequence[Slot]
    held: Sequence[SegmentRef] = ()
    requests: Sequence[SegmentRef] = ()
    after: int = -1
    """The slots' rows count if they are of epochs above it."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Read `segments`, which are committed, for slots that this worker may get. Answer: Prefetched, which says
    `number`."""

    number: int
    segments: Sequence[SegmentRef]
    slots: Sequence[Slot] | None = None
    """None: all."""
    after: int = -1
    """Only rows of epochs above it."""


class Answered(msgspec.Struct, frozen=True):  # as `Queried`
    """Tell the client of query `number` the states, in the order of its keys, as of `time`: what runs below it have
    made."""

    number: int
    time: Time
    states: Sequence[bytes | None]
    """Encoded; None: the key has none."""
    keys: Sequence[bytes] = ()
    """The keys of the states, ascending, where it is of a scan."""
    upto: bytes = b""
    """The key behind which a scan goes on; b"": there are no more."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Tell the client of query `number` why it gets no answer."""

    number: int
    reason: str
    again: bool
    """Whether it may be answered if it is asked again."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Call step again soon even if nothing happens: a slice of work is left."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call step again when the clock that stamps runs has come to `time`, even if nothing happens. Later is
    harmless, and so is twice."""

    time: Timestamp


@dataclass(frozen=True, slots=True)
class Exit:
    """End this worker's process: it was told to stop, is fenced, or has met a bug. `category` is "" for a
    normal end."""

    category: str
    reason: str


Action = (
    ToldCoordinator
    | ToPeer
    | LinkPeers
    | SealJournal
    | Append
    | TrimJournal
    | Saved
    | ReadRun
    | Follow
    | Pull
    | OpenSink
    | Deliver
    | MakeCall
    | Upload
    | Load
    | Prefetch
    | Answered
    | NotAnswered
    | Wake
    | WakeAt
    | Exit
)
