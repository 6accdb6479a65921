"""Simulated producers: the outside of each front, with bounded lists of records a partition.

A replayable one gives any record again. One that is not (a socket) keeps a record only until it is told that
the record is in the journal, or in a snapshot: asked for it again, it has lost it. Records come late or out
of their own time's order, partitions are discovered while the job runs, and a front may be idle for long. One
that is open (a socket that nobody writes to, a topic) says that it has ended only when the simulator closes
it, which is when everything else is through: while it is idle, nobody may wait for it.

Does not: stamp (core/worker/front.py), or know which records have entered (oracle.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flamestream.core.protocol.actions import Follow, Pull, ReadRun, Saved
from flamestream.core.protocol.events import Entry, Event, RecordsArrived, RunRead, SourceEnded
from flamestream.model import payload as codec
from flamestream.model.ids import NO_FENCE, Fence, Offset, Partition
from flamestream.model.time import FrontId, Time, Timestamp
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

LOOK_AGAIN = 5_000
"""Microseconds until an open producer sees that it was closed."""
RECORD_SIZE = 20
"""Bytes of input that each record counts for."""


@dataclass(frozen=True, slots=True)
class SimRecord:
    """A record, when it can be read, and its own time."""

    payload: object
    available: int
    hint: Timestamp


@dataclass(slots=True)
class SourceSite:
    """The outside of one front. It outlives every process."""

    front: FrontId
    timed: bool
    replayable: bool
    partitions: dict[Partition, list[SimRecord]]
    run_length: int = 1
    step: int = 1
    """Timestamps from a run of a timed front to the next."""
    open: bool = False
    """There may be more behind the last record."""
    kept_from: dict[Partition, Offset] = field(default_factory=dict)
    """Records before are forgotten, for they are in the journal. Only of one that is not replayable."""
    followed: Fence = NO_FENCE
    """The newest fence under which it was followed: what a zombie asks for does not matter."""

    @property
    def total(self) -> int:
        """The number of records of all partitions."""
        return sum(len(records) for records in self.partitions.values())


@dataclass(slots=True)
class _Reader:
    """A process's progress in reading a front."""

    fence: Fence = NO_FENCE
    offsets: dict[Partition, Offset] = field(default_factory=dict)
    room: int = 0
    size: int = 0
    due: bool = False
    ended: bool = False
    reads: int = 0
    """When the newest answer to ReadRun is due: they come in order."""


class ProducerPort:
    """The connection of one worker process to one producer (`ports.Producer`)."""

    def __init__(self, world: World, site: SourceSite, delay: int, post: Callable[[Event], None]) -> None:
        self._world = world
        self._site = site
        self._delay = delay
        self._post = post
        self._alive = True
        self._reader = _Reader()

    def close(self) -> None:
        """The process is gone."""
        self._alive = False

    def read(self, action: ReadRun) -> None:
        """Answered in the order asked."""
        reader = self._reader_of(action.fence)
        slow = 20 if self._world.hits(Fault.SOURCE_REREAD_SLOW) else 1
        reader.reads = max(reader.reads, self._world.now + slow * self._world.between(1, self._delay))
        self._world.after(
            reader.reads - self._world.now,
            self._say,
            RunRead(action.fence, action.front, action.entry, self._again(action.entry)),
        )

    def follow(self, action: Follow) -> None:
        """Read on from the offsets."""
        reader = self._reader_of(action.fence)
        reader.offsets = dict(action.offsets)
        reader.ended = False
        self._site.followed = max(self._site.followed, action.fence)
        for partition, kept in self._site.kept_from.items() if action.fence == self._site.followed else ():
            asked = reader.offsets.get(partition, 0)
            lost = (
                f"front {self._site.front} follows {partition} from {asked}, but the producer was told that "
                f"all below {kept} is durable"
            )
            self._world.require(asked >= kept, "3 input", lost)
        self._look(reader)

    def pull(self, action: Pull) -> None:
        """There is room for this much."""
        reader = self._reader_of(action.fence)
        reader.room, reader.size = action.records, action.size
        self._look(reader)

    def durable(self, time: Time, partition: Partition, upto: Offset) -> None:
        """A producer that cannot replay forgets what is in the journal."""
        if not self._site.replayable:
            self._site.kept_from[partition] = max(self._site.kept_from.get(partition, Offset(0)), upto)

    def saved(self, action: Saved) -> None:
        """A producer that cannot replay forgets what is in a snapshot."""
        for partition, upto in action.offsets.items():
            self.durable(action.cut, partition, upto)

    # --- inside ---------------------------------------------------------------------------------------------

    def _reader_of(self, fence: Fence) -> _Reader:
        """A new fence begins anew."""
        if fence != self._reader.fence:
            self._reader = _Reader(fence)
        return self._reader

    def _again(self, entry: Entry) -> Sequence[object]:
        if entry.payloads:
            return codec.decode_many(entry.payloads)
        records = self._site.partitions[entry.partition][entry.first : entry.first + entry.count]
        return [record.payload for record in records]

    def _look(self, reader: _Reader) -> None:
        """See what can be read, soon."""
        if not reader.due:
            reader.due = True
            self._world.after(self._world.between(1, self._delay), self._give, reader)

    def _give(self, reader: _Reader) -> None:
        """Give one batch of one partition; then look again when there is more to come."""
        reader.due = False
        # Another reader: a new fence has begun, and the records would be of an attempt that is over.
        if not self._alive or reader is not self._reader or reader.ended:
            return
        if all(reader.offsets.get(p, 0) >= len(records) for p, records in self._site.partitions.items()):
            self._at_end(reader)
            return
        ready = [p for p in self._site.partitions if self._ready(reader, p)]
        if ready and reader.room > 0 and reader.size > 0:
            self._arrive(reader, self._world.rng.choice(ready))
            self._look(reader)
        elif not ready:
            self._wait(reader)

    def _at_end(self, reader: _Reader) -> None:
        """Everything was given: that is the end, unless more may come."""
        if self._site.open:
            reader.due = True
            self._world.after(LOOK_AGAIN, self._give, reader)
            return
        reader.ended = True
        self._say(SourceEnded(reader.fence, self._site.front))

    def _ready(self, reader: _Reader, partition: Partition) -> bool:
        records, offset = self._site.partitions[partition], reader.offsets.get(partition, Offset(0))
        return offset < len(records) and records[offset].available <= self._world.now

    def _arrive(self, reader: _Reader, partition: Partition) -> None:
        """Up to a random number of the records that are there."""
        records, first = self._site.partitions[partition], reader.offsets.get(partition, Offset(0))
        most = min(reader.room, max(1, reader.size // RECORD_SIZE), self._world.between(1, 6))
        # order is offsets'
        batch = [record for record in records[first : first + most] if record.available <= self._world.now]
        reader.offsets[partition] = Offset(first + len(batch))
        reader.room -= len(batch)
        reader.size -= RECORD_SIZE * len(batch)
        payloads = [record.payload for record in batch]
        size = RECORD_SIZE * len(batch)
        self._say(
            RecordsArrived(reader.fence, self._site.front, partition, first, payloads, size, batch[0].hint)
        )

    def _wait(self, reader: _Reader) -> None:
        """Until the next record of any partition is there."""
        site = self._site
        next_ones = [
            r[o].available for p, r in site.partitions.items() if (o := reader.offsets.get(p, 0)) < len(r)
        ]
        reader.due = True
        self._world.after(max(1, min(next_ones) - self._world.now), self._give, reader)

    def _say(self, event: Event) -> None:
        if self._alive:
            self._post(event)
