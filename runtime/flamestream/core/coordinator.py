"""The coordinator: starts a job, keeps its workers one attempt, recovers, takes epochs, ends it. A pure machine.

    starting    the job record is being read
    gathering   workers connect. If all of the record's layout are running under its fence, they are adopted as they are: a new
                coordinator never disturbs the stream. Otherwise a recovery begins, when enough workers are there
    recovering  record first (attempt + 1), then manifest, Recover/Opened, Seal/Sealed, Replay (recovery.py)
    running     epochs (epochs.py); a lost worker, a broken link or a time that stays in flight leads to a recovery
    ending      a drain, or a failure that gets a last epoch

Every decision is one compare-and-set of the job record, made before anybody is told; only then do messages go out. So a coordinator can
die between any two steps, and another can act at the same time: the record lets one of them go on, the other steps back.

Keeps: invariants 3 to 6 as far as they are decided here; a message of another fence than the record's, or of a worker outside the
layout, changes nothing. Does not: any I/O (the launcher, the operator or the simulator carry out its actions); touch the data path.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from flamestream.core.assignment import next_layout
from flamestream.core.coordination import (
    NO_EPOCH,
    Action,
    Disconnect,
    Event,
    Finish,
    FromWorker,
    ManifestBroken,
    ManifestFailed,
    ManifestLoaded,
    ManifestWritten,
    Phase,
    RecordConflict,
    RecordRead,
    RecordUnknown,
    RecordWritten,
    Report,
    Requested,
    Settings,
    Status,
    WakeAt,
    Woken,
    WorkerConnected,
    WorkerDisconnected,
    WorkerGone,
)
from flamestream.core.deadlines import Deadlines
from flamestream.core.ending import Drain, Failure
from flamestream.core.epochs import Epochs
from flamestream.core.failures import Failures
from flamestream.core.job_record import JobRecord
from flamestream.core.manifests import CommittedManifest
from flamestream.core.membership import Membership
from flamestream.core.messages import (
    Abort,
    Accepted,
    Committed,
    CutTaken,
    Failed,
    Hello,
    Opened,
    PeerLost,
    Progress,
    Refused,
    Sealed,
    Stop,
    ToCoordinator,
)
from flamestream.core.messages import Drain as DrainNow
from flamestream.core.outbox import Outbox
from flamestream.core.record_keeper import News, RecordEvent, RecordKeeper
from flamestream.core.recovery import Recovery
from flamestream.core.takeover import successors
from flamestream.model.errors import FlameStreamError
from flamestream.model.ids import Attempt, WorkerId
from flamestream.model.time import END, START, Time, Timestamp


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why the attempt cannot go on though its workers are connected."""

    kind: str
    message: str
    since: Timestamp
    act_at: Timestamp


class Coordinator:
    """`step` after `step`; the first one asks for the job record, the last one's last action is Finish."""

    recovery_type: ClassVar[type[Recovery]] = Recovery
    epochs_type: ClassVar[type[Epochs]] = Epochs

    def __init__(self, settings: Settings, secret: str, nonce: str) -> None:
        """`secret` is the job's, shared with its workers' shells; `nonce` is this coordinator's, never used before."""
        self._settings, self._secret, self._nonce = settings, secret, nonce
        self._out = Outbox()
        self._time = Deadlines(settings.heartbeat_us // 2)
        self._keeper = RecordKeeper(self._out, self._time, settings.retry_us)
        self._members = Membership()
        self._committed = CommittedManifest(self._out, self._time, settings)
        self._epochs = self.epochs_type(self._out, self._time, self._keeper, self._committed, settings, nonce)
        self._failures = Failures(self._time, settings.failures, settings.calm_us)
        self._recovery: Recovery | None = None
        self._complaint: Complaint | None = None
        self._ending: Drain | Failure | None = None
        self._running = self._finished = False
        self._since = Timestamp(0)
        """The record is known since; then, the last recovery or adoption was over."""
        self._minimal = START
        self._oldest: tuple[Time, Timestamp] = (END, Timestamp(0))
        """Of the acker, and since when."""
        self._refused: dict[WorkerId, str] = {}
        self._status = self._last = Status(phase="starting")

    def step(self, now: Timestamp, events: Sequence[Event]) -> list[Action]:
        """What happened since the last step; what to do now. After Finish there is nothing more."""
        if self._finished:
            return []
        self._time.advance(now)
        try:
            for event in events:
                if not self._finished:
                    self._hear(event)
            if not self._finished:
                self._go_on()
        except FlameStreamError as error:
            self._stop_all(str(error), Finish("failed", error.category, str(error)))
        return self._taken()

    # --- what is heard ----------------------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        match event:
            case FromWorker(worker, message):
                self._hear_worker(worker, message)
            case WorkerConnected(hello):
                self._connected(hello)
            case WorkerDisconnected(worker):
                self._members.leave(worker, self._time.now)
            case WorkerGone(worker):
                self._members.gone(worker, self._time.now)
            case RecordRead() | RecordWritten() | RecordConflict() | RecordUnknown():
                self._hear_record(event)
            case ManifestWritten():
                self._epochs.manifest_written(event)
            case ManifestFailed():
                self._epochs.manifest_failed(event)
            case ManifestLoaded() | ManifestBroken():
                self._hear_manifest(event)
            case Requested(what):
                self._requested(what)
            case Woken():
                pass

    def _connected(self, hello: Hello) -> None:
        for what, theirs, ours in (("Python", hello.python, self._settings.python), ("graph", hello.graph, self._settings.graph)):
            if theirs != ours:
                reason = f"worker {hello.worker} has another {what} than the job: {theirs!r} instead of {ours!r}; start it with the job's"
                self._refused = {hello.worker: reason}
                self._out.add(Disconnect(hello.worker, reason))
                return
        self._members.connect(hello, self._time.now)
        self._refused.pop(hello.worker, None)
        record = self._keeper.record
        if record and hello.fence > record.fence:
            self._keeper.read()  # somebody has recovered the job since
        elif record and hello.worker in record.layout.workers:
            self._member_is_back(hello, record)

    def _member_is_back(self, hello: Hello, record: JobRecord) -> None:
        """What was said meanwhile is lost. A worker that runs on can be told again; a recovery can't be resumed half-way."""
        if self._running and hello.fence == record.fence and hello.ready:
            self._abort_epoch(f"the connection of {hello.worker} broke")
            self._tell_where_we_are([hello.worker], record)
        elif self._running or (self._recovery and self._recovery.told):
            self._complain("link", f"{hello.worker} lost its connection to the coordinator and is not ready")

    def _hear_worker(self, worker: WorkerId, message: ToCoordinator) -> None:
        self._members.heard(worker, self._time.now)
        record = self._keeper.record
        if record is None or worker not in self._members or worker not in record.layout.workers:
            return
        if isinstance(message, Hello) or message.fence != record.fence:
            return
        if isinstance(message, Opened | Sealed):
            self._recovered_a_bit(worker, message)
        elif isinstance(message, Failed):
            self._failed(worker, message)
        elif isinstance(message, PeerLost):
            pause = 0 if message.peer in self._members else self._settings.link_pause_us
            self._complain("link", f"{worker} lost its link to {message.peer}: {message.reason}", self._settings.link_pause_us - pause)
        elif self._running:
            self._hear_running(worker, message)

    def _hear_running(self, worker: WorkerId, message: Progress | CutTaken | Accepted | Refused) -> None:
        match message:
            case Progress():
                self._progress(worker, message)
            case CutTaken():
                self._epochs.cut_taken(worker, message)
            case Accepted():
                self._epochs.accepted(worker, message)
            case Refused():
                self._epochs.refused(worker, message.epoch, message.reason)

    def _progress(self, worker: WorkerId, progress: Progress) -> None:
        self._members[worker].progress = progress
        self._minimal = max(self._minimal, progress.minimal)
        if isinstance(self._ending, Drain):
            self._ending.hear(worker, progress)
        if worker == self._record.layout.acker and progress.oldest != self._oldest[0]:
            self._oldest = (progress.oldest, self._time.now)

    def _failed(self, worker: WorkerId, failure: Failed) -> None:
        match failure.category:
            case "fenced":
                self._keeper.read()  # if another coordinator has recovered the job, the record says so
            case "retryable":
                self._complain("worker", f"{worker}: {failure.message}")
            case "user" if self._running and self._settings.durable:
                if not isinstance(self._ending, Failure):
                    deadline = Timestamp(self._time.now + self._settings.last_epoch_us)
                    self._ending = Failure("user", failure.message, deadline, self._record.announced)
            case _:
                self._stop_all(failure.message, Finish("failed", failure.category, failure.message))

    def _complain(self, kind: str, message: str, pause_us: int = 0) -> None:
        if (self._running or (self._recovery and self._recovery.told)) and self._complaint is None:
            self._complaint = Complaint(kind, message, self._time.now, Timestamp(self._time.now + pause_us))

    def _hear_manifest(self, event: ManifestLoaded | ManifestBroken) -> None:
        if self._committed.hear(event) and isinstance(event, ManifestBroken) and not self._recovery:
            self._keeper.read()  # perhaps somebody else has committed, and deleted it

    def _hear_record(self, event: RecordEvent) -> None:
        before = self._keeper.record
        match self._keeper.hear(event):
            case News.READ:
                self._since = self._time.now
                self._heed_outcome()
            case News.CHANGED | News.OVERTAKEN as news:
                self._record_changed(before, overtaken=news is News.OVERTAKEN)

    def _record_changed(self, before: JobRecord | None, *, overtaken: bool) -> None:
        """Somebody else acts, or a predecessor's last write came late."""
        record = self._keeper.record
        acting = overtaken or self._running or self._recovery is not None
        if record is None or (acting and (before is None or record.attempt != before.attempt)):
            self._finish(Finish("fenced", "fenced", "another coordinator has taken the job over"))
            return
        self._epochs.record_changed()
        self._heed_outcome()

    def _heed_outcome(self) -> None:
        record = self._keeper.record
        if record and record.outcome:
            completed = record.outcome == "completed"
            self._stop_all(record.outcome, Finish("completed") if completed else Finish("failed", "user", record.outcome))

    def _requested(self, what: str) -> None:
        if what == "stop" or not (self._running or self._recovery):
            self._stop_all("requested", Finish("stopped"))
        elif self._ending is None:
            self._ending = Drain(Timestamp(self._time.now + self._settings.drain_us))

    # --- what follows -----------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if not self._keeper.known and not self._keeper.started:
            self._keeper.read()
        self._keeper.go_on()
        self._drop_silent()
        if not self._keeper.known or self._end():
            return
        if not self._running and not self._recovery:
            self._gather()
        elif not self._heal():
            if self._running:
                self._run()
            else:
                self._begin_opening()

    def _drop_silent(self) -> None:
        for worker in self._keeper.record.layout.workers if self._keeper.record else ():
            if worker in self._members and self._time.due_in(self._members[worker].heard, self._settings.heartbeat_us):
                self._members.leave(worker, self._time.now)
                self._out.add(Disconnect(worker, f"nothing was heard of it for {self._settings.heartbeat_us / 1e6:g} s"))

    def _gather(self) -> None:
        """Before the first recovery or adoption by this coordinator."""
        if not self._keeper.idle:
            return
        record = self._keeper.record
        survivors = [w for w in record.layout.workers if w in self._members] if record else []
        if record:
            members = record.layout.workers
            if len(survivors) == len(members) and self._all_running(record):
                self._keeper.write(msgspec.structs.replace(record, writer=self._nonce), self._adopted)
                return
            awaited = len(survivors) < len(members) and not self._members.all_gone(members)
            if awaited and not self._time.due_in(self._since, self._settings.discovery_us):
                return
        waited = bool(survivors) or self._time.due_in(self._since, self._settings.gather_us)
        if chosen := self._successors(waited=waited):
            self._recover(chosen, "start", "start", self._since)

    def _all_running(self, record: JobRecord) -> bool:
        hellos = [self._members[worker].hello for worker in record.layout.workers]
        return all(hello.ready and hello.fence == record.fence for hello in hellos)

    def _adopted(self) -> None:
        """No write of an older coordinator can come through any more: what the record says is final."""
        self._begin_running()
        self._tell_where_we_are(self._record.layout.workers, self._record)

    def _tell_where_we_are(self, workers: Sequence[WorkerId], record: JobRecord) -> None:
        if record.committed:
            self._out.tell(workers, Committed(record.fence, record.committed, record.cut))
        if record.announced > record.committed and self._epochs.pending is None:
            self._out.tell(workers, Abort(record.fence, record.announced))
        if isinstance(self._ending, Drain) and self._ending.told:
            self._out.tell(workers, DrainNow(record.fence))

    def _heal(self) -> bool:
        """Whether something is wrong. A recovery begins as soon as one is of use."""
        workers = self._record.layout.workers
        lost = self._members.lost(workers)
        if not lost and not self._complaint:
            return False
        if not self._keeper.idle or not self._failures.may_recover():
            return True
        since = self._members.lost_since(workers, self._time.now)
        if not lost and self._complaint and not self._time.due(self._complaint.act_at):
            return True
        waited = not lost or self._time.due_in(since, self._settings.grace_us)
        if chosen := self._successors(waited=waited):
            self._heal_with(chosen, lost, since)
        return True

    def _heal_with(self, chosen: Sequence[WorkerId], lost: Sequence[WorkerId], since: Timestamp) -> None:
        if lost:
            kind, message = "lost", f"lost {', '.join(lost)}"
        else:
            assert self._complaint, "a recovery without a cause"
            kind, message, since = self._complaint.kind, self._complaint.message, self._complaint.since
        if self._running:
            acker = self._acker_progress()
            self._failures.count(kind, message, self._minimal, idle=acker is not None and acker.oldest == END)
        self._recover(chosen, kind, message, since)

    def _successors(self, *, waited: bool) -> list[WorkerId]:
        layout = self._keeper.record.layout.workers if self._keeper.record else ()
        survivors = [worker for worker in layout if worker in self._members]
        return successors(len(layout), survivors, self._members.spares(layout), self._places(), waited=waited)

    def _places(self) -> int:
        return min(self._settings.workers, self._settings.slots)

    def _recover(self, chosen: Sequence[WorkerId], kind: str, message: str, since: Timestamp) -> None:
        """The record first: who acts for an older attempt can commit nothing from here on."""
        self._abort_epoch(message)
        old = self._keeper.record
        layout = next_layout(old.layout if old else None, chosen, self._settings.slots, self._settings.fronts)
        attempt = Attempt(old.attempt + 1 if old else 1)
        if old:
            record = msgspec.structs.replace(old, attempt=attempt, layout=layout, writer=self._nonce)
        else:
            record = JobRecord(
                attempt=attempt, layout=layout, announced=NO_EPOCH, committed=NO_EPOCH, cut=START, manifest="", manifest_hash="",
                job=self._settings.job, writer=self._nonce,
            )  # fmt: skip
        self._running, self._complaint = False, None
        self._recovery = self.recovery_type(message if kind != "start" else "start", since)
        self._failures.recover()
        self._keeper.write(record, self._fenced)

    def _fenced(self) -> None:
        """The attempt is mine."""
        workers = self._record.layout.workers
        self._members.expect(workers, self._time.now)
        self._members.forget_all_but(workers)
        self._committed.corrupt = False

    def _begin_opening(self) -> None:
        """All of the layout are connected; tell them once the manifest is known."""
        recovery, record = self._recovery, self._record
        assert recovery, "nothing to begin"
        if recovery.told or not self._keeper.idle:
            return
        self._committed.raise_if_corrupt()
        if self._committed.known(record):
            self._committed.check(record)
            addresses = {worker: self._members[worker].hello.address for worker in record.layout.workers}
            told = recovery.begin(record, self._committed.manifest, addresses, self._attempt_key(record.attempt))
            self._out.tell(record.layout.workers, told)
            self._members.expect(record.layout.workers, self._time.now)

    def _recovered_a_bit(self, worker: WorkerId, message: Opened | Sealed) -> None:
        recovery, workers = self._recovery, self._record.layout.workers
        if recovery is None or not recovery.told or self._complaint:
            return
        if isinstance(message, Opened):
            if seal := recovery.opened(worker, message):
                self._out.tell(workers, seal)
        elif replay := recovery.sealed(worker, message):
            self._out.tell(workers, replay)
            self._recovered(recovery)

    def _recovered(self, recovery: Recovery) -> None:
        self._begin_running()
        self._status = msgspec.structs.replace(self._status) if False else self._status
        self._last_recovery = (recovery.cause, self._time.now - recovery.since)
        if isinstance(self._ending, Drain):
            self._ending.told = False

    def _attempt_key(self, attempt: Attempt) -> str:
        return hmac.new(self._secret.encode(), f"{self._settings.job}/{attempt}".encode(), hashlib.sha256).hexdigest()
