"""The coordinator's host: core.coordinator on its ports, in whatever process and beside whatever else that
process does.

Keeps: requests to the job record and to the store are each carried out one at a time, in order; deletions
never hold up a commit; an error of this job's ends this coordinator (`finish`) and nothing else. Does not:
decide anything (core/coordinator/coordinator.py), or have a loop, a listening socket or a file
(coordinator_process.py, or the operator).
"""

import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from flamestream.core.coordinator import coordination as co
from flamestream.core.coordinator.coordinator import Coordinator
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.latency import Recent, quantile
from flamestream.core.protocol.messages import (
    Announce,
    Busy,
    Failed,
    Hello,
    Opened,
    PeerLost,
    Progress,
    Sealed,
    ToCoordinator,
)
from flamestream.core.protocol.output_gaps import OutputGaps
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.status import JobStatus, LastRecovery, LatencyFigures, WorkerFigures
from flamestream.loop.background import Queue
from flamestream.model.errors import ClusterStateUnavailable, FlameStreamError, Retryable
from flamestream.model.event_time import least_by_source
from flamestream.model.ids import Epoch, LayoutVersion, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import timestamp_of
from flamestream.net.control_link import ControlServer
from flamestream.node.inbox import Inbox
from flamestream.node.operations import operations
from flamestream.node.samples import Sample, Sampling
from flamestream.ports import Background, JobRecords, ObjectStore, Reactor, Timer
from flamestream.store.deletions import Deletions
from flamestream.store.snapshot_index import read_index, write_index

T = TypeVar("T")

MOST_LEFT: Final = 1024
"""Workers that are not connected, and whose last reports are kept."""

_NEWS: Final = (Opened, Sealed, PeerLost, Failed)
"""Messages in a recovery; those that every worker sends in every epoch are no news."""

log = logging.getLogger(__name__)


class CoordinatorHost:
    """Between a loop and the pure coordinator: events of a turn in, actions out. `server` is told to call
    `connected` and its kin."""

    def __init__(
        self, settings: co.Settings, token: str, reactor: Reactor, records: JobRecords, store: ObjectStore,
        server: ControlServer, *, changed: Callable[[], None],
        threads: tuple[Background, Background] | None = None,
    ) -> None:  # fmt: skip
        """`changed`: what `look` would say is different. `threads` are for the job record, and for the
        store."""
        self._settings, self._reactor, self._changed = settings, reactor, changed
        self._records, self._store = records, store
        self._coordinator = Coordinator(settings, token, secrets.token_hex(8))
        self.due: Callable[[], None] = lambda: None
        """Called when the next turn has got something to do; not of the first."""
        self._inbox = Inbox(reactor, settings.interval_us, lambda: self.due())  # noqa: PLW0108  it is set later
        self._post = self._inbox.post
        for_records, for_store = threads or (reactor, reactor)
        # no `again`: an error is an answer, and what follows is the core's to decide
        self._for_records, self._for_store = Queue(for_records), Queue(for_store)
        # a queue of its own: a removal that takes long must not stand before an index
        self._deletions = Deletions(
            store, reactor, Queue(for_store), lambda problem: self._answered(problem, lambda _: None)
        )
        self._alarm: Timer | None = None
        self._status = co.Status(phase="starting")
        self._layout = LayoutVersion(0)
        self._slots: Mapping[WorkerId, int] = {}
        """How many slots each worker has in that layout."""
        self._figures: dict[WorkerId, Progress] = {}
        self._busy: dict[WorkerId, Busy] = {}
        self._left: dict[WorkerId, Progress] = {}
        """The last reports of workers that are not connected now. One that comes back counts on, unless
        MOST_LEFT have left since."""
        self._past = (0, 0)
        """Items in and out of workers that are forgotten."""
        self._past_late = Counter[SourceName]()
        self._skipped: dict[SourceName, int] = {}
        self._recent: dict[WorkerId, tuple[Recent, Recent]] = {}
        """Each worker's latencies of the last minute: to acknowledgments, to releases."""
        self._gaps = OutputGaps()
        self._announced: dict[Epoch, int] = {}
        """The instants at which epochs were announced that are not committed yet."""
        self._snapshots = self._snapshots_us = self._snapshot_us = 0
        self._unsaved_since = 0
        self._began = reactor.now()
        self._sampling = Sampling(self._began, reactor.instant())
        self._ran = (0, 0)
        """The newest attempt that has run, and since when."""
        self.finish: co.Finish | None = None
        self.server = server
        self._do: dict[type[co.Action], Callable[[Any], None]] = {
            co.ReadRecord: self._read_record,
            co.WriteRecord: self._write_record,
            co.WriteIndex: self._write_index,
            co.ReadIndex: self._read_index,
            co.DeleteObjects: lambda action: self._deletions.add(action.names),
            co.Tell: self._tell,
            co.Disconnect: self._disconnect,
            co.WakeAt: self._wake_at,
            co.Report: self._report,
            co.Finish: self._finish,
        }

    def turn(self) -> None:
        """The reactor's pass hook."""
        batch = self._inbox.take()
        if not batch or self.finish is not None:
            return
        for action in self._coordinator.step(self._reactor.instant(), batch):
            self._do[type(action)](action)

    @property
    def status(self) -> co.Status:
        """The status as it was reported last."""
        return self._status

    def is_warm(self, worker: WorkerId) -> bool:
        """Whether it has said that it has the committed state at hand; all have, while there is none."""
        told = self._figures.get(worker)
        return not self._status.snapshot_size or (told is not None and told.warm)

    def request(self, what: Literal["stop", "drain"]) -> None:
        """End the job. Safe in a signal handler, and from other threads."""
        self._reactor.soon(lambda: self._post(co.Requested(what)))

    def upgrade(self, settings: co.Settings | None) -> None:
        """Go on with another application, whose workers connect beside those that run; None: with none but
        that which runs. In the loop, before any of these connects."""
        self._post(co.UpgradeRequested(settings))

    def inherit(self, before: co.Settings) -> None:
        """The code that runs has taken over from `before` under another coordinator, and is to be watched. In the
        loop, before any worker of that connects."""
        self._post(co.UpgradeInherited(before))

    def hand_over(self, to: str) -> None:
        """End the job at a cut from which the job called `to` goes on; "": go on as ever."""
        self._post(co.HandOverRequested(to))

    def hold_deletions(self, held: bool) -> None:
        """While somebody copies a snapshot nothing may be deleted. What waits follows when they are let go
        again."""
        self._deletions.hold(held)

    # --- workers --------------------------------------------------------------------------------------------

    def connected(self, hello: Hello) -> None:
        """A worker says who it is."""
        log.info(
            "worker connected",
            extra={
                "job": self._settings.job,
                "worker": hello.worker,
                "attempt": hello.fence.attempt,
                "ready": hello.ready,
            },
        )
        self._post(co.WorkerConnected(hello))

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        """A worker's control link has ended."""
        log.info("worker disconnected", extra={"job": self._settings.job, "worker": worker, "reason": reason})
        self._forget(worker)
        self._post(co.WorkerDisconnected(worker))

    def gone(self, workers: Sequence[WorkerId]) -> None:
        """The processes of `workers` have ended, or will: nobody waits for them."""
        for worker in workers:
            self._post(co.WorkerGone(worker))

    def from_worker(self, worker: WorkerId, message: ToCoordinator) -> None:
        """A worker says something else than Hello."""
        if isinstance(message, Progress):
            before, left = self._figures.get(worker), self._left.pop(worker, None)
            self._figures[worker] = message
            self._sampling.heard(worker, before or left, message, self._reactor.now())
            self._note_unsaved()
            if message.skipped:
                self._skipped = self._sum_here(lambda told: told.skipped)
            if message.latency:
                delivered, released = self._recent.setdefault(worker, (Recent(), Recent()))
                delivered.take(self._reactor.instant(), message.latency)
                released.take(self._reactor.instant(), message.release)
            for first, last in message.given:
                self._gaps.gave(first, last)
            self._changed()
            if before is not None and self._status.phase == "running" and _only_goes_on(message, before):
                self._inbox.post_report(co.FromWorker(worker, message))
                return
        elif isinstance(message, Busy):
            self._busy[worker] = message
        elif isinstance(message, _NEWS):
            log.info("worker says", extra={"worker": worker, "said": type(message).__name__})
        self._post(co.FromWorker(worker, message))

    def _tell(self, action: co.Tell) -> None:
        if isinstance(action.message, Announce):
            # each worker is told: the first of them counts
            self._announced.setdefault(action.message.epoch, self._reactor.instant())
        self.server.tell(action.worker, action.message)

    def _disconnect(self, action: co.Disconnect) -> None:
        log.warning("worker refused", extra={"worker": action.worker, "reason": action.reason})
        self._forget(action.worker)
        self.server.disconnect(action.worker)

    def _forget(self, worker: WorkerId) -> None:
        if self.finish is not None:
            return  # its last counts are what the job has come to
        self._busy.pop(worker, None)
        self._recent.pop(worker, None)
        self._sampling.left(worker)
        if (told := self._figures.pop(worker, None)) is not None:
            self._left[worker] = told
        while len(self._left) > MOST_LEFT:
            # who left longest ago: a dict keeps the order in which they came in
            oldest = self._left.pop(next(iter(self._left)))
            # what was replayed is counted where it entered first
            self._past = (self._past[0] + oldest.items_in - oldest.replayed, self._past[1] + oldest.items_out)
            self._past_late.update(oldest.late)

    # --- the job record -------------------------------------------------------------------------------------

    def _read_record(self, _: co.ReadRecord) -> None:
        def done(found: tuple[JobRecord, int] | None) -> None:
            record, version = found or (None, None)
            if record is not None:
                self._laid_out(record.layout)
            self._post(co.RecordRead(record, version))

        self._for_records.run(self._records.read, lambda result: self._or_unknown(result, done))

    def _laid_out(self, layout: Layout) -> None:
        if layout.version != self._layout:  # each epoch writes the same one again
            self._layout, self._slots = layout.version, Counter(layout.owners)

    def _write_record(self, action: co.WriteRecord) -> None:
        def done(version: int | None) -> None:
            if version is not None:
                self._laid_out(action.record.layout)
            self._post(co.RecordConflict() if version is None else co.RecordWritten(version))

        work = lambda: self._records.compare_and_set(action.record, action.version)  # noqa: E731
        self._for_records.run(work, lambda result: self._or_unknown(result, done))

    def _or_unknown(self, result: T | Exception, done: Callable[[T], None]) -> None:
        if isinstance(result, ClusterStateUnavailable):
            self._post(co.RecordUnknown(str(result)))
        else:
            self._answered(result, done)

    # --- the store ------------------------------------------------------------------------------------------

    def _write_index(self, action: co.WriteIndex) -> None:
        def done(result: str | Exception) -> None:
            if isinstance(result, FlameStreamError):
                self._post(co.IndexFailed(action.name, str(result)))
            else:
                self._answered(result, lambda written: self._post(co.IndexWritten(action.name, written)))

        self._for_store.run(lambda: write_index(self._store, action.name, action.index), done)

    def _read_index(self, action: co.ReadIndex) -> None:
        def done(result: SnapshotIndex | Exception) -> None:
            if isinstance(result, FlameStreamError):
                category = "retryable" if isinstance(result, Retryable) else "corrupt"
                self._post(co.IndexBroken(action.name, category, str(result)))
            else:
                self._answered(result, lambda index: self._post(co.IndexLoaded(action.name, index)))

        self._for_store.run(lambda: read_index(self._store, action.name, action.hash), done)

    def _answered(self, result: T | Exception, then: Callable[[T], None]) -> None:
        """Go on with a result. An error that is no answer ends this coordinator: the record is damaged, or
        not ours."""
        if isinstance(result, FlameStreamError):
            log.error(str(result), extra={"category": result.category, "job": self._settings.job})
            self._finish(co.Finish("failed", result.category, str(result)))
        elif isinstance(result, Exception):
            raise result
        else:
            then(result)

    # --- time, status, end ----------------------------------------------------------------------------------

    def _wake_at(self, action: co.WakeAt) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        seconds = max(0, action.time - self._reactor.instant()) / 1_000_000
        self._alarm = self._reactor.later(seconds, lambda: self._post(co.Woken()))

    def _report(self, action: co.Report) -> None:
        status, before = action.status, self._status
        if (status.phase, status.attempt) != (before.phase, before.attempt):
            log.info("phase", extra={**self._told(status), "workers": status.workers})
        elif status.steps != before.steps and "replay" in dict(status.steps):
            log.info("replayed", extra=self._told(status))
        if status.phase == "running" and status.attempt != self._ran[0]:
            self._ran = (status.attempt, self._reactor.now())
        if status.epoch != before.epoch:
            self._unsaved_since = 0
            self._committed(status.epoch)
        self._status = status
        self._note_unsaved()
        self._changed()

    def _told(self, status: co.Status) -> dict[str, object]:
        """A phase as the log has it."""
        return {
            "job": self._settings.job, "phase": status.phase, "attempt": status.attempt, "cause": status.cause,
            "steps_us": dict(status.steps),
        }  # fmt: skip

    def _committed(self, epoch: int) -> None:
        """Count the time that an epoch took, if it was announced here."""
        began = self._announced.get(Epoch(epoch))
        self._announced = {other: when for other, when in self._announced.items() if other > epoch}
        if began is not None:
            self._snapshot_us = self._reactor.instant() - began
            self._snapshots += 1
            self._snapshots_us += self._snapshot_us

    def _note_unsaved(self) -> None:
        """Note since when something waits for an epoch: an idle stream takes none, and is not late."""
        if all(told.minimal <= self._status.cut for told in self._figures.values()):
            self._unsaved_since = 0
        elif not self._unsaved_since:
            self._unsaved_since = self._reactor.now()

    def _finish(self, action: co.Finish) -> None:
        log.info(
            "job finished",
            extra={
                "job": self._settings.job,
                "outcome": action.outcome,
                "category": action.category,
                "message_": action.message,
            },
        )
        self.finish = action
        if self._alarm is not None:
            self._alarm.cancel()
        self._deletions.flush()  # what is gathered would be orphans
        self._changed()

    def look(self) -> JobStatus:
        """Everything that people may know of the job. Reads only, so another thread may ask."""
        status, finish = self._status, self.finish  # each once (!): the loop may set them meanwhile
        recovery = _recovery(status, self._ran) if status.cause else None
        latency, release = self._latencies()
        everybody = [*self._figures.values(), *self._left.values()]
        return JobStatus(
            job=self._settings.job, pid=os.getpid(), began=self._began, updated=self._reactor.now(),
            phase=status.phase, graph=self._settings.graph, attempt=status.attempt, layout=self._layout,
            epoch=status.epoch, cut=status.cut, cut_time=timestamp_of(status.cut),
            unsaved_since=self._unsaved_since,
            workers=[self._figures_of(worker) for worker in status.workers],
            operations=operations([busy for worker in status.workers if (busy := self._busy.get(worker))]),
            standbys=list(status.standbys),
            warm=[each for each in status.standbys if self.is_warm(each)], code=status.code,
            successors=list(status.successors), refusal=status.refusal, refused=status.refused,
            before=status.before, watched=status.watched, wanted=status.wanted,
            items_in=self._past[0] + sum(told.items_in - told.replayed for told in everybody),
            items_out=self._past[1] + sum(told.items_out for told in everybody), event_times=least_by_source(
                told for worker in status.workers if (said := self._figures.get(worker)) is not None
                    for told in said.event_times.items()
            ),
            idle=self._sum_here(lambda told: told.idle), late=self._late(), skipped=self._skipped,
            recoveries=status.recoveries, last_recovery=recovery, problems=list(status.problems),
            dropped_connections=self.server.acceptor.drops.count,
            outcome=finish.outcome if finish else "", category=finish.category if finish else "",
            message=finish.message if finish else "",
            snapshot_size=status.snapshot_size, latency=latency, release=release,
            snapshot_ms=self._snapshot_us / 1000, snapshots=self._snapshots,
            snapshots_ms=self._snapshots_us / 1000, first_output=self._gaps.first,
            last_output=self._gaps.last, gaps=self._gaps.all(),
        )  # fmt: skip

    def sample(self) -> Sample | None:
        """The figures of the second that ends now; None: the job has ended. In the loop."""
        if self.finish is not None:
            return None
        status, inside = self._status, self._status.workers
        return self._sampling.sample(
            self._reactor.now(), self._reactor.instant(), self._gaps,
            attempt=status.attempt, epoch=status.epoch, snapshot_size=status.snapshot_size,
            busy=max(map(self._share_busy, inside), default=0.0),
            in_flight=sum(said.in_flight for worker in inside if (said := self._figures.get(worker))),
        )  # fmt: skip

    def _late(self) -> dict[SourceName, int]:
        """Counts of late items, by source: of workers that have left only what no recovery counts again
        (!)."""
        # copies: another thread may ask while the loop changes them
        here, past = list(self._figures.values()), Counter(self._past_late)
        below = [told.late for told in (*here, *self._left.values())]
        since = [told.late_since for told in here]
        return dict(sum(map(Counter, (*below, *since)), past))

    def _sum_here(self, of: Callable[[Progress], Mapping[SourceName, int]]) -> dict[SourceName, int]:
        """Counts by source, from workers of the layout alone: the next owner of a front tells what the one
        before has told."""
        found = Counter[SourceName]()
        for worker in self._status.workers:
            if (said := self._figures.get(worker)) is not None:
                found.update(of(said))
        return dict(found)

    def _latencies(self) -> tuple[LatencyFigures, LatencyFigures] | tuple[None, None]:
        """The latencies of all workers together: to acknowledgments, to releases."""
        # a copy: another thread may ask while the loop changes it
        figures = [(self._recent.get(worker), told) for worker, told in list(self._figures.items())]
        said = [(recent, told) for recent, told in figures if recent is not None and told.latency]
        if not said:
            return None, None
        delivered = _latency([recent[0].counts(told.latency) for recent, told in said])
        return delivered, _latency([recent[1].counts(told.release) for recent, told in said])

    def _share_busy(self, worker: WorkerId) -> float:
        busy = self._busy.get(worker)
        return busy.busy_us / max(1, busy.us) if busy is not None else 0.0

    def _figures_of(self, worker: WorkerId) -> WorkerFigures:
        said = self._figures.get(worker)
        if said is None:
            return WorkerFigures(worker=worker, connected=True, slots=self._slots.get(worker, 0))
        busy = self._busy.get(worker)
        return WorkerFigures(
            worker=worker, connected=True, busy=self._share_busy(worker),
            items_in=said.items_in, items_out=said.items_out,
            minimal=timestamp_of(said.minimal), settled=timestamp_of(said.settled), problem=said.problem,
            runs=said.runs, bundles=said.bundles, in_flight=said.in_flight,
            skipped=said.skipped, waiting=said.waiting, memory=said.memory,
            replayed=said.replayed, invalidated=said.invalidated,
            late=dict(Counter(said.late) + Counter(said.late_since)), latencies=list(said.latency),
            latencies_us=said.latency_us, releases=list(said.release), releases_us=said.release_us,
            transactions=said.transactions, decisions=said.decisions, aborted=said.aborted,
            deciding_waits=said.deciding_waits,
            contended=[] if busy is None else list(busy.rows), slots=self._slots.get(worker, 0),
            operations=[(each.name, each.items_in, each.items_out) for each in busy.operations] if busy else [],
            spans=0 if busy is None else busy.spans, spans_dropped=0 if busy is None else busy.spans_dropped,
        )  # fmt: skip


def _only_goes_on(report: Progress, before: Progress) -> bool:
    """Whether a worker says nothing that somebody waits for."""
    ends = report.ended or report.drained or before.drained
    return not ends and (report.problem, report.warm) == (before.problem, before.warm)


def _recovery(status: co.Status, ran: tuple[int, int]) -> LastRecovery:
    steps = {name: duration / 1000 for name, duration in status.steps}
    return LastRecovery(
        cause=status.cause, duration_ms=status.duration_us / 1000, kind=status.kind, attempt=status.attempt,
        replayed_from=status.replayed_from, steps_ms=steps, ended=ran[1] if ran[0] == status.attempt else 0,
    )  # fmt: skip


def _latency(recent: Sequence[list[int]]) -> LatencyFigures:
    """The latencies that several workers' counts of the last minute come to."""
    last = [sum(each) for each in zip(*recent, strict=True)]
    return LatencyFigures(p50_ms=quantile(last, 0.5), p99_ms=quantile(last, 0.99), calls=sum(last))
