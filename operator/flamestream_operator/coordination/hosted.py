"""A job that this leader hosts: its workers' control links, and its coordinator from the first Hello on.

Keeps: a pod that was retired is let in no more (until it is gone, or RETIRED_FOR has passed: addresses are
used again); a coordinator that was fenced has a successor; one that ended stays readable. Does not: outlive a
bug of its own (the job shows as failed, the others run on).
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from msgspec.structs import replace as replaced

from flamestream.core.coordinator import coordination as co
from flamestream.core.protocol.messages import Hello, Stop, ToCoordinator
from flamestream.job.status import JobStatus
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.process_shell import last_lines
from flamestream.model.backoff import Backoff
from flamestream.model.ids import WorkerId
from flamestream.net.control_link import ControlListener, ControlServer
from flamestream.node.coordinator_host import CoordinatorHost
from flamestream.node.samples import Sample, each_second
from flamestream.ports import Background, JobRecords, ObjectStore
from flamestream_operator.coordination.contained import Contained
from flamestream_operator.coordination.hosting import ConnectedWorker, JobToCoordinate, host_of
from flamestream_operator.coordination.hours import Hour

FENCED: Final = "fenced"
"""The outcome of a coordinator that another one has taken over from."""
RETIRED_FOR: Final = 60.0
INHERITS_WITHIN: Final = 30.0
"""Seconds in which a worker of the code before dials the coordinator that began behind the tick."""
AGAIN: Final = 0.5
"""Seconds before a coordinator that was fenced has a successor."""
TOLD_WITHIN: Final = 3.0
"""Seconds after the job's end in which workers hear of it and go."""
AMONG_OTHERS_US: Final = 25_000
"""Microseconds that a job's workers take to be let in while others wait: a coordinator that has just begun waits for
its own as long as for all of them."""
TOGETHER: Final = 0.2
"""Seconds between two words of a job that waits for its workers."""
_GATHERING: Final = ("starting", "gathering")
EPOCHS_TOLD: Final = Backoff(1_000_000, 30_000_000)
"""Microseconds between two words of commits alone, since something else was told: the first commits make a job
Ready and stable, later ones change nothing but figures. A look at the job costs more than its commit."""
MOST_LEFT: Final = 256
"""Addresses of workers that left, and workers of each, which are remembered in case their pod is gone."""

log = logging.getLogger(__name__)


class Hosted:
    """All methods in the reactor's thread, but for `status` and `members`, which only read."""

    def __init__(
        self, job: JobToCoordinate, reactor: EpollReactor, listener: ControlListener, records: JobRecords,
        store: ObjectStore, threads: tuple[Background, Background], changed: Callable[[str], None],
        due: Callable[["Hosted"], None],
    ) -> None:  # fmt: skip
        """`changed(job)`: there is something to see. `due`: the next `turn` will do something."""
        self.job, self._due = job, due
        self.others: Callable[[], int] = lambda: 0
        """How many jobs wait for their workers here, this one among them."""
        self.hour = Hour()
        """The last hour, of all its coordinators here."""
        self._reactor = Contained(reactor, self.broken)
        self._threads = (self._reactor.through(threads[0]), self._reactor.through(threads[1]))
        self._records, self._store, self._tell = records, store, changed
        self._server = ControlServer(reactor, listener, job.identity, job.token)
        self._server.handlers = self
        self._host: CoordinatorHost | None = None
        self._early_end = ""
        self._hellos: dict[WorkerId, tuple[Hello, float]] = {}
        self._left: dict[str, list[WorkerId]] = {}
        """Workers that were at an address and are not connected now."""
        self._retired: dict[str, float] = {}
        self._held = 0
        self._shown: object = None
        self._phase, self._is_due = "", False
        """The phase that was told last, and whether more is told of it soon."""
        self._epoch = -1
        self._told = self._commits = 0
        """Which epoch was told last, when, and how many commits were told since anything else."""
        self._closed = False
        self._next: JobToCoordinate | None = None
        """The application that it is to go on with."""
        self._asked = ""
        """The code that its coordinator was asked to go on with."""
        self._inherited: JobToCoordinate | None = None
        """The code before, as long as its coordinator has not heard of that: it began behind the tick."""

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to coordinate."""
        host = self._host  # read once: the loop may let it go meanwhile
        return bool(self._early_end) or (host is not None and host.finish is not None)

    @property
    def gathers(self) -> bool:
        """Whether its workers are awaited, all or some."""
        host = self._host
        return (host is None or host.status.phase in _GATHERING) and not self.ended

    def status(self) -> JobStatus:
        """Before the first worker: starting."""
        host = self._host  # read once: the loop may let it go meanwhile
        if host is not None:
            inherited, status = self._inherited, host.look()
            # as long as its workers may come: whoever reads that there is none lets them go
            return replaced(status, before=inherited.settings.code, watched=True) if inherited else status
        phase = "finished" if self._early_end else "starting"
        return JobStatus(
            job=self.job.job, pid=0, updated=self._reactor.now(), phase=phase, outcome=self._early_end
        )

    def members(self) -> tuple[ConnectedWorker, ...]:
        """Connected workers, by name."""
        host = self._host
        inside = host.status.workers if host is not None else ()
        found = sorted(self._hellos.items())
        # one that fell silent was let go without a word from its link
        if host is not None and host.finish is None:
            known = {*inside, *host.status.standbys, *host.status.successors}
            found = [each for each in found if each[0] in known]
        return tuple(
            ConnectedWorker(
                worker,
                hello.address,
                since,
                worker not in inside,
                worker in inside or (host is not None and host.is_warm(worker)),
            )
            for worker, (hello, since) in found
        )

    def turn(self) -> None:
        """Take one step with everything that has arrived."""
        if self._host is None or self.ended:
            return
        try:
            self._host.turn()
        except Exception as error:  # noqa: BLE001 - as of every other call of this job's (coordination/contained.py)
            self.broken(error)
            return
        if self._host.finish is not None:
            self._finished(self._host.finish)

    def request(self, what: Literal["stop", "drain"]) -> None:
        """End the job. If no worker ever came there is nothing to drain."""
        if self._host is not None:
            self._host.request(what)
        else:
            self._early_end = "stopped"
            self._tell(self.job.job)

    def gone(self, ip: str) -> None:
        """Nothing runs at this address any more."""
        # The next pod may be given this address.
        self._retired.pop(ip, None)
        workers = [*self._left.pop(ip, []), *self._disconnect(ip, "its pod is gone")]
        if self._host is not None:
            self._host.gone(workers)

    def retire(self, ips: Sequence[str]) -> None:
        """Hand their slots over now, in one recovery."""
        fresh = [ip for ip in ips if not self._is_retired(ip)]
        self._retired |= dict.fromkeys(fresh, time.monotonic())
        workers = [worker for ip in fresh for worker in self._disconnect(ip, "its pod is about to stop")]
        if workers:
            log.info("retired", extra={"job": self.job.job, "workers": workers})
        if self._host is not None:
            self._host.gone(workers)

    def serves(self, job: JobToCoordinate) -> bool:
        """Whether nothing has to begin anew for `job`: it is this one, or what this one has gone on to."""
        if self.job.alone.is_like(job.alone):
            self.job = replaced(self.job, before=job.before)
            return True
        codes = filter(None, (self._next, self.job.went_on_from))
        turned = any(each.is_like(job.alone) for each in codes)
        if turned and self._host is not None and self._host.status.code == job.settings.code:
            self.job, self._next = job, None
            return True
        return False

    def upgrade(self, next_one: JobToCoordinate | None) -> None:
        """Go on with another application; None: with none but that which runs."""
        self._next, self._asked = next_one, ""
        if self._host is None:
            return
        if next_one is None:
            self._host.upgrade(None)
        else:
            self._greet(next_one.settings.code)

    def hand_over(self, to: str) -> None:
        """End at a cut from which the job called `to` goes on; "": go on as ever."""
        if self._host is not None:
            self._host.hand_over(to)

    def hold_deletions(self, held: bool) -> None:
        """Several savepoints may be under way."""
        self._held += 1 if held else -1
        if self._host is not None:
            self._host.hold_deletions(self._held > 0)

    def close(self) -> None:
        """Let every worker go, without a word: it dials again."""
        self._closed = True
        self._server.close(0)

    # --- what the control links say -------------------------------------------------------------------------

    def connected(self, hello: Hello) -> None:
        """Take a worker in; the first one's Hello makes the coordinator."""
        if self._is_retired(host_of(hello.address)):  # its slots are others' by now: it would take them back
            self._server.disconnect(hello.worker)
            return
        self._hellos[hello.worker] = (hello, time.monotonic())
        finish = self._host.finish if self._host is not None else None
        if finish is not None and finish.outcome == FENCED:
            return  # (!) the job goes on: who is told to stop here is not there for it
        # Whoever was away when the job ended has not heard of it, and would dial for ever.
        if self._early_end or finish is not None:
            self._server.tell(hello.worker, Stop("the job has ended"))
            return
        if self._host is not None:
            self._introduce(hello)
        elif self.job.before is None and (
            not self.job.settings.code or hello.code in ("", self.job.settings.code)
        ):
            self._begin(self.job, hello)
        else:
            self._ask_the_record(hello)

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        """Take note that a worker's link is gone; the worker may dial again."""
        known = self._hellos.pop(worker, None)
        if known is not None:
            here = self._left.setdefault(host_of(known[0].address), [])
            here.append(worker)
            del here[:-MOST_LEFT]  # bounded, whatever dials in
            if len(self._left) > MOST_LEFT:
                del self._left[next(iter(self._left))]
        if self._host is not None:
            self._host.disconnected(worker, reason)

    def from_worker(self, worker: WorkerId, message: ToCoordinator) -> None:
        """Anything but a Hello."""
        if self._host is not None:
            self._host.from_worker(worker, message)

    def broken(self, error: Exception) -> None:
        """A bug ends this job's coordination, and only that."""
        log.error("a coordinator has a bug", exc_info=error, extra={"job": self.job.job})
        if self._host is not None and self._host.finish is None:
            self._host.finish = co.Finish("failed", "bug", last_lines(error))
            self._look()
            self._finished(self._host.finish)

    # --- inside ---------------------------------------------------------------------------------------------

    def _introduce(self, hello: Hello) -> None:
        """A worker to its coordinator: the first of another application with what that is."""
        assert self._host is not None, "asked before"
        code, wanted, before = hello.code, self._next, self._inherited
        if before is not None and code == before.settings.code:
            self._inherited = None
            self._host.inherit(before.settings_with(hello))
        if wanted is not None and code == wanted.settings.code and code != self._asked:
            self._asked = code
            self._host.upgrade(wanted.settings_with(hello))
        self._host.connected(hello)

    def _greet(self, code: str = "") -> None:
        """Workers that are connected already, to a coordinator that does not know them; of `code` alone if that
        is said."""
        for hello, _ in list(self._hellos.values()):
            if code in ("", hello.code):
                self._introduce(hello)

    def _ask_the_record(self, hello: Hello) -> None:
        """Whether it is a worker of the code that runs, where that is not known for sure: a leader that has not lived
        to say so may have gone on with the next, or back to the one before."""

        def read(found: object) -> None:
            if self._host is not None or self._closed or hello.worker not in self._hellos:
                return
            if isinstance(found, Exception):
                self._reactor.later(AGAIN, lambda: self._ask_the_record(hello))
                return
            record = found[0] if isinstance(found, tuple) else None
            runs, before = self.job, self.job.went_on_from
            for job, was in ((runs, before), (self._next, runs.alone), (before, None)):
                if record is not None and job is not None and record.code == hello.code == job.settings.code:
                    self._begin(job, hello, was)
                    return

        self._threads[0].background(self._records.read, read)

    def _begin(self, job: JobToCoordinate, hello: Hello, before: JobToCoordinate | None = None) -> None:
        """Make its coordinator, behind the tick from the code `before` if there was one."""
        self._host, self._inherited = self._made(job, hello), before
        if before is not None:
            self._reactor.later(INHERITS_WITHIN, self._inherits_no_more)
        self._greet()

    def _inherits_no_more(self) -> None:
        if self._inherited is not None:
            self._inherited = None
            self._tell(self.job.job)

    def _made(self, job: JobToCoordinate, hello: Hello) -> CoordinatorHost:
        settings = job.settings_with(hello)
        # A new leader's workers all dial at once: who is late is behind those of others, and not lost (!).
        crowd = AMONG_OTHERS_US * max(0, self.others() - 1)
        settings = replace(
            settings, settle_us=settings.settle_us + crowd, discovery_us=settings.discovery_us + crowd
        )
        host = CoordinatorHost(
            settings, self.job.token, self._reactor, self._records, self._store,
            self._server, changed=self._look, threads=self._threads,
        )  # fmt: skip
        host.due = lambda: self._due(self)
        host.due()
        each_second(self._reactor, partial(self._sample, host), self.hour.add)
        # A savepoint may be under way since before this coordinator.
        if self._held:
            host.hold_deletions(True)
        return host

    def _sample(self, host: CoordinatorHost) -> Sample | None:
        return host.sample() if self._host is host and not self._closed else None

    def _look(self) -> None:
        """Tell of transitions only: counters change with every heartbeat, which also tells of a commit that
        was not told at once."""
        host = self._host
        if host is None:
            return
        status, finish = host.status, host.finish
        waiting = (*status.standbys, *status.successors)
        shown = (
            status.phase, status.attempt, status.workers, status.standbys, status.problems, status.recoveries,
            status.code, status.successors, status.refusal, status.wanted, finish,
            [*filter(host.is_warm, waiting)],
        )  # fmt: skip
        now = self._reactor.instant()
        if shown != self._shown:
            # Workers that come one after the other are told of together: a look costs more than letting one in.
            gathers = status.phase in _GATHERING and status.phase == self._phase
            if gathers and now < self._told + TOGETHER * 1e6:
                if not self._is_due:
                    self._is_due = True
                    self._reactor.later(TOGETHER, self._look)
                return
            self._commits = 0
        elif status.epoch == self._epoch or now < self._told + EPOCHS_TOLD.after(self._commits):
            return
        self._shown, self._epoch, self._told, self._commits = shown, status.epoch, now, self._commits + 1
        self._phase, self._is_due = status.phase, False
        self._tell(self.job.job)

    def _finished(self, finish: co.Finish) -> None:
        if finish.outcome == FENCED:
            log.warning("another coordinator acts", extra={"job": self.job.job, "reason": finish.message})
            self._reactor.later(AGAIN, self._begin_again)
        else:
            self._reactor.later(TOLD_WITHIN, self._let_go)

    def _begin_again(self) -> None:
        if not self._closed:
            # Let go so that they dial: the first Hello makes the successor, which has been asked for nothing yet.
            self._host, self._asked = None, ""
            self._let_go()

    def _let_go(self) -> None:
        for worker in list(self._hellos):
            self._server.disconnect(worker)
            self._hellos.pop(worker, None)

    def _disconnect(self, ip: str, reason: str) -> list[WorkerId]:
        workers = [worker for worker, (hello, _) in self._hellos.items() if host_of(hello.address) == ip]
        for worker in workers:
            # It tells nobody: of those that are let go here the coordinator hears below.
            self._server.disconnect(worker)
            self._hellos.pop(worker, None)
            if self._host is not None:
                self._host.disconnected(worker, reason)
        return workers

    def _is_retired(self, ip: str) -> bool:
        since = self._retired.get(ip)
        if since is None:
            return False
        if time.monotonic() - since > RETIRED_FOR:
            del self._retired[ip]
            return False
        return True
