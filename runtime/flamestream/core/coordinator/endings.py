"""Endings: a job that is complete, a drain, and a failure that gets a last epoch.

Complete: every front has ended, minimal time is END, all output is acknowledged, and (where there are epochs)
that is committed: a cut at END is a completed job whoever is still there. Drained: every worker has stopped
reading (two reports since it was told, without a new item between them), nothing is in flight, all output is
acknowledged, and one more epoch is committed (where output waits for commits: until none is held); it need
not be exact, since what is missed is replayed by the next start. Failed: minimal time stands at the error, so
one more epoch saves what is below.

A coordinator that has been overtaken sees a job fall apart: its workers leave, and what its index names is
deleted. So "failed" is said only behind a write of the record, which fails if another coordinator acts (!).

Keeps: only a completed job is marked so in the record; nobody but the coordinator in charge fails a job; an
ending ends, by its deadline at the latest, and as soon as the cluster state answers. Does not: announce
epochs (`wants_epoch` asks the coordinator to).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import Finish
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.healing import Healing
from flamestream.core.protocol.messages import Drain as DrainNow
from flamestream.core.protocol.messages import Progress
from flamestream.model.ids import Epoch, WorkerId
from flamestream.model.time import END, Instant


@dataclass(slots=True)
class Drain:
    """The job was asked to stop at an epoch."""

    deadline: Instant
    told: bool = False
    epoch: Epoch | None = None
    """The newest number when all was quiet: a later one saves everything."""
    _items: dict[WorkerId, tuple[int, bool]] = field(default_factory=dict)
    """Items that each worker has read, and whether its report before had as many."""

    def tell(self) -> None:
        """All workers are told (again, after a recovery)."""
        self.told, self.epoch = True, None
        self._items.clear()

    def hear(self, worker: WorkerId, progress: Progress) -> None:
        """A report of a worker that was told."""
        before = self._items.get(worker)
        # Two reports with as many items: the first may have been on its way before the worker was told to
        # drain. A call that is being made ends first: its answer would be lost, and may have taken effect.
        still = before is not None and before[0] == progress.items_in and not progress.asked
        self._items[worker] = (progress.items_in, still)

    def stopped(self, workers: Iterable[WorkerId]) -> bool:
        """Whether nothing enters any more."""
        return self.told and all(self._items.get(worker, (0, False))[1] for worker in workers)

    def quiet(
        self, workers: Iterable[WorkerId], acker: Progress | None, reports: Iterable[Progress | None]
    ) -> bool:
        """Whether what had entered has gone through. `reports`: of all workers, each of its own output."""
        return (
            self.stopped(workers)
            and acker is not None
            and acker.oldest == END
            and all(report is not None and report.settled >= acker.minimal for report in reports)
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """The job cannot go on, but what is below the error can be saved first."""

    category: str
    message: str
    deadline: Instant
    announced: Epoch
    """The newest number when it failed: a later epoch is the last one."""


class Endings:
    """The end that the job is coming to, if it is."""

    def __init__(self, context: Context, epochs: Epochs, healing: Healing) -> None:
        self.drain: Drain | None = None
        self.failure: Failure | None = None
        self.verdict: Finish | None = None
        """The way in which the job has failed, if it is still this coordinator's."""
        self.wants_epoch = False
        self._completing = False
        self._context, self._epochs, self._healing = context, epochs, healing

    def request_drain(self) -> None:
        """Begin a drain, unless the job is ending anyway."""
        if not self.drain and not self.failure:
            self.drain = Drain(Instant(self._context.time.now + self._context.settings.drain_us))

    def fail(self, category: str, message: str) -> None:
        """End the job, after a last epoch if there is a running stream to save. The first failure counts."""
        context = self._context
        if not (context.running and context.settings.durable and category == "user"):
            self.condemn(category, message)
        elif self.failure is None:
            deadline = Instant(context.time.now + context.settings.last_epoch_us)
            self.failure = Failure(category, message, deadline, context.record.announced)

    def condemn(self, category: str, message: str) -> None:
        """The job has failed, unless another coordinator has gone on with it. The first verdict counts."""
        if self.verdict is None:
            self.verdict = Finish("failed", category, message)
            self._pronounce()

    def _pronounce(self) -> None:
        """Write the record as it is (!): that takes effect only if nobody else has written it."""
        context = self._context
        if context.keeper.record is None:
            self._failed()
        # Else a request is under way: `go_on` comes back, unless its answer shows that somebody else has
        # written: then it is not for this one to give a verdict.
        elif context.keeper.idle:
            # (!) The record's version judges: of two coordinators the one that was overtaken fails nobody.
            context.keeper.write(msgspec.structs.replace(context.record, writer=context.nonce), self._failed)

    def _failed(self) -> None:
        assert self.verdict is not None, "a failure without a verdict"
        self._context.stop_all(self.verdict.message, self.verdict)

    def restarted(self) -> None:
        """The workers of a new attempt do not know of the drain yet."""
        if self.drain:
            self.drain.told = False

    def go_on(self) -> bool:
        """Take the next step of the ending. Whether nothing else is to be done any more."""
        self.wants_epoch = False
        context = self._context
        if self.verdict:
            self._pronounce()
            return True
        if self._completing or context.keeper.record is None:
            return self._completing
        if self._complete():
            return self._mark_completed()
        if self.failure:
            return self._fail_when_saved(self.failure)
        if self.drain:
            return self._drain(self.drain)
        return False

    def _complete(self) -> bool:
        """Whether it is certain that nothing is left. If only the last commit is missing, ask for it."""
        context = self._context
        if context.settings.durable and context.record.cut == END:
            self.wants_epoch = self._holds()
            return not self.wants_epoch and self._epochs.pending is None
        # not []: of no report at all `all` would be true
        reports = context.members.progress(context.workers) if context.running else [None]
        ended = all(report is not None and report.ended and report.settled == END for report in reports)
        self.wants_epoch = ended and context.settings.durable
        return ended and not context.settings.durable

    def _holds(self) -> bool:
        """The committed epoch holds output (or that is not known yet): the next one is accepted when it is
        with its consumers."""
        committed = self._context.committed
        if not self._context.settings.two_phase:
            return False
        return not committed.known(self._context.record) or (
            committed.index is not None and bool(committed.index.held)
        )

    def _mark_completed(self) -> bool:
        if self._context.keeper.idle:
            self._completing = True
            record = msgspec.structs.replace(
                self._context.record, outcome="completed", writer=self._context.nonce
            )
            self._context.keeper.write(record, self._completed)
        return True

    def _completed(self) -> None:
        self._context.stop_all("completed", Finish("completed"))

    def _fail_when_saved(self, failure: Failure) -> bool:
        context = self._context
        saved = (
            self._epochs.pending is None
            # one try is enough, whatever came of it: the job fails anyway
            and context.record.announced > failure.announced
            and not self._holds()
        )
        if saved or not context.running or self._healing.wrong or context.time.due(failure.deadline):
            self.condemn(failure.category, failure.message)
            return True
        self.wants_epoch = True
        return False

    def _drain(self, drain: Drain) -> bool:
        context = self._context
        if context.time.due(drain.deadline):
            message = (
                f"not drained within {context.settings.drain_us / 1e6:g} s; "
                "the next start replays what was not committed"
            )
            context.stop_all(message, Finish("stopped", "retryable", message))
        elif context.running and not self._healing.wrong:
            self._drain_running(drain)
        return context.finished

    def _drain_running(self, drain: Drain) -> None:
        context = self._context
        if not drain.told:
            drain.tell()
            context.instructions.tell(context.workers, DrainNow(context.record.fence))
        # what is held settles with epochs only
        self.wants_epoch = context.settings.two_phase and drain.stopped(context.workers)
        reports = context.members.progress(context.workers)
        if drain.quiet(context.workers, context.acker_progress, reports) and self._epochs.pending is None:
            if drain.epoch is None:
                drain.epoch = context.record.announced
            # where minimal time stands at the committed cut there is nothing more to save
            saved = context.record.committed > drain.epoch or context.minimal <= context.record.cut
            if not context.settings.durable or (saved and not self._holds()):
                context.stop_all("drained", Finish("drained"))
            self.wants_epoch = True
