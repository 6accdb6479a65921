"""The invariants of the design, watched from outside and above, at the event that could break them.

| invariant                  | looked at when |
|----------------------------|-----|
| 1 minimal time             | an acker tells a time (nothing sent under an older cause is unprocessed), a run enters |
| 2 prefix                   | a consumer takes a bundle: it continues what the oracle says |
| 3 input                    | an entry becomes durable, a producer is asked again, and at the end |
| 4 snapshot                 | a commit: the stored rows are the oracle's state at the cut, positions are its too |
| 5 commit                   | a commit (nothing that a consumer lacks), an object is deleted |
| 6 fence                    | a consumer, a journal or the job record takes a write |
| 8 bounds                   | every queue, and each worker's released items against the credit of the fronts |
| 11 calls                   | the outside is asked, an answer becomes durable, and at the end |
| 12 ticks                   | other code goes on: the code before has claimed nothing above its cut |
| 9 liveness, 10 determinism | simulator.py |

Invariant 7 (layout changes no byte) needs no check of its own: the oracle knows no layout. It is longer than
other modules, for whoever doubts a run can read all that it is held to.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

import msgspec

from flamestream.core.protocol.actions import Bundle, MakeCall
from flamestream.core.protocol.events import Entry, LastBundle
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Data, Frame
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.worker.front import TimedFront
from flamestream.core.worker.worker import Worker
from flamestream.model import payload as codec
from flamestream.model.calls.call import calls_of
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Attempt, Fence, SinkName, Slot, WorkerId
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import END, START, FrontId, Time, front_of, step_after
from flamestream.simulation.drift import DriftWatch, plain
from flamestream.simulation.oracle import Oracle
from flamestream.simulation.outside.stores import Store, checksum
from flamestream.simulation.stored_state import StoredState
from flamestream.simulation.world import Difference, World

_indexes = msgspec.msgpack.Decoder(SnapshotIndex)


class Invariants:
    """All of them, for one run."""

    def __init__(self, world: World, oracle: Oracle, store: Store) -> None:
        self._world = world
        self._oracle = oracle
        self._store = store
        self._taken: dict[tuple[SinkName, Slot], int] = {}
        self._opened: dict[tuple[SinkName, Slot], Fence] = {}
        self._told: dict[Fence, Time] = {}
        self._in_flight: dict[Fence, dict[tuple[WorkerId, WorkerId, int], Time]] = {}
        self._committed: SnapshotIndex | None = None
        self._committed_name = ""
        self._stored = StoredState(world, store)
        self._asked: set[str] = set()
        """Ids of all calls that were made."""
        self._credit = 0
        """The greatest of any worker."""
        self._come_to: dict[FrontId, Time] = {}
        """How far each timed front has ever promised, in any attempt."""
        self._unseen: set[tuple[SinkName, Slot]] = set()
        """Slots whose consumer has lost data, and was not opened since: nobody can know yet."""
        self.lost: set[tuple[SinkName, Slot]] = set()
        """All slots that ever lost data."""
        self.graph_of: Callable[[str], Graph] | None = None
        """The graph of an application, by its digest, if that is changed."""
        self.drift: DriftWatch | None = None
        """The watch over a function that is not deterministic, if the job has one."""

    @property
    def delivered(self) -> int:
        """Items that consumers have taken."""
        return sum(self._taken.values())

    # --- 2, 6: consumers ------------------------------------------------------------------------------------

    def opened(self, sink: SinkName, fence: Fence, slots: Sequence[Slot]) -> None:
        """A consumer promised to refuse everything older."""
        for slot in slots:
            self._opened[sink, slot] = max(fence, self._opened.get((sink, slot), NO_FENCE))
            self._unseen.discard((sink, slot))

    def bundles_lost(self, sink: SinkName, slot: Slot, bundles: Sequence[LastBundle]) -> None:
        """A consumer has lost them. Whoever opens the slot can see it, and must deliver them again or say
        that data is lost."""
        self.lost.add((sink, slot))
        self._unseen.add((sink, slot))
        self._taken[sink, slot] -= sum(len(codec.decode_items(bundle.items)) for bundle in bundles)
        if self.drift is not None:
            self.drift.lost((sink, slot))

    def bundle_taken(self, sink: SinkName, fence: Fence, bundle: Bundle) -> None:
        """A consumer took a bundle that is new to it."""
        world, oracle, where = (
            self._world,
            self._oracle,
            f"bundle {bundle.sequence} of slot {bundle.slot} of {sink}",
        )
        newest = self._opened.get((sink, bundle.slot), NO_FENCE)
        world.require(
            fence >= newest, "6 fence", f"{where} of {fence} was taken, though {newest} had opened the slot"
        )
        items = codec.decode_items(bundle.items)
        world.require(
            bool(items) and items[-1][0] == bundle.t_last,
            "2 prefix",
            f"{where}: t_last is not the meta of its last item",
        )
        time = time_of_meta(Meta(bundle.t_last))
        # Taking it claims that nothing enters up to its time any more: a run that does is found.
        oracle.advance(Time(time + 1))
        encoded = [(meta, codec.encode(payload)) for meta, payload in items]
        self._continues(where, (sink, bundle.slot), encoded)
        if self.drift is not None:
            self.drift.taken((sink, bundle.slot), fence, encoded)

    def same(self, payload: bytes, expected: bytes) -> bool:
        """Whether a result is the reference's, but for the mark of a function that is not deterministic."""
        return payload == expected or (self.drift is not None and plain(payload) == plain(expected))

    def _continues(self, where: str, key: tuple[SinkName, Slot], items: list[tuple[bytes, bytes]]) -> None:
        expected, place = self._oracle.expected(*key), self._taken.get(key, 0)
        for meta, payload in items:
            due = place < len(expected.metas)
            if not due or meta != expected.metas[place] or not self.same(payload, expected.payloads[place]):
                got, wanted = (
                    repr(codec.decode(payload)),
                    repr(codec.decode(expected.payloads[place])) if due else "",
                )
                instead = f"instead of {wanted} at {expected.metas[place].hex()}" if due else "is too much"
                raise self._world.fail(
                    "2 prefix", f"{where}: {got} at {meta.hex()} {instead}", Difference(key[0], got, wanted)
                )
            place += 1
        self._taken[key] = place

    # --- 3: input -------------------------------------------------------------------------------------------

    def entry_durable(self, front: FrontId, entry: Entry) -> None:
        """A journal entry counts from now on."""
        self._oracle.durable(front, entry)

    def asked(self, action: MakeCall) -> None:
        """The outside is asked: for a request that is final, and once only where it must not be again."""
        world, name = self._world, str(action.call)
        self._oracle.advance(Time(time_of_meta(action.request) + 1))
        final = self._oracle.requests[name].get(action.request) == action.payload
        world.require(final, "11 calls", f"{name} asks what is no request: {codec.decode(action.payload)!r}")
        once = calls_of(self._oracle.graph)[name].settings.doubt == "never"
        world.require(
            not (once and action.id in self._asked), "11 calls", f"{name} is made twice for {action.id}"
        )
        self._asked.add(action.id)

    def finished(self) -> None:
        """The job says that it is complete."""
        missing = self._oracle.missing_input()
        self._world.require(not missing, "3 input", f"the job is complete without {missing}")
        self._oracle.advance(END)
        unanswered = self._oracle.unanswered()
        self._world.require(not unanswered, "11 calls", f"the job is complete without {unanswered}")
        self._world.require(
            self._oracle.error_at is None,
            "2 prefix",
            "the job is complete in spite of an error item under onError: fail",
        )
        self.all_delivered("the job is complete")

    def failed_on_an_error(self, detail: str, *, all_below: bool) -> None:
        """The job says that it has failed on an error item; if nothing went wrong, everything below it has
        been delivered."""
        self._oracle.advance(END)
        self._world.require(self._oracle.error_at is not None, "2 prefix", detail)
        if all_below:
            self.all_delivered("the job has failed on a user error")

    def all_through(self) -> bool:
        """Whether everything has entered, and consumers have all that there will be."""
        if self._oracle.missing_input() or self._oracle.unanswered():
            return False
        self._oracle.advance(self._oracle.over)
        return all(self._has(sink, slot) >= count for sink, slot, count in self._oracle.due(END))

    def all_delivered(self, why: str) -> None:
        """Consumers have all that there is, below the first error if there is one."""
        for sink, slot, count in self._oracle.due(END):
            taken = self._taken.get((sink, slot), 0)
            complete = taken == count or (sink, slot) in self._unseen
            self._world.require(
                complete, "3 input", f"{why}, slot {slot} of {sink} has {taken} of {count} items"
            )

    def _has(self, sink: SinkName, slot: Slot) -> float:
        """Items that a consumer has as far as anybody can know."""
        return inf if (sink, slot) in self._unseen else self._taken.get((sink, slot), 0)

    # --- 1: minimal time ------------------------------------------------------------------------------------

    def sent(self, sender: WorkerId, peer: WorkerId, frame: Frame) -> None:
        """A frame leaves: its items are in flight until the receiver has processed it."""
        causes = []
        for message in frame.messages:
            self._world.trace.cover(f"peer.{type(message).__name__}")
            if type(message) is Data:
                causes.append(message.cause)
                if True in message.tombstones:
                    self._world.trace.cover("peer.tombstone")
        if causes:
            # Until it is processed: a lost frame stays, and no minimal time of its attempt may pass it.
            self._in_flight.setdefault(frame.fence, {})[sender, peer, frame.sequence] = min(causes)

    def processed(self, receiver: WorkerId, sender: WorkerId, frame: Frame) -> None:
        """The receiver's step with this frame is over."""
        if (flying := self._in_flight.get(frame.fence)) is not None:
            # a duplicate comes a second time
            flying.pop((sender, receiver, frame.sequence), None)

    def told(self, fence: Fence, time: Time) -> None:
        """The acker of an attempt tells all that nothing is in flight below `time`."""
        before = self._told.get(fence, START)
        if time == before:
            return
        self._world.require(
            time > before, "1 minimal time", f"minimal time of {fence} goes back from {before} to {time}"
        )
        self._told[fence] = time
        oldest = min(self._in_flight.get(fence, {}).values(), default=END)
        self._world.require(
            oldest >= time,
            "1 minimal time",
            f"minimal time of {fence} is {time}, an item with cause {oldest} is in flight",
        )

    def entered(self, fence: Fence, front: FrontId, entry: Entry) -> None:
        """A front stamps a run, or replays one."""
        told = self._told.get(fence, START)
        # A proof may have been asked for before all was over, which brings nothing.
        proves = told == END and entry.is_pledge
        self._world.require(
            proves or entry.time >= told,
            "1 minimal time",
            f"front {front} enters a run at {entry.time}, {fence} was told {told}",
        )

    # --- 4, 5, 6: the job record and what it points to ------------------------------------------------------

    def record_written(self, old: JobRecord | None, new: JobRecord) -> None:
        """A compare-and-set took effect."""
        if self.drift is not None and (old is None or new.attempt > old.attempt):
            self.drift.attempt_begins(new.attempt, new.cut)
        self._fronts_of(old, new)
        if old is None:
            return
        world = self._world
        before, now = len(old.layout.owners), len(new.layout.owners)
        world.require(
            before == now,
            "2 prefix",
            f"the job goes on with {now} slots, and consumers know its output by {before}",
        )
        world.require(
            new.attempt >= old.attempt,
            "6 fence",
            f"the record goes from attempt {old.attempt} to {new.attempt}",
        )
        world.require(
            new.announced >= old.announced,
            "5 commit",
            f"epoch numbers go back from {old.announced} to {new.announced}",
        )
        world.require(
            (new.committed, new.cut) >= (old.committed, old.cut),
            "5 commit",
            f"epoch {new.committed} after {old.committed}",
        )
        world.require(new.cut >= old.cut, "5 commit", f"the cut goes back from {old.cut} to {new.cut}")
        if (new.committed, new.index) != (old.committed, old.index):
            world.require(
                new.committed > old.committed, "5 commit", f"epoch {new.committed} is committed twice"
            )
            world.require(
                # the one that begins there has a layout of its own
                new.attempt == old.attempt + (new.layout != old.layout),
                "6 fence",
                f"epoch {new.committed} is committed together with attempt {new.attempt}",
            )
            self._commit(new, old.attempt)
            if new.layout != old.layout and new.code == old.code:
                world.trace.cover("epoch.moved slots")
        if new.code != old.code and self.graph_of is not None:
            self.ticked(old, new)

    def _fronts_of(self, old: JobRecord | None, new: JobRecord) -> None:
        """A number is one front's for good, and neither where that begins changes, nor how its times are made."""
        before = old.fronts if old is not None else ()
        for number, front in enumerate(new.fronts):
            known = before[number] if number < len(before) else None
            back = known is not None and known.away and front.again and not front.away
            begins = (None, front.begins) if known is None or not back else (known.begins,)
            same = known is None or (
                (known.name, known.runs) == (front.name, front.runs) and known.begins in begins
            )
            self._world.require(same, "13 fronts", f"front {number} was {known}, and is {front}")
            if front.begins is not None and (known is None or known.begins is None) and old is not None:
                self._world.trace.cover("front.began in a stream that ran")
            if front.away and known is not None and not known.away:
                self._world.trace.cover("front.gone")
                self._oracle.gone(FrontId(number), new.cut)
            elif back:
                self._world.trace.cover("front.back")
            if front.begins is not None and not front.away:
                self._oracle.begins(FrontId(number), front.name, front.begins)

    def ticked(self, old: JobRecord, new: JobRecord) -> None:
        """Other code goes on from the cut: that before has claimed nothing above."""
        assert self.graph_of is not None, "code is changed where the plan says so"
        told = self._told.get(old.fence, START)
        above = f"other code goes on from {new.cut}, and the code before was told {told}"
        self._world.require(told <= new.cut, "12 ticks", above)
        self._oracle.tick(new.cut, self.graph_of(new.code))

    def _commit(self, record: JobRecord, attempt: Attempt) -> None:
        self._world.trace.cover("epoch.committed")
        data = self._store.objects.get(record.index)
        if data is None or (checksum(data) != record.index_hash and record.index not in self._store.damaged):
            raise self._world.fail(
                "5 commit", f"index {record.index} is not what epoch {record.committed} committed"
            )
        if record.index in self._store.damaged:
            return
        index = _indexes.decode(data)
        same = (index.epoch, index.cut, index.fence.attempt) == (
            record.committed,
            record.cut,
            attempt,
        )
        self._world.require(
            same,
            "5 commit",
            f"index {record.index} is of another epoch, cut or attempt than the record",
        )
        slots = f"index {record.index} is of {index.slots} slots, the job has {len(record.layout.owners)}"
        self._world.require(index.slots == len(record.layout.owners), "4 snapshot", slots)
        # Before it counts as the committed one: under two phases this is judged from the cut before.
        self._covers(index)
        self._committed, self._committed_name = index, record.index
        self._positions(index)
        self._stored.check(index, self._oracle)

    def _covers(self, index: SnapshotIndex) -> None:
        """Consumers have everything below the cut."""
        self._oracle.advance(index.cut)
        for sink, slot, count in self._oracle.due(index.cut):
            taken = self._has(sink, slot)
            lacks = (
                f"epoch {index.epoch} is committed at {index.cut}, slot {slot} of {sink} has {taken} "
                f"of {count} items below"
            )
            self._world.require(taken >= count, "5 commit", lacks)

    def _positions(self, index: SnapshotIndex) -> None:
        for position in index.fronts:
            last, offsets = self._oracle.position_at(position.front, index.cut)
            here = {p: o for p, o in position.offsets.items() if o}
            wrong = (
                f"epoch {index.epoch} says front {position.front} stood at {position.last} {here}, it was "
                f"at {last} {offsets}"
            )
            self._world.require((last, offsets) == (position.last, here), "4 snapshot", wrong)

    def deleting(self, name: str) -> None:
        """An object is about to be removed."""
        if self._committed is not None:
            needed = {
                self._committed_name,
                *(ref.name for ref in self._committed.parts),
            }
            self._world.require(
                name not in needed, "5 commit", f"{name} is deleted, epoch {self._committed.epoch} needs it"
            )

    # --- 8: bounds ------------------------------------------------------------------------------------------

    def look_into(self, workers: Sequence[Worker]) -> None:
        """Released and not acknowledged, or asking above what a call lets wait: no more runs of a front than it
        has credit for, apart from those that the journal replays."""
        replayed: dict[tuple[Fence, FrontId], int] = {}
        # The greatest that there ever was: settings are edited, and what waits may have been let in by a life
        # that is over.
        credit = self._credit = max([self._credit, *(worker.settings.credit_runs for worker in workers)])
        for worker in workers:
            for front, entries in worker._fronts.sealing.entries.items():
                replayed[worker.fence, front] = len(entries)
        answers = {each.me: {f.front for f in each.settings.fronts if f.of_call} for each in workers}
        for worker in workers:
            waiting = [(runs, "for a consumer") for runs in _waiting_runs(worker).items()]
            waiting += [(runs, "to be asked about") for runs in _runs_above_pending(worker).items()]
            for (front, times), wait in waiting:
                if front in answers[worker.me]:
                    continue  # answers take no credit: what is asked was let in already
                most = credit + 1 + replayed.get((worker.fence, front), 0)
                much = (
                    f"{len(times)} runs of front {front} wait at {worker.me} {wait}, the greatest credit is "
                    f"{credit}"
                )
                self._world.require(len(times) <= most, "8 bounds", much)

    def answers_are_between(self, worker: Worker) -> None:
        """After each pass: answers beside timed fronts have entered before the next run of these, or right
        behind. Further on they would wait for it, in memory and without credit, maybe until its end."""
        fronts, answers = worker._fronts._fronts, worker._fronts._beside_timed
        if not answers:
            return
        for front in fronts.values():
            if isinstance(front, TimedFront):
                self._come_to[front.id] = max(front.promise(), self._come_to.get(front.id, START))
        timed = [each for each in worker.settings.fronts if each.timed]
        come_to = min(self._come_to.get(each.front, START) for each in timed)
        if come_to != END:
            for number in answers & fronts.keys():
                late = f"front {number} of answers has come to {fronts[number].last}, timed ones to {come_to}"
                most = step_after(come_to, number, timed[0].step)
                self._world.require(fronts[number].last < most, "8 bounds", late)


def _waiting_runs(worker: Worker) -> dict[FrontId, set[Time]]:
    return _by_front(
        time for delivery in worker._outputs.deliveries.values() for time in delivery.waiting_times()
    )


def _runs_above_pending(worker: Worker) -> dict[FrontId, set[Time]]:
    """Runs of the newest requests, of which there are more than the call lets wait: they were let in before it
    was full, so their credit is still taken (!). Those of the snapshot have none."""
    newest = list[Time]()
    for requests in worker._calls._calls.values():
        if (above := requests.unanswered - requests._settings.pending) > 0:
            unanswered = [meta for meta, each in requests._requests.items() if each.answered is None]
            times = (time_of_meta(Meta(meta)) for meta in sorted(unanswered)[-above:])
            newest += (time for time in times if time >= requests._cut)
    return _by_front(newest)


def _by_front(times: Iterable[Time]) -> dict[FrontId, set[Time]]:
    runs: dict[FrontId, set[Time]] = {}
    for time in times:
        runs.setdefault(front_of(time), set()).add(time)
    return runs


def told_by(worker: Worker) -> Time | None:
    """The minimal time that an acker has told; None of a worker that hosts no acker."""
    return None if worker._acker is None else worker._acker._told
