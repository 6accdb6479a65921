"""Variants of event time: what a front says of its partitions, and when."""

from typing import Any

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.operations import Operations
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import JournalledFront
from flamestream.core.worker.fronts import Fronts
from flamestream.model.meta import meta_of, time_of_meta
from flamestream.model.time import FrontId, Timestamp, time_of, timestamp_of
from flamestream.simulation.faults import Fault
from flamestream.simulation.jobs.event_time import arrival_job, event_time_job
from sim.variants.variant import BrokenVariant, directed, patch

CRASHES = directed(Fault.WORKER_CRASH, Fault.LINK_BREAK, rate=0.6, times=5, spacing=1_500, journalled=True)


def _not_journalled(self: Fronts, front: JournalledFront, now: Any, told: Any) -> None:
    """It enters, and nobody could know it again."""
    for partition, marker in told:
        entry = front.mark(now, partition, marker)
        front.durable(entry.time)
        self._entered(front, entry, [marker], 0)


def _of_the_clock(self: Operations, vertex: Any) -> Any:
    """A record that is replayed arrives anew."""
    call, forward, seen = user_code.mapped(vertex, False), self.forward(vertex), set[bytes]()

    def enter(meta: Any, payload: Any, tombstone: bool) -> None:
        again = not tombstone and meta in seen
        seen.add(meta)
        later = time_of(Timestamp(timestamp_of(time_of_meta(meta)) + 5_000 * again), FrontId(0))
        forward(meta, call(payload, meta_of(later, 0)), tombstone)

    return enter


def _told_again(self: JournalledFront, entry: Entry, marker: object) -> None:
    """That the end has been told is forgotten with the attempt."""
    self.positions.add(entry)


VARIANTS = [
    BrokenVariant(
        "idleness that is in no journal", patch(Fronts, _mark=_not_journalled), CRASHES, event_time_job
    ),
    BrokenVariant(
        "a marker taken for a pledge",
        patch(Entry, is_pledge=property(lambda self: not self.moves)),
        CRASHES,
        event_time_job,
    ),
    BrokenVariant(
        "time that passes and is in no journal", patch(Fronts, _mark=_not_journalled), CRASHES, arrival_job
    ),
    BrokenVariant(
        "a clock that is read again at a replay",
        patch(Operations, _arrival=_of_the_clock),
        CRASHES,
        arrival_job,
    ),
    BrokenVariant(
        "an end that is told twice", patch(JournalledFront, _marked=_told_again), CRASHES, event_time_job
    ),
]
