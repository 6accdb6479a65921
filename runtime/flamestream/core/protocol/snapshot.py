"""Snapshots: what a committed one consists of, and how far each front and each output was at its cut.

All of it is written to the store, and read by restores, audits and tables; messages carry parts of it. What
is decoded is checked for range.

Does not: read or write it (store/), or decide what is committed (core/coordinator/epochs.py).
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from flamestream.core.protocol.formats import FormatNumber, refuse_newer
from flamestream.model.ids import Epoch, Fence, Offset, Partition, SequenceNumber, SinkName, Slot
from flamestream.model.payloads.shapes import PayloadClass
from flamestream.model.state_names import Operation
from flamestream.model.time import MAX_FRONTS, START, FrontId, Time

AtTime = Annotated[Time, Meta(ge=0)]


class SegmentRef(msgspec.Struct, frozen=True):
    """An immutable file of changed keys."""

    name: str
    size: Annotated[int, Meta(ge=0)]
    checksum: str
    """Hex SHA-256 of the bytes."""
    rows: Annotated[int, Meta(ge=0)]
    slots: tuple[Slot, ...]


class FrontPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A front's place at a cut: its last stamp below, and the first offset at or above of each partition."""

    front: Annotated[FrontId, Meta(ge=0, lt=MAX_FRONTS)]
    last: AtTime
    offsets: dict[Partition, Offset]
    ended: bool = False
    """Its source has event time, and has told its end below the cut."""
    records: Annotated[int, Meta(ge=0)] = 0
    """Records up to here, since the job began."""
    skipped: Annotated[int, Meta(ge=0)] = 0
    """Those of them that recoveries have skipped (`at-most-once`)."""
    begins: AtTime = START
    """Behind which time it began, if that was in a stream that ran."""


class SlotOutput(msgspec.Struct, frozen=True):
    """How far a slot of a sink has delivered below a cut, or as a consumer remembers it."""

    sink: SinkName
    slot: Slot
    sequence: Annotated[SequenceNumber, Meta(ge=0)]
    t_last: bytes


class CodeSpan(msgspec.Struct, frozen=True):
    """The application with this digest made what items led to, from the cut `since` on until the next
    span's."""

    since: Time
    digest: str


class Inventory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of a snapshot by name: what another graph must have, or say that it has not, to go on from
    it."""

    sources: tuple[str, ...]
    """In the order of their fronts; those of clocks and calls too."""
    sinks: tuple[SinkName, ...]
    operations: tuple[Operation, ...]
    """Those with state."""
    fronts: tuple[str, ...] = ()
    """Whose each front is, by its number, also where that source is gone; of a graph that has not begun, in its
    order. Empty: numbers go by the order of `sources`."""
    classes: tuple[PayloadClass, ...] | None = None
    """Payload classes: all shapes that stored values may have, oldest first. None: of an older release, whose
    values do not say theirs."""
    runs: dict[str, int] | None = None
    """Records a run, of each front by its name; 0: a journal has its times. None: of an older release, which did
    not say."""


class SnapshotIndex(msgspec.Struct, frozen=True, kw_only=True):
    """A committed snapshot: everything that a restore needs, by name and checksum."""

    job: str
    graph: str
    """Identity of the graph that wrote it: its vertices, edges and windows."""
    python: str
    slots: int
    epoch: Epoch
    fence: Fence
    cut: Time
    segments: tuple[SegmentRef, ...]
    fronts: tuple[FrontPosition, ...]
    outputs: tuple[SlotOutput, ...]
    held: tuple[SegmentRef, ...] = ()
    """Output below the cut that may leave now that it is committed, and that no consumer surely has
    (`exactly-once-2pc`, `at-most-once`)."""
    requests: tuple[SegmentRef, ...] = ()
    """Requests of calls below the cut whose answer is not below it."""
    code: tuple[CodeSpan, ...] = ()
    """The application's versions that made the snapshot and what was delivered below it, oldest first; empty
    if nobody said."""
    inventory: Inventory | None = None
    """None: it was written before operations had names, and rows have their places in the graph."""
    format: FormatNumber = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raises ValueError for one that only a newer release reads."""
        refuse_newer(self.format)

    @property
    def of_states(self) -> "SnapshotIndex":
        """The same, with what it says of the states of keys alone."""
        return msgspec.structs.replace(self, fronts=(), outputs=(), held=(), requests=(), code=())

    @property
    def parts(self) -> tuple[SegmentRef, ...]:
        """All that it needs."""
        return (*self.segments, *self.held, *self.requests)
