"""A recovery: every worker of the new layout opens its sinks, then seals its journals, then all replay from
the cut.

The order is the point. The job record already has the new attempt. `Opened` from all: every sink of every
slot refuses older fences, so what the consumers returned is final. Only then may the journals be sealed: an
older attempt can release nothing any more, so nothing that it journals from now on can matter. `Sealed` from
all: every worker is ready, every time that was ever stamped or released is at or below the bound, and only
then may a front replay or stamp.

Where fronts come or go, the job record says so before any of them begins (!): the next attempt must not take
one that has given results for one that is new.

Keeps: no input lost or counted twice (invariant 3); a consumer that forgot what the index says it had is
an error (invariant 4). Does not: survive the loss of a worker: then another recovery, with the next attempt,
starts from the beginning.
"""

from collections.abc import Collection, Mapping, Sequence

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront, begun
from flamestream.core.protocol.messages import Opened, Recover, Replay, Seal, Sealed
from flamestream.core.protocol.snapshot import FrontPosition, SlotOutput, SnapshotIndex
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import NO_FENCE, Epoch, Fence, SinkName, Slot, WorkerId
from flamestream.model.layout import Assignment
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import START, FrontId, Instant, Time


class Recovery:
    """The way of one attempt from the job record to Replay."""

    def __init__(self, cause: str, since: Instant) -> None:
        self.cause, self.since = cause, since
        self.told = False
        """Whether Recover has been sent: an answer or a reconnection is of this attempt."""
        self.fence: Fence = NO_FENCE
        self._workers: tuple[WorkerId, ...] = ()
        self._index: SnapshotIndex | None = None
        self._known: tuple[KnownFront, ...] = ()
        self._opened: dict[WorkerId, Opened] = {}
        self._sealed: dict[WorkerId, Sealed] = {}

    def begin(
        self, record: JobRecord, index: SnapshotIndex | None, addresses: Mapping[WorkerId, str], key: str,
        reached: list[FrontPosition],
    ) -> Recover:  # fmt: skip
        """Begin: the message that all workers get first. `reached`: how far fronts had come before, where
        that is skipped."""
        self.told, self.fence, self._workers, self._index, self._known = (
            True,
            record.fence,
            record.layout.workers,
            index,
            record.fronts,
        )
        # of the index, not of the record: without one (guarantee `none`) all start empty, whatever it says
        cut, epoch = (index.cut, index.epoch) if index else (START, Epoch(0))
        assignment = Assignment(record.fence, record.layout)
        return Recover(assignment, dict(addresses), key, cut, epoch, index, reached, record.sources)

    @property
    def cut(self) -> Time:
        """The cut at which its replay begins."""
        return self._index.cut if self._index else START

    def opened(self, worker: WorkerId, answer: Opened) -> Seal | None:
        """Take an answer to Recover; the last one gives what all workers are told next."""
        self._opened[worker] = answer
        # (!) somebody may still release under an older fence: what consumers returned is not final
        if not self._all_opened():
            return None
        self._check_outputs()
        return Seal(self.fence, sorted(self._released()))

    def sealed(self, worker: WorkerId, answer: Sealed) -> None:
        """Take an answer to Seal."""
        assert self._all_opened(), f"{worker} has sealed before every worker had opened its sinks"
        self._sealed[worker] = answer

    @property
    def may_replay(self) -> bool:
        """Whether all have answered."""
        return self.told and self._all_opened() and self._all_sealed()

    def begun(self, part: Collection[FrontId], drop: Collection[str]) -> tuple[KnownFront, ...]:
        """The fronts of the job, where those of the numbers `part` run from here on. Raises UserError if a
        source is gone of which more was read than the snapshot has; `drop`: those for which that is right."""
        released = self._released()
        for number, front in enumerate(self._known):
            if number in part or front.begins is None or front.name in drop:
                continue
            if left := sum(answer.left.get(FrontId(number), 0) for answer in self._sealed.values()):
                raise UserError(_still_read(front.name, f"its journal has {left} records"))
            # (!) Which of them had a part in these results is written nowhere.
            if released and not front.away:
                raise UserError(_still_read(front.name, f"consumers have results of {len(released)} runs"))
        return begun(self._known, part, self._bound())

    def replay(self, known: Sequence[KnownFront], *, drained: bool) -> Replay:
        """The message that all workers get last. `known`: the fronts, as the record has them; `drained`: the
        attempt is to give again what has left, and no more."""
        begins = {
            FrontId(number): front.begins
            for number, front in enumerate(known)
            if front.begins and not front.away
        }
        released = max(self._released(), default=START)
        return Replay(self.fence, self._bound(), released, begins, drained)

    def _all_opened(self) -> bool:
        return all(worker in self._opened for worker in self._workers)

    def _all_sealed(self) -> bool:
        return all(worker in self._sealed for worker in self._workers)

    def _bound(self) -> Time:
        """No run at or below it is new: every time stamped so far that left a trace outside is at or below
        it."""
        released = [time_of_meta(Meta(answer.t_last)) for answer in self._opened.values()]
        return max([self.cut, *released, *(answer.last for answer in self._sealed.values())])

    def _released(self) -> set[Time]:
        """Times of runs that a replay has to give again, since consumers have results of them."""
        ends = (output.t_last for answer in self._opened.values() for output in answer.outputs)
        return {time for end in ends if end and (time := time_of_meta(Meta(end))) >= self.cut}

    def _check_outputs(self) -> None:
        """Raises Corrupt if a consumer has lost what the index says it had."""
        returned: dict[tuple[SinkName, Slot], SlotOutput] = {
            (output.sink, output.slot): output
            for answer in self._opened.values()
            for output in answer.outputs
        }
        for expected in self._index.outputs if self._index else ():
            found = returned.get((expected.sink, expected.slot))
            if found is None or (found.sequence, found.t_last) < (expected.sequence, expected.t_last):
                raise Corrupt(
                    f"sink {expected.sink!r} has lost data: slot {expected.slot} had bundle "
                    f"{expected.sequence} when epoch"
                    f" {self._index.epoch if self._index else 0} was committed, and now ends at bundle"
                    f" {found.sequence if found else 0}. Restore the sink; or begin anew (`flamestream "
                    "reset`) with an empty one"
                )


def _still_read(name: str, what: str) -> str:
    """The reason why a source cannot go yet."""
    return (
        f"the graph has no source {name!r} any more, and {what} above the committed cut: they would be lost, or be "
        "in no state. Put it back, stop the job with a drain (`flamestream run --drain`, then Ctrl-C), and remove it "
        f"then. To give up what it had read, say upgrade: {{drop: ['{name}']}} in the spec"
    )
