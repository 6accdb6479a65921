"""Variants of what makes a decision final: the job record, the manifest, journals, the order of a recovery."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from flamestream.core.coordination import DeleteObjects, RecordWritten, WriteManifest
from flamestream.core.epochs import Epochs
from flamestream.core.recovery import Recovery
from flamestream.model.ids import Epoch
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import START
from flamestream.testing.faults import Fault, FaultPlan
from flamestream.testing.graphs import SimJob, twice_across
from flamestream.testing.journals import Journals, Log
from flamestream.testing.nodes import CoordinatorNode
from flamestream.testing.records import Records
from flamestream.testing.settings import MS, Plan
from sim.variants.variant import BrokenVariant, patch, with_faults

TWO_COORDINATORS = with_faults(Fault.SECOND_COORDINATOR, Fault.COORDINATOR_PAUSE, Fault.WORKER_CRASH, Fault.RECORD_UNKNOWN, rate=0.2, times=4)
ZOMBIES = with_faults(Fault.WORKER_PAUSE, Fault.WORKER_CRASH, Fault.JOURNAL_SLOW, rate=0.5, times=5)
LATE_APPENDS = with_faults(Fault.LINK_BREAK, Fault.JOURNAL_FULL, Fault.JOURNAL_SLOW, rate=0.5, times=4)

_write = Records._write


def _two_records(self: Records, record: Any, version: Any, answer: Any) -> None:
    """Attempt and commit pointer apart: a commit does not see that the attempt has moved on."""
    current = self.record
    if current is not None and version != self.version and record.committed > current.committed:
        self.written(current, msgspec.structs.replace(current, committed=record.committed, cut=record.cut, manifest=record.manifest, manifest_hash=record.manifest_hash))
        self.record = record
        self.version = (self.version or 0) + 1
        self._later(answer, RecordWritten(self.version))
    else:
        _write(self, record, version, answer)


def _bound_of_one(self: Recovery) -> Any:
    """Only the first worker's slots and fronts count."""
    first, cut = self._workers[0], self._manifest.cut if self._manifest else START
    return max(cut, time_of_meta(Meta(self._opened[first].t_last)), self._sealed[first].last)


def _one_is_enough(self: Recovery) -> bool:
    return bool(self._sealed) and not self.__dict__.setdefault("_said", False) and not self.__dict__.update(_said=True)


_seal = Journals.seal


def _unsealed(self: Journals, front: Any, fence: Any, cut: Any) -> Any:
    log: Log = self.logs[front]
    before = log.sealed
    entries = _seal(self, front, fence, cut)
    log.sealed = before
    return entries


_carry_out = CoordinatorNode.carry_out


def _delete_by_listing(self: CoordinatorNode, action: Any) -> None:
    """Whatever is listed, and not in the manifest that this coordinator wrote last, goes."""
    if isinstance(action, WriteManifest):
        names = {segment.name for segment in action.manifest.segments} | {action.name}
        self.needed = names  # type: ignore[attr-defined]
    if isinstance(action, DeleteObjects):
        for name in [name for name in self._outside.store.names() if name not in self.needed]:  # type: ignore[attr-defined]
            self._outside.store.delete(name)
    else:
        _carry_out(self, action)


def _interrupted_commits(rng: Random, plan: Plan, drawn: FaultPlan) -> tuple[Plan, FaultPlan]:
    """A coordinator stands still in its commit, another goes on from there, and then the first one wakes up."""
    plan, drawn = with_faults(Fault.COORDINATOR_PAUSE_AT_WRITE, Fault.SECOND_COORDINATOR, rate=0.3, times=8)(rng, plan, drawn)
    return replace(plan, coordinator=replace(plan.coordinator, interval_us=5 * MS)), drawn


def _disagreeing_clocks(rng: Random, plan: Plan, drawn: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Journalled fronts only, on workers whose clocks are far apart, and no epoch that would cover what was released."""
    plan, drawn = with_faults(Fault.CLOCK_JUMP, Fault.CLOCK_SKEW, Fault.WORKER_CRASH, rate=1.0, times=5)(rng, plan, drawn)
    sites = [replace(site, timed=False, run_length=1) for site in plan.sites]
    fronts = tuple(replace(front, timed=False, run_length=1) for front in plan.worker.fronts)
    seldom = replace(plan.coordinator, interval_us=1_000 * MS)
    return replace(plan, sites=sites, worker=replace(plan.worker, fronts=fronts), coordinator=seldom), drawn


def _several_sources(rng: Random) -> SimJob:
    return next(job for job in iter(lambda: twice_across(rng), None) if job.sources > 1)


VARIANTS = [
    BrokenVariant("no fencing in the job record", patch(Records, fits=lambda self, version: True), TWO_COORDINATORS, seeds=120),
    BrokenVariant("attempt and commit pointer as two records", patch(Records, _write=_two_records), TWO_COORDINATORS, seeds=300),
    BrokenVariant("reused epoch number", patch(Epochs, _next_epoch_number=lambda self, record: Epoch(record.committed + 1)), with_faults(Fault.STORE_ERROR_AFTER_SUCCESS, rate=0.8)),
    BrokenVariant("files deleted by listing", patch(CoordinatorNode, carry_out=_delete_by_listing), _interrupted_commits, seeds=200),
    BrokenVariant("bound taken over some slots only", patch(Recovery, _bound=_bound_of_one), _disagreeing_clocks, _several_sources, seeds=200),
    BrokenVariant("replay before all are ready", patch(Recovery, _all_sealed=_one_is_enough), ZOMBIES, seeds=60),
    BrokenVariant("journals not sealed", patch(Journals, seal=_unsealed), LATE_APPENDS, seeds=200),
]
