"""Variants of what makes a decision final: the job record, the index, journals, the order of a
recovery."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from flamestream.core.coordinator.coordination import DeleteObjects, RecordWritten, WriteIndex
from flamestream.core.coordinator.coordinator import Coordinator
from flamestream.core.coordinator.epochs import Epochs, superseded
from flamestream.core.coordinator.record_keeper import News, RecordKeeper
from flamestream.core.coordinator.recovery import Recovery
from flamestream.model.ids import Epoch
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import START
from flamestream.simulation.coordinator_node import CoordinatorNode
from flamestream.simulation.faults import Fault, FaultPlan, Moment
from flamestream.simulation.outside.journals import Journals, Log
from flamestream.simulation.outside.records import Records
from flamestream.simulation.settings import Plan
from sim.variants.variant import BrokenVariant, directed, patch, several_sources, spaced

TWO_COORDINATORS = directed(
    Fault.SECOND_COORDINATOR, Fault.COORDINATOR_PAUSE, Fault.WORKER_CRASH, Fault.STORE_SLOW, times=8,
    spacing=2_000, coordinator={"interval_us": 3_000, "discovery_us": 2_000, "grace_us": 1_000},
    plan={"standbys": 1},
)  # fmt: skip
PARTED_IN_COMMIT = directed(
    Fault.SPLIT_BRAIN,
    Fault.STORE_SLOW,
    rate=0.6,
    times=12,
    spacing=2_000,
    plan={"workers": 4},
    coordinator={
        "interval_us": 2_000,
        "discovery_us": 1_000,
        "settle_us": 500,
        "grace_us": 60_000,
        "heartbeat_us": 100_000,
    },
)
"""The cluster parts while an index is being written, and the other half recovers the job meanwhile."""
INTERRUPTED_COMMITS = directed(
    Fault.COORDINATOR_PAUSE_AT_WRITE, Fault.SECOND_COORDINATOR, Fault.STORE_LATE_WRITE, rate=0.4, times=20,
    spacing=2_000, coordinator={"interval_us": 3_000, "discovery_us": 2_000},
)  # fmt: skip
"""A coordinator stands still in its commit, another goes on from there, and then the first one wakes up; and
its uploads come late."""
DISAGREEING_CLOCKS = directed(
    Fault.CLOCK_JUMP, Fault.CLOCK_SKEW, Fault.WORKER_CRASH, rate=1.0, times=6, spacing=2_000, journalled=True,
    coordinator={"interval_us": 1_000_000, "workers": 3, "grace_us": 1_000}, plan={"workers": 3},
)  # fmt: skip
"""Journalled fronts on workers whose clocks are far apart, and no epoch that would cover what was
released."""
SLOW_SEALS = directed(
    Fault.WORKER_CRASH,
    Fault.LINK_BREAK,
    Fault.JOURNAL_SLOW,
    rate=0.5,
    times=5,
    spacing=2_000,
    journalled=True,
)
LATE_APPENDS = directed(
    Fault.LINK_BREAK,
    Fault.JOURNAL_FULL,
    Fault.JOURNAL_SLOW,
    rate=0.5,
    times=4,
    spacing=2_000,
    journalled=True,
)


def timed_ahead(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Clocks stand, timed fronts run, journalled ones are idle and begin when a worker is lost: only what was
    released tells them where."""
    alone = directed(
        Fault.CLOCK_UNSET, rate=1.0, times=0, spacing=1_000,
        coordinator={"interval_us": 1_000_000, "workers": 3, "grace_us": 1_000},
        plan={"workers": 3, "standbys": 0},
    )  # fmt: skip
    plan, faults = alone(rng, drawn, chosen)
    begin = drawn.heal_at - rng.randrange(20_000, 50_000)
    faults.moments = [Moment(begin - rng.randrange(6_000), Fault.WORKER_CRASH)]
    return replace(
        plan, sites=[site if site.timed else spaced(site, begin, 0, 1) for site in plan.sites]
    ), faults


def forgotten_drain(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """The job is told to drain while its worker stands still, and the coordinator that said so dies: the word
    stands in an inbox."""
    stop_at = drawn.heal_at - rng.randrange(30_000, 60_000)
    alone = directed(
        Fault.WORKER_STALL_IN_STEP, spacing=1_500, rate=0.4, times=0, coordinator={"workers": 1},
        plan={"stop_at": stop_at, "workers": 1, "standbys": 0},
    )  # fmt: skip
    plan, faults = alone(rng, drawn, chosen)
    faults.moments = [Moment(stop_at + rng.randrange(500, 2_500), Fault.COORDINATOR_CRASH)]
    return plan, faults


_progress = Coordinator._progress
_write = Records._write


def _two_records(self: Records, writer: str, record: Any, version: Any, answer: Any) -> None:
    """Attempt and commit pointer apart: a commit does not see that the attempt has moved on."""
    current = self.record
    if current is not None and version != self.version and record.committed > current.committed:
        self.written(
            current,
            msgspec.structs.replace(
                current,
                committed=record.committed,
                cut=record.cut,
                index=record.index,
                index_hash=record.index_hash,
            ),
        )
        self.record, self.version = record, len(self._past)
        self._past.append(record)
        self._later(answer, RecordWritten(self.version))
    else:
        _write(self, writer, record, version, answer)


_seen = RecordKeeper._seen


def _written_over(self: RecordKeeper, record: Any, version: Any) -> Any:
    """What somebody else has written is not looked at: the own record is written again, against the new
    version."""
    if self._writing is not None and record != self._writing and version != self.version:
        self.version = version
        self._send()
        return News.NOTHING
    return _seen(self, record, version)


_write_if_complete = Epochs._write_if_complete


def _deleted_too_early(self: Epochs, epoch: Any) -> None:
    """What an index does not need goes when it is written, and not when it is committed."""
    _write_if_complete(self, epoch)
    if epoch.index is not None:
        names = superseded(self._committed.index, self._committed.name, epoch.index)
        self._instructions.add(DeleteObjects(names))


def _bound_of_one(self: Recovery) -> Any:
    """Only the first worker's slots and fronts count."""
    first, cut = self._workers[0], self._index.cut if self._index else START
    return max(cut, time_of_meta(Meta(self._opened[first].t_last)), self._sealed[first].last)


def _bound_without_t_last(self: Recovery) -> Any:
    """What consumers were given counts for nothing."""
    cut = self._index.cut if self._index else START
    return max([cut, *(answer.last for answer in self._sealed.values())])


def _one_is_enough(self: Recovery) -> bool:
    return (
        bool(self._sealed)
        and not self.__dict__.setdefault("_said", False)
        and not self.__dict__.update(_said=True)
    )


_seal = Journals.seal


def _unsealed(self: Journals, front: Any, fence: Any, cut: Any) -> Any:
    log: Log = self.logs[front]
    before = log.sealed
    entries = _seal(self, front, fence, cut)
    log.sealed = before
    return entries


_carry_out = CoordinatorNode.carry_out


def _delete_by_listing(self: CoordinatorNode, action: Any) -> None:
    """Whatever is listed, and not in the index that this coordinator wrote last, goes."""
    if isinstance(action, WriteIndex):
        names = {segment.name for segment in action.index.segments} | {action.name}
        self.needed = names  # type: ignore[attr-defined]
    if isinstance(action, DeleteObjects):
        for name in [name for name in self._outside.store.names() if name not in self.needed]:  # type: ignore[attr-defined]
            self._outside.store.delete(name)
    else:
        _carry_out(self, action)


VARIANTS = [
    BrokenVariant(
        "no fencing in the job record", patch(Records, fits=lambda self, version: True), TWO_COORDINATORS
    ),
    BrokenVariant(
        "a job record that somebody else has written is written over",
        patch(RecordKeeper, _seen=_written_over),
        TWO_COORDINATORS,
    ),
    BrokenVariant(
        "attempt and commit pointer as two records", patch(Records, _write=_two_records), PARTED_IN_COMMIT
    ),
    BrokenVariant(
        "reused epoch number",
        patch(Epochs, _next_epoch_number=lambda self, record: Epoch(record.committed + 1)),
        directed(Fault.STORE_ERROR_AFTER_SUCCESS, rate=0.8),
    ),
    BrokenVariant(
        "files deleted by listing",
        patch(CoordinatorNode, carry_out=_delete_by_listing),
        INTERRUPTED_COMMITS,
        seeds=300,
    ),
    BrokenVariant(
        "objects deleted before the commit",
        patch(Epochs, _write_if_complete=_deleted_too_early),
        INTERRUPTED_COMMITS,
    ),
    BrokenVariant(
        "the bound without what consumers have",
        patch(Recovery, _bound=_bound_without_t_last),
        timed_ahead,
        several_sources,
    ),
    BrokenVariant(
        "bound taken over some slots only",
        patch(Recovery, _bound=_bound_of_one),
        DISAGREEING_CLOCKS,
        several_sources,
        seeds=400,
    ),
    BrokenVariant(
        "a drain that nobody wants any more, not noticed",
        patch(
            Coordinator,
            _progress=lambda self, worker, report: _progress(
                self, worker, msgspec.structs.replace(report, drained=False)
            ),
        ),
        forgotten_drain,
        seeds=400,
    ),
    BrokenVariant("replay before all are ready", patch(Recovery, _all_sealed=_one_is_enough), SLOW_SEALS),
    BrokenVariant("journals not sealed", patch(Journals, seal=_unsealed), LATE_APPENDS),
]
