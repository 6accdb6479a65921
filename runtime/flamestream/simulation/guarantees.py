"""The invariants where another guarantee changes them.

    exactly-once-2pc  nothing leaves before the epoch that it belongs to is committed, and a committed
                      snapshot holds, byte for byte, what consumers may still lack below its cut
    at-most-once      so too; and a run above the cut counts for nothing once another attempt has begun. What is
                      skipped had entered in one that is over, and is counted, record for record
    at-least-once     definition 6 once repeats of equal (meta, bytes) are removed: what a slot gets is a
                      prefix of the reference's, each item for the first time in order, and whoever delivers
                      begins at or below what is there already
    none              each attempt starts empty and reads everything from the beginning: what consumers get of
                      it is definition 6 for the runs of that attempt alone, and the one that completes has
                      delivered everything

Does not: change any other invariant (invariants.py).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from flamestream.core.dataflow.held_outputs import bundle_in
from flamestream.core.protocol.actions import Bundle, MakeCall
from flamestream.core.protocol.chain import chains_of
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model import payload as codec
from flamestream.model.ids import NO_FENCE, Fence, Offset, Partition, SinkName, Slot
from flamestream.model.meta import Meta, floor, time_of_meta
from flamestream.model.state_names import number_of_sink
from flamestream.model.time import END, START, FrontId, Time
from flamestream.simulation.invariants import Invariants
from flamestream.simulation.oracle import Oracle
from flamestream.simulation.outside.stores import Store
from flamestream.simulation.world import World


class TwoPhases(Invariants):
    """Output leaves with its epoch."""

    def bundle_taken(self, sink: SinkName, fence: Fence, bundle: Bundle) -> None:
        """A consumer took a bundle that is new to it: it was committed."""
        # By the record, which is written before anybody hears of the commit.
        cut = self._committed.cut if self._committed is not None else START
        early = (
            f"slot {bundle.slot} of {sink} got a result of {time_of_meta(Meta(bundle.t_last))}, "
            f"committed is {cut}"
        )
        self._world.require(bundle.t_last < floor(cut), "5 commit", early)
        super().bundle_taken(sink, fence, bundle)

    def _covers(self, index: SnapshotIndex) -> None:
        """Consumers have everything below the cut before; from there on the snapshot holds it, and nothing
        else."""
        self._oracle.advance(index.cut)
        held = self._held(index)
        if held is None:
            return
        # Of the epoch before: `_committed` becomes the new one behind this look.
        before = floor(self._committed.cut if self._committed is not None else START)
        for sink, slot, count in self._oracle.due(index.cut):
            expected, taken = self._oracle.expected(sink, slot), self._has(sink, slot)
            first = bisect_left(expected.metas, before)
            lacks = (
                f"epoch {index.epoch} is committed at {index.cut}, slot {slot} of {sink} has {taken} "
                f"items, {first} below the last"
            )
            self._world.require(taken >= first, "5 commit", lacks)
            wanted = list(zip(expected.metas[first:count], expected.payloads[first:count], strict=True))
            found = held.pop((sink, slot), [])
            same = len(found) == len(wanted) and all(
                one[0] == other[0] and self.same(one[1], other[1])
                for one, other in zip(found, wanted, strict=True)
            )
            self._world.require(
                same,
                "5 commit",
                f"epoch {index.epoch} holds {found} for slot {slot} of {sink}, not {wanted}",
            )
        self._world.require(
            not held, "5 commit", f"epoch {index.epoch} holds output that there is not: {held}"
        )

    def _held(self, index: SnapshotIndex) -> dict[tuple[SinkName, Slot], list[tuple[bytes, bytes]]] | None:
        names = {number_of_sink(vertex.name): SinkName(vertex.name) for vertex in self._oracle.graph.sinks}
        if self._oracle.dead_letter is not None:
            names[number_of_sink(self._oracle.dead_letter)] = self._oracle.dead_letter
        rows = []
        for ref in index.held:
            data = self._store.objects.get(ref.name)
            if data is None:
                raise self._world.fail(
                    "5 commit", f"segment {ref.name} of epoch {index.epoch} does not exist"
                )
            if ref.name in self._store.damaged:
                return None
            rows += self._stored.rows(ref.name, data)
        found: dict[tuple[SinkName, Slot], list[tuple[bytes, bytes]]] = {}
        for chain in sorted(chains_of(rows), key=lambda chain: chain.key):
            items = codec.decode_items(bundle_in(chain).items)
            found.setdefault((names[chain.operation], chain.slot), []).extend(
                (meta, codec.encode(payload)) for meta, payload in items
            )
        if found:
            self._world.trace.cover("snapshot.holds output")
        return found


class AtMostOnce(TwoPhases):
    """A failure loses what had entered above the cut, and counts it."""

    def __init__(self, world: World, oracle: Oracle, store: Store) -> None:
        super().__init__(world, oracle.anew(all_told=True), store)
        self._before = self._oracle
        """The truth of the attempt before."""
        self._fence = NO_FENCE
        self._runs: list[tuple[FrontId, Entry]] = []
        """Those that count: below the committed cut, and of the newest attempt."""
        self._lost: dict[FrontId, set[tuple[Partition, int]]] = {}
        """Records of runs that had entered in an attempt that is over."""

    def record_written(self, old: JobRecord | None, new: JobRecord) -> None:
        """A commit, which is judged by the attempt that it is of; or a new attempt."""
        super().record_written(old, new)
        if new.fence == self._fence:
            return
        for front, entry in self._runs:
            if entry.time >= new.cut:
                self._lost.setdefault(front, set()).update(_records_of(entry))
        self._fence, self._before = new.fence, self._oracle
        self._oracle = self._oracle.anew(all_told=True)
        self._runs = [(front, entry) for front, entry in self._runs if entry.time < new.cut]
        for front, entry in self._runs:
            self._tell(front, entry)
        if self._committed is not None:
            self._stand(self._committed)
        self._oracle.advance(new.cut)

    def entered(self, fence: Fence, front: FrontId, entry: Entry) -> None:
        """A front stamps a run. One of an attempt that is over is known to nobody."""
        super().entered(fence, front, entry)
        if fence == self._fence:
            self._runs.append((front, entry))
            self._tell(front, entry)

    def failed_on_an_error(self, detail: str, *, all_below: bool) -> None:
        """The job says that it has failed on an error item: of this attempt, or of the one before, whose word
        may have come when the next was in the record already."""
        self._oracle.advance(END)
        if self._oracle.error_at is None:
            self._oracle = self._before
        super().failed_on_an_error(detail, all_below=all_below)

    def _tell(self, front: FrontId, entry: Entry) -> None:
        self._skip(front, entry.partition, entry.first)
        self._oracle.durable(front, entry)

    def _stand(self, index: SnapshotIndex) -> None:
        """Fronts stand where a snapshot says, also where no run has come since."""
        for position in index.fronts:
            for partition, upto in position.offsets.items():
                self._skip(position.front, partition, upto)

    def _skip(self, front: FrontId, partition: Partition, upto: Offset) -> None:
        """A front has come to `upto`: what did not enter was skipped."""
        news = {(partition, number) for number in self._oracle.skipped(front, partition, upto)}
        unread = sorted(news - self._lost.get(front, set()))
        self._world.require(not unread, "3 input", f"front {front} skips {unread}, which had not entered")
        if news:
            self._world.trace.cover("front.skipped records")

    def _positions(self, index: SnapshotIndex) -> None:
        """Each front stands behind what has entered and what was skipped, and has counted both."""
        self._stand(index)
        for position in index.fronts:
            runs = [run for front, run in self._runs if front == position.front and run.time < index.cut]
            entered = {record for run in runs for record in _records_of(run)}
            read = {(name, number) for name, upto in position.offsets.items() for number in range(upto)}
            last = max((run.time for run in runs), default=self._oracle.begun(position.front))
            wrong = f"epoch {index.epoch} says {position}, {sorted(entered)} have entered, the last at {last}"
            self._world.require(entered <= read, "4 snapshot", wrong)
            counted = (last, len(read), len(read - entered))
            same = (position.last, position.records, position.skipped) == counted
            self._world.require(same, "4 snapshot", wrong)


def _records_of(run: Entry) -> Iterator[tuple[Partition, int]]:
    return ((run.partition, number) for number in range(run.first, run.next))


class AtLeastOnce(Invariants):
    """Output may come again."""

    def bundle_taken(self, sink: SinkName, fence: Fence, bundle: Bundle) -> None:
        """A consumer got a bundle: each item is where it belongs, and none is left out."""
        where = f"bundle {bundle.sequence} of slot {bundle.slot} of {sink}"
        self._oracle.advance(Time(time_of_meta(Meta(bundle.t_last)) + 1))
        expected, key = self._oracle.expected(sink, bundle.slot), (sink, bundle.slot)
        for meta, payload in codec.decode_items(bundle.items):
            place, encoded = bisect_left(expected.metas, meta), codec.encode(payload)
            there = (
                place < len(expected.metas)
                and expected.metas[place] == meta
                and self.same(encoded, expected.payloads[place])
            )
            self._world.require(
                there, "2 prefix", f"{where}: {payload!r} at {meta.hex()} is not the reference's"
            )
            have = self._taken.get(key, 0)
            self._world.require(
                place <= have, "2 prefix", f"{where}: item {place} came where {have} was next"
            )
            if place < have:
                self._world.trace.cover("consumer.repeated item")
            self._taken[key] = max(have, place + 1)


class NoGuarantee(Invariants):
    """Each attempt is a job of its own."""

    def __init__(self, world: World, oracle: Oracle, store: Store) -> None:
        super().__init__(world, oracle, store)
        self._attempts: dict[Fence, AtLeastOnce] = {}
        self._codes: dict[Fence, str] = {}
        """The application of each attempt, by its digest."""
        self._record_fence = NO_FENCE

    def record_written(self, old: JobRecord | None, new: JobRecord) -> None:
        """A new attempt, or the end."""
        super().record_written(old, new)
        self._codes[new.fence], self._record_fence = new.code, new.fence
        self._world.require(new.committed == 0, "5 commit", "a job without a guarantee commits")

    def ticked(self, old: JobRecord, new: JobRecord) -> None:
        """Other code begins like any attempt: empty."""

    def entered(self, fence: Fence, front: FrontId, entry: Entry) -> None:
        """A front stamps a run."""
        super().entered(fence, front, entry)
        self._of(fence).entry_durable(front, entry)

    def asked(self, action: MakeCall) -> None:
        """The outside is asked, in an attempt that knows of no other's answers."""
        self._of(action.fence).asked(action)

    def bundle_taken(self, sink: SinkName, fence: Fence, bundle: Bundle) -> None:
        """A consumer got a bundle."""
        self._of(fence).bundle_taken(sink, fence, bundle)

    def finished(self) -> None:
        """The job says that it is complete."""
        self._of(self._record_fence).finished()

    def all_through(self) -> bool:
        """Whether the newest attempt has read and delivered everything."""
        return self._of(self._record_fence).all_through()

    def failed_on_an_error(self, detail: str, *, all_below: bool) -> None:
        """The job says that it has failed on an error item."""
        self._of(self._record_fence).failed_on_an_error(detail, all_below=all_below)

    @property
    def delivered(self) -> int:
        """Items of all attempts."""
        return sum(attempt.delivered for attempt in self._attempts.values())

    def _of(self, fence: Fence) -> AtLeastOnce:
        if fence not in self._attempts:
            self._world.trace.cover("job.began anew" if self._attempts else "job.began")
            # a job of its own
            graph = None if self.graph_of is None else self.graph_of(self._codes[fence])
            self._attempts[fence] = AtLeastOnce(self._world, self._oracle.anew(graph), self._store)
            self._attempts[fence].drift = self.drift
        return self._attempts[fence]


OF_GUARANTEE: Mapping[str, type[Invariants]] = {
    "exactly-once-2pc": TwoPhases,
    "at-most-once": AtMostOnce,
    "at-least-once": AtLeastOnce,
    "none": NoGuarantee,
}
