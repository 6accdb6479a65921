"""The coordinator: starts a job, keeps its workers one attempt, recovers, takes epochs, ends it. A pure
machine.

    starting    the job record is being read
    gathering   workers connect, until they can be adopted or recovered (gathering.py)
    recovering  record first (attempt + 1), then index, Recover/Opened, Seal/Sealed, Replay (healing.py,
                recovery.py)
    running     epochs (epochs.py); a lost worker, a broken link or a time that stays in flight leads to a
                recovery
    waiting     somebody is lost, and nobody is there yet to take over (takeover.py)
    ending      a drain, or a failure that gets a last epoch (coordinator/endings.py)

Every decision is one compare-and-set of the job record, made before anybody is told; only then do messages go
out. So a coordinator can die between any two steps, and two can act at the same time: the record lets one of
them go on, the other steps back.

Keeps: invariants 3 to 6 as far as they are decided here; a message of another fence than the record's, or of
a worker outside the layout, changes nothing. Does not: any I/O (the launcher, the operator or the simulator
carry out its actions); touch the data path.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from flamestream.core.coordinator import coordination as co
from flamestream.core.coordinator.changes.hand_over import HandOver
from flamestream.core.coordinator.changes.upgrade import TURNED, Upgrade
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.endings import Endings
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.gathering import Gathering
from flamestream.core.coordinator.healing import Healing
from flamestream.core.coordinator.membership import differs
from flamestream.core.coordinator.moving import Moving
from flamestream.core.coordinator.record_keeper import News, RecordEvent
from flamestream.core.coordinator.status import status_of
from flamestream.core.coordinator.stuck import Stuck
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.job_record import JobRecord, check_code, handed_over, is_taken_over
from flamestream.model.errors import FlameStreamError
from flamestream.model.ids import WorkerId
from flamestream.model.time import END, Instant


class Coordinator:
    """`step` after `step`; the first one asks for the job record, the last one's last action is Finish."""

    epochs_type: ClassVar[type[Epochs]] = Epochs
    healing_type: ClassVar[type[Healing]] = Healing

    def __init__(self, settings: co.Settings, secret: str, nonce: str) -> None:
        """`secret` is the job's; `nonce` is this coordinator's, never used before."""
        self._context = Context(settings, secret, nonce)
        self._epochs = self.epochs_type(self._context)
        self._healing = self.healing_type(self._context, self._epochs)
        self._gathering = Gathering(self._context, self._healing)
        self._endings = Endings(self._context, self._epochs, self._healing)
        self._upgrade = Upgrade(self._context, self._epochs, self._healing)
        self._hand_over = HandOver(self._context, self._epochs)
        self._moving = Moving(self._context, self._epochs, self._healing)
        self._stuck = Stuck(self._context.time, settings.stuck_us)
        self._refused = ""
        self._reported: co.Status | None = None

    def step(self, now: Instant, events: Sequence[co.Event]) -> list[co.Action]:
        """Take what happened since the last step; what must be done now, after Finish nothing. `now` is of a
        clock that nobody sets."""
        context = self._context
        if context.finished:
            return []
        context.time.advance(now)
        for event in events:
            self._try(self._hear, event)
        self._try(self._go_on)
        return self._with_report(context.instructions.take())

    def _try(self, work: Callable[..., None], *arguments: object) -> None:
        if not self._context.finished:
            try:
                work(*arguments)
            except FlameStreamError as error:
                self._endings.condemn(error.category, str(error))

    # --- what is heard --------------------------------------------------------------------------------------

    def _hear(self, event: co.Event) -> None:
        context = self._context
        match event:
            case co.FromWorker(worker, message):
                self._hear_worker(worker, message)
            case co.WorkerConnected(hello):
                self._connected(hello)
            case co.WorkerDisconnected(worker):
                context.members.leave(worker, context.time.now)
            case co.WorkerGone(worker):
                context.members.gone(worker, context.time.now)
            case co.RecordRead() | co.RecordWritten() | co.RecordConflict() | co.RecordUnknown():
                self._hear_record(event)
            case co.IndexWritten() | co.IndexFailed() | co.IndexLoaded() | co.IndexBroken():
                self._hear_index(event)
            case co.Requested(what):
                self._requested(what)
            case co.UpgradeRequested(wanted):
                self._upgrade.ask(wanted)
            case co.UpgradeInherited(before):
                self._upgrade.inherit(before)
            case co.HandOverRequested(to):
                self._hand_over.ask(to)
            case co.Woken():
                pass

    def _connected(self, hello: msg.Hello) -> None:
        record = self._context.keeper.record
        if overtaken := record is not None and hello.fence > record.fence:
            self._context.keeper.read()  # somebody has recovered the job since, maybe with other code
        if reason := differs(hello, self._context.settings):
            self._not_of_this_code(hello, reason)
            return
        self._context.members.connect(hello, self._context.time.now)
        if hello.died_of:
            self._healing.explain(hello.died_of)
        if record is None or overtaken:
            return
        if hello.worker in record.layout.workers:
            self._member_is_back(hello, record)
        else:
            self._context.warm([hello.worker])

    def _not_of_this_code(self, hello: msg.Hello, reason: str) -> None:
        """A worker that cannot take part: it may be ahead, or behind."""
        context = self._context
        if self._upgrade.takes(hello):
            context.members.connect(hello, context.time.now)
            context.warm([hello.worker])
        elif self._upgrade.is_behind(hello):
            context.instructions.tell([hello.worker], msg.Stop(TURNED))
        else:
            self._refuse(hello, reason)

    def _refuse(self, hello: msg.Hello, reason: str) -> None:
        self._refused = f"worker {hello.worker} was refused: {reason}"
        self._context.instructions.add(co.Disconnect(hello.worker, self._refused))

    def _member_is_back(self, hello: msg.Hello, record: JobRecord) -> None:
        """A worker of the layout has a new connection: what was said meanwhile is lost. One that runs on is
        told again; a recovery begins anew, for it can't be resumed half-way."""
        if self._context.running and hello.fence == record.fence and hello.ready:
            self._epochs.interrupted(f"the connection of {hello.worker} broke")
            self._tell_where_we_are([hello.worker])
        else:
            self._healing.complain(
                "link", f"{hello.worker} lost its connection to the coordinator and is not ready"
            )

    def _hear_worker(self, worker: WorkerId, message: msg.ToCoordinator) -> None:
        context = self._context
        if self._endings.verdict:
            return
        context.members.heard(
            worker, context.time.now, message if isinstance(message, msg.Progress) else None
        )
        current = (
            context.keeper.record is not None
            and not isinstance(message, msg.Hello)
            and message.fence == context.record.fence
        )
        if not current or worker not in context.members or worker not in context.workers:
            return
        match message:
            case msg.Progress() | msg.CutTaken() | msg.Accepted() | msg.Refused() | msg.Busy():
                if context.running:
                    self._hear_running(worker, message)
            case msg.Opened() | msg.Sealed():
                if self._healing.hear(worker, message):
                    self._begin_running()
            case msg.PeerLost(_, peer, reason):
                self._healing.complain(
                    "link", f"{worker} lost its link to {peer}: {reason}", context.settings.link_pause_us
                )
            case msg.Failed(category="fenced"):
                context.keeper.read()  # if another coordinator has recovered the job, the record says so
            case msg.Failed(category="retryable"):
                self._healing.complain("worker", f"{worker}: {message.message}")
            case msg.Failed():
                if message.category != "user" or not self._upgrade.take_back(message.message):
                    self._endings.fail(message.category, message.message)

    def _hear_running(
        self, worker: WorkerId, message: msg.Progress | msg.CutTaken | msg.Accepted | msg.Refused | msg.Busy
    ) -> None:
        match message:
            case msg.Progress():
                self._progress(worker, message)
            case msg.CutTaken():
                self._epochs.cut_taken(worker, message)
            case msg.Accepted():
                self._epochs.accepted(worker, message)
            case msg.Busy():
                self._moving.hear(worker, message)
            case msg.Refused():
                self._epochs.refused(worker, message.epoch, message.reason)

    def _progress(self, worker: WorkerId, progress: msg.Progress) -> None:
        context = self._context
        context.members[worker].progress = progress
        context.minimal = max(context.minimal, progress.minimal)
        context.reached.update((position.front, position) for position in progress.reached)
        if self._endings.drain and self._endings.drain.told:
            self._endings.drain.hear(worker, progress)
        meant = self._endings.drain or self._endings.failure or self._healing.drained
        if progress.drained and not meant:
            self._healing.complain(
                "drained", f"{worker} reads nothing more: it was told to drain by a coordinator that is gone"
            )
        acker = worker == context.record.layout.acker
        if acker:
            context.idle = progress.oldest == END
            if progress.replay_us:  # minimal time is the acker's word: any other hears of it later
                self._healing.replayed(progress.replay_us)
        self._stuck.hear(worker, progress, acker=acker)

    def _hear_index(self, event: co.IndexWritten | co.IndexFailed | co.IndexLoaded | co.IndexBroken) -> None:
        context = self._context
        match event:
            case co.IndexWritten():
                self._epochs.index_written(event)
            case co.IndexFailed():
                self._epochs.index_failed(event)
            case co.IndexLoaded():
                context.committed.hear(event)
            case co.IndexBroken():
                if context.committed.hear(event) and context.running:
                    context.keeper.read()  # perhaps somebody else has committed since, and deleted it

    def _hear_record(self, event: RecordEvent) -> None:
        before = self._context.keeper.record
        match self._context.keeper.hear(event):
            case News.READ:
                self._gathering.since = self._context.time.now
                self._heed_outcome()
            case News.CHANGED:
                self._record_changed(before, overtaken=False)
            case News.OVERTAKEN:
                self._record_changed(before, overtaken=True)

    def _record_changed(self, before: JobRecord | None, *, overtaken: bool) -> None:
        """Somebody else acts; or, before this one has written anything, its predecessor's last write came
        late."""
        context = self._context
        record = context.keeper.record
        recovered = record is None or before is None or record.attempt != before.attempt
        if context.keeper.has_written or (overtaken and recovered):
            context.finish(
                co.Finish(
                    "fenced",
                    "fenced",
                    "another coordinator has written the job record: it acts, this one steps back",
                )
            )
        else:
            self._healing.given_up()
            self._endings.verdict = None
            self._heed_outcome()

    def _heed_outcome(self) -> None:
        record = self._context.keeper.record
        settings = self._context.settings
        if record and (finish := _end_of(record, settings.takes_over_as)) is not None:
            self._context.stop_all(finish.message or record.outcome, finish)
        elif record and (other := _other_slots(record, settings)):
            # the stream runs on: a coordinator with its slots can adopt it
            self._context.finish(co.Finish("failed", "user", other))
        elif record:
            self._upgrade.heed(record)
            settings = self._context.settings
            if settings.code_told and record.code not in ("", settings.code):
                self._context.finish(co.Finish("fenced", "fenced", f"{TURNED}: another coordinator made it"))
            else:
                check_code(record, settings.code, changed=settings.code_changed)

    def _requested(self, what: str) -> None:
        if what == "stop" or not (self._context.running or self._healing.recovery):
            self._context.stop_all("requested", co.Finish("stopped"))
        else:
            self._endings.request_drain()

    # --- what follows ---------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        context = self._context
        context.keeper.go_on()
        self._drop_silent()
        if not context.keeper.known or self._hand_over.finished():
            return
        if self._gathering.adopted and not context.running and self._healing.recovery is None:
            self._begin_running()
            self._tell_where_we_are(context.workers)
        self._epochs.go_on()
        if self._endings.go_on():
            return
        self._upgrade.look_back()
        if not context.running and self._healing.recovery is None:
            self._gathering.go_on()
        elif self._heal_or_watch():
            self._run()

    def _heal_or_watch(self) -> bool:
        """Whether the stream runs with nothing wrong."""
        if self._context.running and (sign := self._stuck.sign(self._context.workers)):
            self._healing.complain("stuck", sign)
        if self._upgrade.turns_at_once() or self._healing.heal():
            return False
        if self._healing.go_on():
            self._begin_running()
        return self._context.running

    def _run(self) -> None:
        if not self._endings.drain and not self._endings.failure:
            # before the next epoch: where epochs take longer than their interval there is no other moment
            self._upgrade.go_on()
            if not self._upgrade.asked:
                self._hand_over.go_on()
                self._moving.go_on()
        if self._context.running:
            self._epochs.consider(urgent=self._endings.wants_epoch)

    def _drop_silent(self) -> None:
        context = self._context
        limit = context.settings.heartbeat_us
        if not context.running and not (self._healing.recovery and self._healing.recovery.told):
            return  # who has not been told to recover has nothing to report
        heard = {
            worker: context.members[worker].heard for worker in context.workers if worker in context.members
        }
        # all are asked: each must wake us
        due = [last for last in heard.values() if context.time.due_in(last, limit)]
        # who fell silent with the first went with it: a recovery
        since = Instant(context.time.now - (limit // 2 if due else limit))
        # with it would wait for it as long again (!)
        silent = [worker for worker, last in heard.items() if due and last <= since]
        for worker in silent + context.members.silent_spares(context.workers, since):
            silence = context.time.now - context.members[worker].heard
            context.members.leave(worker, context.time.now)
            context.instructions.add(
                co.Disconnect(worker, f"nothing was heard of it for {silence / 1e6:.3g} s")
            )

    def _begin_running(self) -> None:
        context = self._context
        context.running, self._refused = True, ""
        context.members.expect(context.workers, context.time.now)
        self._stuck.restart()
        self._epochs.since = context.time.now
        self._healing.runs()
        self._moving.restart()
        self._endings.restarted()
        context.warm()

    def _tell_where_we_are(self, workers: Sequence[WorkerId]) -> None:
        """Tell workers that run on what they may have missed."""
        instructions, record = self._context.instructions, self._context.record
        if record.committed:
            instructions.tell(workers, msg.Committed(record.fence, record.committed, record.cut))
        if record.announced > record.committed and self._epochs.pending is None:
            instructions.tell(workers, msg.Abort(record.fence, record.announced))
        if self._endings.drain and self._endings.drain.told:
            instructions.tell(workers, msg.Drain(record.fence))

    # --- what is shown --------------------------------------------------------------------------------------

    def _with_report(self, actions: list[co.Action]) -> list[co.Action]:
        """The actions with a report of a changed status and the next alarm; Finish stays the last one."""
        last = [actions.pop()] if self._context.finished else []
        troubles = self._epochs.problem, self._refused, *self._moving.problems
        status = status_of(self._context, self._healing, self._endings, self._upgrade, *troubles)
        if status != self._reported:
            self._reported = status
            actions.append(co.Report(status))
        alarm = None if self._context.finished else self._context.time.alarm()
        return [*actions, *([co.WakeAt(alarm)] if alarm is not None else []), *last]


def _end_of(record: JobRecord, name: str) -> co.Finish | None:
    """The end that a job has come to by its record, for who takes it over as `name`; None: it goes on."""
    if record.holder != name:  # (!) whatever it does under the name of its holder
        return co.Finish("handed over", message=handed_over(record.holder or "nobody yet"))
    if not record.outcome or is_taken_over(record):
        return None
    if record.outcome == "completed":
        return co.Finish("completed")
    return co.Finish("failed", "user", f"the job has ended before: {record.outcome}")


def _other_slots(record: JobRecord, settings: co.Settings) -> str:
    """The reason why the job cannot go on; "" if it has the slots that it began with. They are known before
    the first index (!): output may have left, and an adopted stream would get an index of what it is
    not."""
    began = len(record.layout.owners)
    if not settings.durable or began == settings.slots:
        return ""
    return (
        f"job {settings.job!r} began with {began} slots, by which its sinks know what they were given, and "
        f"cannot go on with {settings.slots}: set workers.slots back to {began}"
    )
