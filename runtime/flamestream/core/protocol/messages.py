"""The messages between workers and the coordinator. Every frame carries the fence it was sent under.

Messages are msgspec structs: frozen, typed, and strict when decoded, so a garbage frame is a decode error and
never a strange object. What workers report is also checked for length and range there: a coordinator, and the
figures of all jobs, may count on it. Payloads travel in `Data.payloads` in the encoding of `model.payload`;
nothing here looks inside.

Does not: say who sends what when (worker.py, coordinator.py), or how it travels (net/links.py).
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from flamestream.core.protocol.latency import BOUNDS
from flamestream.core.protocol.queries import Ask as Ask
from flamestream.core.protocol.queries import Gather as Gather
from flamestream.core.protocol.queries import Gathered as Gathered
from flamestream.core.protocol.queries import Left as Left
from flamestream.core.protocol.queries import Look as Look
from flamestream.core.protocol.queries import Peek as Peek
from flamestream.core.protocol.queries import Prove as Prove
from flamestream.core.protocol.queries import Proved as Proved
from flamestream.core.protocol.queries import Seen as Seen
from flamestream.core.protocol.snapshot import (
    AtTime,
    FrontPosition,
    Inventory,
    SegmentRef,
    SlotOutput,
    SnapshotIndex,
)
from flamestream.model.ids import (
    Epoch,
    Fence,
    MessageId,
    Slot,
    SourceName,
    WorkerId,
)
from flamestream.model.layout import Assignment
from flamestream.model.slot import MAX_SLOTS
from flamestream.model.time import MAX_FRONTS, START, FrontId, Time

MOST_TEXT: Final = 16_384
"""Characters of a text for people in a report."""
MOST_CLASSES: Final = len(BOUNDS) + 1
MOST_STRETCHES: Final = 1024
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
"""A count that is exact as a float, as are the sums of a thousand workers in 64 bits."""
Text = Annotated[str, Meta(max_length=MOST_TEXT)]
Name = Annotated[WorkerId, Meta(min_length=1, max_length=256)]
AtEpoch = Annotated[Epoch, Meta(ge=0)]
AtSlot = Annotated[Slot, Meta(ge=0, lt=MAX_SLOTS)]
MOST_SLOTS: Final = 32
"""Slots that a worker tells the cost of: enough to move, and a report stays small."""
MOST_KEYS: Final = 4
MOST_OPERATIONS: Final = 256
"""Vertices of a graph that figures are told of: the first ones."""
Key = Annotated[str, Meta(max_length=256)]


# Fields go by their places: a new one goes to the end and has a default, or what the release before says cannot be
# read. Between workers only those of one vocabulary meet (vocabulary.py).
class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tagged array on the wire."""


# --- worker to worker ---------------------------------------------------------------------------------------


class Data(_Message, frozen=True):
    """Items for vertices of the receiver. One id and one cause for all; the receiver acks it once, after
    processing."""

    cause: Time
    id: MessageId
    vertices: list[int]
    metas: list[bytes]
    tombstones: list[bool]
    payloads: bytes
    """`payload.encode_many` of one payload an item."""


class Acks(_Message, frozen=True):
    """To the acker: per cause, the XOR of ids received and sent."""

    causes: list[int]
    ids: list[int]


class Promise(_Message, frozen=True):
    """To the acker: `front` will stamp nothing below `time`; its newest run entered at `entered`. Follows the
    acks of that run."""

    front: FrontId
    entered: Time
    time: Time
    idle: Time = START
    """A minimal time at which none of its requests waited for an answer, if it is a call's front."""
    tells_end: bool = False
    """Whether it is a call's front with event time, whose end is to be told as a run of its own."""
    written: Time = START
    """The newest of its runs that a failure cannot undo."""


class Question(_Message, frozen=True):
    """The acker asks an idle journalled front to move past `time` if it can. END: a call's front, which gets
    no more answers, tells the end of its event time."""

    front: FrontId
    time: Time


class Hold(_Message, frozen=True):
    """To the acker: a live error item at `time` (count +1), or its invalidation (-1). Minimal time does not
    pass a held time."""

    time: Time
    count: int
    error: str = ""


class Undecided(_Message, frozen=True):
    """To the acker: the lowest transaction that is put off at the sender is of `time`, which minimal time does not
    pass; END: there is none. In the frame of the acks of what has brought it, or come of it (!)."""

    time: Time


class Reached(_Message, frozen=True):
    """The acker tells who has put transactions off: nothing below `time` is in flight or will enter, but for what they
    lead to."""

    time: Time


class MinimalTime(_Message, frozen=True):
    """The acker tells all: nothing below `time` is in flight or will enter."""

    time: Time
    certain: Time = START
    """Below it is what has entered below `time`, and nothing else ever will be. Above it is what fronts have promised
    that no journal says, which a failure may undo."""


class Cut(_Message, frozen=True):
    """The acker tells all, behind the minimal time that equals it: epoch `epoch` is cut at `time`."""

    epoch: Epoch
    time: Time


class Settled(_Message, frozen=True):
    """To the acker: every output of mine below `time` is acknowledged by its consumer. Back from it: the
    least of all workers'."""

    time: Time


class Paused(_Message, frozen=True):
    """To the acker: nothing enters at my fronts until epoch `epoch` is decided, and all that has is told."""

    epoch: Epoch


class Traces(_Message, frozen=True):
    """From shell to shell, before the data of those runs: the traces of callers that they belong to. Each is
    what metas begin with, the trace's id and the caller's span."""

    callers: list[tuple[bytes, bytes, bytes]]


PeerMessage = (
    Data | Traces | Acks | Promise | Question | Hold | Undecided | Reached | MinimalTime | Cut | Settled | Paused | Ask
    | Prove | Proved | Look | Peek | Gather | Gathered | Left | Seen
)  # fmt: skip


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """The messages of one pass to one peer. `sequence` counts from 1 per (fence, sender, receiver).

    A repeated one is dropped, a gap is a loss.
    """

    fence: Fence
    sequence: int
    messages: list[PeerMessage]


# --- worker to coordinator ----------------------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """First on every connection: who I am and where I stand. `ready` means all of `fence` is recovered and
    running."""

    worker: Name
    address: str
    """host:port of my link."""
    fence: Fence
    ready: bool
    python: str
    graph: str
    code: str = ""
    """Digest of the application's files that I have loaded; "" if nobody said."""
    died_of: str = ""
    """The reason why the life of this worker before mine ended, if it could be known."""
    clocks: Annotated[int, Meta(ge=0)] = 0
    """Fronts of my graph's clocks and calls, which are in no index: a coordinator that loads no application
    hears of them here."""
    inventory: Inventory | None = None
    """Contents of a snapshot of my graph. None: an older release's worker."""
    vocabulary: Annotated[str, Meta(max_length=64)] = ""
    """Digest of the messages between workers that I know (vocabulary.py). "": an older release's worker."""


class Opened(_Message, frozen=True):
    """Every slot of every sink of mine is open under `fence`, and refuses older ones; `t_last` is the
    greatest returned."""

    fence: Fence
    t_last: bytes
    outputs: list[SlotOutput]


class Sealed(_Message, frozen=True):
    """The journals of my fronts are sealed under `fence`, the newest entry is at `last`; my state at the cut
    is loaded."""

    fence: Fence
    last: AtTime
    left: dict[FrontId, Count] = {}
    """Records above the cut in the journals of those fronts whose source is gone, where there are any."""


class CutTaken(_Message, frozen=True):
    """The acker's worker reports: epoch `epoch` is cut at `time`."""

    fence: Fence
    epoch: AtEpoch
    time: AtTime


class Accepted(_Message, frozen=True):
    """My slots are durable at the cut of `epoch`, and every sink has acknowledged all output below it that is
    not in `held`."""

    fence: Fence
    epoch: AtEpoch
    cut: AtTime
    segments: list[SegmentRef]
    replaced: list[str]
    """Segments that `segments` makes superfluous (compaction)."""
    fronts: list[FrontPosition]
    outputs: list[SlotOutput]
    held: list[SegmentRef] = []
    requests: list[SegmentRef] = []


class Refused(_Message, frozen=True):
    """I can't accept `epoch`: it aborts, the stream goes on."""

    fence: Fence
    epoch: AtEpoch
    reason: Text


class PeerLost(_Message, frozen=True):
    """My link to `peer` broke."""

    fence: Fence
    peer: Name
    reason: Text


class Progress(_Message, frozen=True):
    """Heartbeat and live figures. From the acker's worker, `oldest` is the oldest cause in flight (END if
    none)."""

    fence: Fence
    minimal: AtTime
    settled: AtTime
    """Every output of mine below it is acknowledged by its consumer; of others' it says nothing."""
    oldest: AtTime
    items_in: Count
    items_out: Count
    problem: Text = ""
    """A lasting trouble that does not stop the worker (journal full, consumer unreachable): shown in
    `status`."""
    ended: bool = False
    """Whether my fronts have ended and minimal time is END: once that is so of all workers and settled, the
    job is complete."""
    latency: Annotated[list[Count], Meta(max_length=MOST_CLASSES)] = []
    """Calls to consumers since I began, by how long their oldest result took (latency.py)."""
    latency_us: Count = 0
    """The sum of them."""
    runs: Count = 0
    """Runs that have entered at my fronts since I began."""
    bundles: Count = 0
    """Bundles that consumers have acknowledged to me since I began."""
    event_times: Annotated[dict[SourceName, int | None], Meta(max_length=MAX_FRONTS)] = {}
    """How far the last of my fronts of each source with event time has come, in microseconds; None: one has
    told nothing."""
    late: Annotated[dict[SourceName, Count], Meta(max_length=MAX_FRONTS)] = {}
    """Items of each source that came too late for a program in event time here, once for each, since I
    began: of runs below the committed cut."""
    late_since: Annotated[dict[SourceName, Count], Meta(max_length=MAX_FRONTS)] = {}
    """The same of released runs above it, which a recovery processes once more, maybe elsewhere."""
    asked: Count = 0
    """Calls that are being made here."""
    waiting: Annotated[dict[SourceName, Count], Meta(max_length=MAX_FRONTS)] = {}
    """Requests here that have no answer yet, by call."""
    in_flight: Count = 0
    """Items that have entered at my fronts and whose results are not all acknowledged."""
    memory: Count = 0
    """Bytes of my process, told by its host."""
    release: Annotated[list[Count], Meta(max_length=MOST_CLASSES)] = []
    """Runs of mine since I began, by how long after their entry minimal time had passed them."""
    release_us: Count = 0
    """The sum of them."""
    replayed: Count = 0
    """Items of journalled runs that have entered here once more, since I began."""
    invalidated: Count = 0
    """Results that were taken back here before their release, since I began."""
    given: Annotated[list[tuple[Count, Count]], Meta(max_length=MOST_STRETCHES)] = []
    """Stretches (first, last), in microseconds, in which consumers have acknowledged something to me since my
    last report to this coordinator; in the first one to it: lately."""
    warm: bool = False
    """Whether a committed snapshot is at hand, so that a takeover need not read it; told by my host."""
    drained: bool = False
    """Whether I was told to drain and read nothing more, whoever said so."""
    reached: Annotated[list[FrontPosition], Meta(max_length=MAX_FRONTS)] = []
    """Under `at-most-once`: how far my fronts have come. The next attempt goes on there."""
    skipped: Annotated[dict[SourceName, Count], Meta(max_length=MAX_FRONTS)] = {}
    """Under `at-most-once`: records of my fronts of each source that recoveries have skipped, since the job
    began."""
    transactions: Count = 0
    """Transactions whose outcome is final, since I began; what a recovery decides again counts again."""
    decisions: Count = 0
    """The same, and once more for each time that one was decided again."""
    aborted: Count = 0
    idle: Annotated[dict[SourceName, Count], Meta(max_length=MAX_FRONTS)] = {}
    """Partitions of my fronts of each source with event time that are idle, where there are any."""
    errors: Count = 0
    """Error items that were released here, in this attempt."""
    deciding_waits: bool = False
    """Whether transactions wait here now until nothing can come below them, for guesses were wrong too often."""
    replay_us: Count = 0
    """Microseconds from Replay until minimal time had passed its bound: all that was stamped before is through
    once more. 0: it is not."""

    def __post_init__(self) -> None:
        """Raises ValueError unless both counts have all classes, or none yet: they are added up with those of
        others."""
        if len(self.latency) != len(self.release) or len(self.latency) not in (0, MOST_CLASSES):
            raise ValueError(
                f"latencies of {len(self.latency)} and {len(self.release)} classes: there are {MOST_CLASSES}"
            )


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """Figures of a vertex here. An item that is taken back counts as one more."""

    name: Key
    """Its place in the graph, and what it is in words for people."""
    items_in: Count = 0
    """Since I began: what the vertices before it have led on here, whoever works on it."""
    items_out: Count = 0
    """Since I began: what it has led on. Each edge out of it has that many."""
    cost_us: Count = 0
    """Since I began: the time that it took, with all that stands behind it up to the next door; told by samples."""
    recent_in: Count = 0
    """As many of these were since the report before."""
    recent_out: Count = 0
    recent_us: Count = 0
    keys: Count = 0
    """Keys that its state has here."""
    size: Count = 0
    """Bytes of its state as snapshots have it."""


class Busy(_Message, frozen=True):
    """Told by my host now and then: where my time went since the last of these. All in microseconds."""

    fence: Fence
    us: Count
    """The time since then."""
    busy_us: Count
    """As much of it my loop did not wait."""
    slots: Annotated[list[tuple[AtSlot, Count]], Meta(max_length=MOST_SLOTS)] = []
    """The slots of mine that cost most, the greatest first."""
    rest_us: Count = 0
    """The cost of all my other slots."""
    keys: Annotated[list[tuple[AtSlot, Key]], Meta(max_length=MOST_KEYS)] = []
    """Slots that cost much, with the key that has most of it, in words for people."""
    held_us: Count = 0
    """The time in which a source of mine could have given more than I took."""
    rows: Annotated[list[tuple[Key, Count]], Meta(max_length=MOST_KEYS)] = []
    """The rows whose changes had most transactions looked at again since I began, the most first, in words for
    people."""
    spans: Count = 0
    """Spans of traces that a collector has taken from me, since I began."""
    spans_dropped: Count = 0
    """Spans that no collector got: too many at once, or it did not answer."""
    operations: Annotated[list[Operation], Meta(max_length=MOST_OPERATIONS)] = []
    """The vertices of the graph, in its order."""


class Failed(_Message, frozen=True):
    """The job cannot go on: a user error that `onError: fail` found, corruption, or a bug. `category` is of
    `model.errors`."""

    fence: Fence
    category: Annotated[str, Meta(pattern="^(user|retryable|fenced|corrupt|bug)$")]
    message: Text


ToCoordinator = (
    Hello | Opened | Sealed | CutTaken | Accepted | Refused | PeerLost | Progress | Busy | Failed
)  # fmt: skip


def shortened(message: ToCoordinator) -> ToCoordinator:
    """The message with texts that a coordinator takes: of longer ones the beginning."""
    texts = [
        (field, text)
        for field in message.__struct_fields__
        if isinstance(text := getattr(message, field), str)
    ]
    long = {field: text[: MOST_TEXT - 4] + " ..." for field, text in texts if len(text) > MOST_TEXT}
    return msgspec.structs.replace(message, **long) if long else message


# --- coordinator to worker ----------------------------------------------------------------------------------


class Recover(_Message, frozen=True):
    """Forget what is above `cut`, hold what `assignment` gives you, open its sinks. Answer: Opened."""

    assignment: Assignment
    addresses: dict[WorkerId, str]
    key: str
    """Peers of this attempt authenticate each other with it."""
    cut: Time
    epoch: Epoch
    index: SnapshotIndex | None
    """None: start empty (nothing was ever committed)."""
    reached: list[FrontPosition] = []
    """Under `at-most-once`: how far fronts had come above the cut, as far as it was reported."""
    sources: Annotated[list[str], Meta(max_length=MAX_FRONTS)] = []
    """Whose each front is, by its number; none: they go by the order of the graph's sources."""


class Seal(_Message, frozen=True):
    """Every worker has opened its sinks: seal your journals. Answer: Sealed.

    `released` are the times of runs at or above the cut of which consumers have results: a journal that lacks
    one has lost entries.
    """

    fence: Fence
    released: list[AtTime] = []


class Replay(_Message, frozen=True):
    """Every worker is ready: replay from the cut; stamp nothing new at or below `bound`."""

    fence: Fence
    bound: Time
    released: Time = START
    """The newest run at or above the cut of which a consumer has results, as far as it is known; START: none."""
    begins: dict[FrontId, AtTime] = {}
    """Fronts that came to a stream that ran: all of their own runs are behind these times."""
    drained: bool = False
    """Whether to replay only what has left and read nothing newer: other code goes on from there."""
    kind: Text = ""
    """The cause of the recovery, in a word."""
    cause: Text = ""
    steps: dict[str, Count] = {}
    """Microseconds of the steps that the recovery has taken so far, in their order: for those who trace it."""


class Announce(_Message, frozen=True):
    """To all; the acker's worker cuts epoch `epoch` at its minimal time. `compact` are segments the receiver
    should merge."""

    fence: Fence
    epoch: Epoch
    compact: list[SegmentRef]
    hold: bool = False
    """Whether minimal time stays at the cut until the epoch is decided: what is above it is another graph's."""
    pause: bool = False
    """Whether nothing enters until the epoch is decided, and it is cut behind all that has: slots move then."""


class Committed(_Message, frozen=True):
    """Epoch `epoch` is committed at `cut`: let go of what only older cuts needed."""

    fence: Fence
    epoch: Epoch
    cut: Time


class Warm(_Message, frozen=True):
    """To a standby: `index` says where the committed states are; have them at hand. To a worker that gets some
    more `slots` soon: of those alone. None: forget them. Who has slots in an attempt before `fence` is left out."""

    fence: Fence
    index: SnapshotIndex | None = None
    slots: list[Slot] = []


class Abort(_Message, frozen=True):
    """Epoch `epoch` will never be committed."""

    fence: Fence
    epoch: Epoch


class Drain(_Message, frozen=True):
    """Stop reading sources; what has entered goes on to its end."""

    fence: Fence


class Stop(_Message, frozen=True):
    """End now."""

    reason: str


ToWorker = Recover | Seal | Replay | Announce | Committed | Warm | Abort | Drain | Stop
