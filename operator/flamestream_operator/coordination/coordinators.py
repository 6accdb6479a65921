"""The coordinators of all jobs of this leader: one thread, one reactor, one port, one session with ZooKeeper.

Each job has a `Hosted`: the far end of its workers' control links, and, from the first worker's Hello on
(which tells the graph's identity, since no user code runs here), a CoordinatorHost. Blocking calls go to
helper threads, those to ZooKeeper and those to stores apart: an S3 that is away must not delay another job's
recovery.

Keeps: an error of one job ends that job's coordinator and no other; one that is nobody's is logged, and the
loop turns on, but for `MOST_ERRORS` of them a minute; every method may be called from any thread and returns
at once. Does not: know Kubernetes (pods are addresses here), or decide anything about a job
(core/coordinator/coordinator.py).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.status import JobStatus
from flamestream.loop.background import Threads
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import UserError
from flamestream.net.acceptor import listen
from flamestream.net.control_link import ControlListener
from flamestream.node.samples import Sample
from flamestream.ports import Background, ObjectStore
from flamestream.store.lazy import LazyStore
from flamestream.store.places import Keys
from flamestream.store.snapshot_index import read_index
from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.coordination import savepoints
from flamestream_operator.coordination.cluster_state import SharedClusterState, ZooKeeper
from flamestream_operator.coordination.contained import Contained
from flamestream_operator.coordination.hosted import Hosted
from flamestream_operator.coordination.hosting import ConnectedWorker, JobToCoordinate, Savepoint
from flamestream_operator.coordination.hours import Hour

T = TypeVar("T")
StoreOf = Callable[[str, Keys], ObjectStore]
"""The store of this URL, with these keys. Raises UserError if it is not to be opened."""

RECORD_THREADS: Final = 4
STORE_THREADS: Final = 8
TURNS_WITHIN: Final = 5.0
"""Seconds after which a reactor that has not turned hangs."""
BEAT: Final = 1.0
MOST_ERRORS: Final = 20
ERRORS_WITHIN: Final = 60.0
"""So many in so many seconds end the loop: it gets nowhere."""
MOST_STOPPED: Final = 256
"""Jobs that are coordinated no more, and whose last hour is kept."""

log = logging.getLogger(__name__)


class Coordinators:
    """Started once the Lease is ours; a process that loses it just ends."""

    def __init__(
        self, *, zookeeper: ZooKeeper, host: str, port: int, changed: Callable[[str], None], store_of: StoreOf,
        elsewhere: Callable[[str], str] = lambda _: "", opens: bool = True,
    ) -> None:  # fmt: skip
        """Listen. `changed(job)` is called in the reactor's thread at every transition. `elsewhere`: the address of
        the leader that coordinates the job of an identity; "": none but this. `opens`: at once; else workers that dial
        wait until `open`. Raises OSError if the port is taken."""
        self._changed, self._store_of = changed, store_of
        self._reactor = EpollReactor()
        self._listener = ControlListener(self._reactor, listen(host, port), elsewhere, opens=opens)
        self._state = SharedClusterState(zookeeper)
        self._for_records, self._for_stores = (
            Threads(RECORD_THREADS, self._reactor.soon),
            Threads(STORE_THREADS, self._reactor.soon),
        )
        self._hosted: dict[str, Hosted] = {}
        self._stopped: dict[str, Hour] = {}
        """The last hours of jobs that were stopped, the last one last."""
        self._due: dict[Hosted, None] = {}
        """Those whose turn does something: of a thousand jobs few, each time."""
        self._turned = time.monotonic()
        self._reactor.soon(self._beat)
        # while workers dial
        self._for_records.background(self._state.connected, _warning("ZooKeeper cannot be used yet"))
        self._thread = threading.Thread(target=self._run, name="coordinators", daemon=True)
        self._thread.start()

    # --- jobs -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Let workers in: those of jobs that are not started by now are sent away, and dial again and again."""
        self._reactor.soon(self._listener.acceptor.open)

    def start(self, job: JobToCoordinate) -> None:
        """Coordinate it. The same value again while it runs: nothing."""
        assert job.token, f"{job.job}: workers could not prove that they belong to it"
        self._of(job.job).soon(lambda: self._start(job))

    def stop(self, job: str) -> None:
        """Forget it. Its workers run on and dial, until somebody starts it."""
        self._of(job).soon(lambda: self._stop(job))

    def status(self, job: str) -> JobStatus | None:
        """As far as this leader knows; None: not started here."""
        # In another thread than the loop's, which changes it: a single look-up needs no lock.
        hosted = self._hosted.get(job)
        return hosted.status() if hosted else None

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        """Its last hour by the second, as far as this leader has coordinated it: what is behind a moment, in
        microseconds since 1970."""
        hosted = self._hosted.get(job)
        hour = hosted.hour if hosted is not None else self._stopped.get(job)
        return [] if hour is None else hour.behind(behind)

    def members(self, job: str) -> tuple[ConnectedWorker, ...]:
        """The connected workers, by name."""
        hosted = self._hosted.get(job)
        return hosted.members() if hosted else ()

    def suspend(self, job: str) -> None:
        """Stop at an epoch with nothing left in flight; then its outcome is drained."""
        self._to(job, lambda hosted: hosted.request("drain"))

    def end(self, job: str) -> None:
        """Stop every worker now."""
        self._to(job, lambda hosted: hosted.request("stop"))

    def gone(self, job: str, ip: str) -> None:
        """Whatever ran at this address has ended: nobody waits for it."""
        self._to(job, lambda hosted: hosted.gone(ip))

    def retire(self, job: str, ips: Sequence[str]) -> None:
        """Whatever runs at these addresses is about to be stopped: its slots go to others now, at once, and
        it is let in no more."""
        self._to(job, lambda hosted: hosted.retire(ips))

    def upgrade(self, job: str, next_one: JobToCoordinate | None) -> None:
        """Go on with another application, whose workers dial in beside those that run; its code is known.
        None: with none but that which runs."""
        self._to(job, lambda hosted: hosted.upgrade(next_one))

    def hand_over(self, job: str, to: str) -> None:
        """End it at a cut from which the job called `to` goes on; "": it goes on as ever."""
        self._to(job, lambda hosted: hosted.hand_over(to))

    # --- records and savepoints -----------------------------------------------------------------------------

    def record(self, job: str) -> "Future[JobRecord | None]":
        """The record of any job, started here or not."""
        return self._ask(self._for_records, lambda: self._record(job))

    def leave(self, job: str) -> "Future[Leave | None]":
        """The leave that a job of another cluster has given; None: none."""
        return self._ask(self._for_records, lambda: self._state.leave(job).read())

    def give_leave(self, job: str, leave: Leave | None) -> "Future[str]":
        """Give the leave of a job that runs here to one of another cluster, or take it away; the name of the one that
        asks for it now, "": none."""
        return self._ask(self._for_records, lambda: self._state.leave(job).give(leave))

    def ask(self, job: str, to: str) -> "Future[None]":
        """Ask a job of another cluster to end where the one called `to` goes on; "": ask no more."""
        return self._ask(self._for_records, lambda: self._state.leave(job).ask(to))

    def committed(self, job: str) -> "Future[tuple[str, SnapshotIndex] | None]":
        """The committed snapshot of a job that was started here, with its name; None: there is none."""
        return self._ask(self._for_stores, lambda: self._committed(job))

    def savepoint(self, job: JobToCoordinate, name: str) -> "Future[Savepoint]":
        """A copy of the newest committed snapshot, taken while the job runs or is suspended."""
        answer: Future[Savepoint] = Future()
        self._answering(answer).soon(lambda: self._savepoint(job, name, answer))
        return answer

    def restore(self, job: JobToCoordinate, savepoint: Savepoint) -> "Future[JobRecord]":
        """Make the first record of a job that has none."""
        return self._ask(self._for_stores, lambda: self._restore(job, savepoint))

    def delete_savepoint(self, keys: tuple[str, str], savepoint: Savepoint) -> "Future[None]":
        """Delete a savepoint's objects. `keys` are those of its store: access key and secret key, or
        empty."""
        return self._ask(
            self._for_stores, lambda: savepoints.delete(self._store(savepoint.store, keys), savepoint)
        )

    def forget(self, job: JobToCoordinate, *, begins_anew: bool = False) -> "Future[None]":
        """Delete everything of a job that nobody runs: snapshots, journal, record; if it begins anew, its
        attempts go on, as its sinks refuse older ones. Nothing, if another job holds it."""

        def forget() -> None:
            records = self._state.records(job.identity)
            found = records.read()
            if found is not None and found[0].holder != job.settings.takes_over_as:
                return
            if (
                # the record first (!): a commit that is on its way then conflicts, and names nothing that is
                # removed below
                found is not None
                and begins_anew
                and records.compare_and_set(savepoints.emptied(found[0]), found[1]) is None
            ):
                raise UserError(
                    f"job {job.job!r} was changed meanwhile by somebody else: nothing was removed"
                )
            savepoints.delete_job(self._store(job.store, job.keys), job.identity, found[0] if found else None)
            self._state.delete(job.identity, record=not begins_anew)

        return self._ask(self._for_stores, forget)

    # --- the process ----------------------------------------------------------------------------------------

    def healthy(self) -> bool:
        """Whether the loop turns."""
        return self._thread.is_alive() and time.monotonic() - self._turned < TURNS_WITHIN

    def close(self) -> None:
        """End the loop; nobody is told, the streams run on."""
        # The loop ends first: all that is closed below is its thread's own.
        self._reactor.stop()
        self._thread.join(TURNS_WITHIN)
        for hosted in self._hosted.values():
            hosted.close()
        self._listener.acceptor.close()
        self._for_records.close()
        self._for_stores.close()
        self._state.close()

    def _run(self) -> None:
        errors = deque[float](maxlen=MOST_ERRORS)
        while True:
            try:
                self._reactor.run(self._turn)
                return
            except Exception:  # a bug, and nobody's; what else waits in the loop is as it was (!)
                log.exception("a call in the coordinators' loop has failed")
                errors.append(time.monotonic())
                # `healthy` shows it, the streams run on
                if len(errors) == MOST_ERRORS and errors[-1] - errors[0] < ERRORS_WITHIN:
                    log.critical("the coordinators' loop has ended")
                    raise

    def _turn(self) -> None:
        for hosted in list(self._due):
            del self._due[hosted]  # before: what comes meanwhile is for the next turn
            # One that was stopped, or has a successor here, decides nothing more (!).
            if self._hosted.get(hosted.job.job) is hosted:
                hosted.turn()

    def _still_gather(self) -> int:
        """How many jobs wait for their workers."""
        return sum(hosted.gathers for hosted in self._hosted.values())

    def _beat(self) -> None:
        self._turned = time.monotonic()
        self._reactor.later(BEAT, self._beat)

    def _start(self, job: JobToCoordinate) -> None:
        known = self._hosted.get(job.job)
        if known is not None and not known.ended and known.serves(job):
            return
        if known is not None:
            known.close()
        threads: tuple[Background, Background] = (self._for_records, self._for_stores)
        records, store = self._state.records(job.identity), self._store(job.store, job.keys)
        # before a recovery needs it
        self._for_stores.background(store.warm, _warning("store cannot be opened yet", job=job.job))
        hosted = self._hosted[job.job] = Hosted(
            job, self._reactor, self._listener, records, store, threads, self._changed,
            lambda hosted: self._due.update({hosted: None}),
        )  # fmt: skip
        hosted.others = self._still_gather
        hosted.hour = known.hour if known is not None else self._stopped.pop(job.job, hosted.hour)
        self._changed(job.job)

    def _stop(self, job: str) -> None:
        hosted = self._hosted.pop(job, None)
        if hosted is not None:
            hosted.close()
            self._stopped[job] = hosted.hour
            if len(self._stopped) > MOST_STOPPED:
                del self._stopped[next(iter(self._stopped))]

    def _to(self, job: str, call: Callable[[Hosted], None]) -> None:
        def run() -> None:
            hosted = self._hosted.get(job)
            if hosted is not None:
                call(hosted)

        self._of(job).soon(run)

    def _of(self, job: str) -> Contained:
        """The loop, for calls of `job`: what they raise is that job's."""
        return Contained(self._reactor, lambda error: self._broken(job, error))

    def _answering(self, answer: "Future[T]") -> Contained:
        """The loop, for a call that somebody waits for: what it raises is the answer."""
        return Contained(self._reactor, lambda error: _settle(answer, error))

    def _broken(self, job: str, error: Exception) -> None:
        hosted = self._hosted.get(job)
        if hosted is not None:
            hosted.broken(error)
        else:
            log.error("a job cannot be coordinated", exc_info=error, extra={"job": job})

    def _ask(self, threads: Threads, work: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()
        self._answering(answer).soon(lambda: threads.background(work, lambda result: _settle(answer, result)))
        return answer

    def _store(self, url: str, keys: Keys) -> LazyStore:
        """Opened by who needs it, in a helper thread."""
        return LazyStore(lambda: self._store_of(url, keys))

    def _record(self, job: str) -> JobRecord | None:
        found = self._state.records(job).read()
        return found[0] if found else None

    def _committed(self, job: str) -> tuple[str, SnapshotIndex] | None:
        hosted = self._hosted.get(job)
        if hosted is None:
            raise UserError(f"job {job!r} is not coordinated now: its store is read when it runs")
        record = self._record(hosted.job.identity)
        if record is None or not record.index:
            return None
        store = self._store(hosted.job.store, hosted.job.keys)
        return record.index, read_index(store, record.index, record.index_hash)

    def _savepoint(self, job: JobToCoordinate, name: str, answer: "Future[Savepoint]") -> None:
        hosted = self._hosted.get(job.job)
        if hosted is not None:
            hosted.hold_deletions(True)  # or a commit would delete what is being copied (!)

        def work() -> Savepoint:
            # Read behind the hold (!): of what it names nothing is removed until it is copied.
            record = self._record(job.identity)
            if record is None:
                raise UserError(f"job {job.job!r} has never run: there is nothing to take a savepoint of")
            return savepoints.take(self._store(job.store, job.keys), job.store, record, job.identity, name)

        def done(result: Savepoint | Exception) -> None:
            if hosted is not None:
                hosted.hold_deletions(False)
            _settle(answer, result)

        self._for_stores.background(work, done)

    def _restore(self, job: JobToCoordinate, savepoint: Savepoint) -> JobRecord:
        records = self._state.records(job.identity)
        if records.read() is not None:
            raise UserError(
                f"job {job.job!r} has a state of its own: "
                "a savepoint is restored into a job that has never run"
            )
        source, target = self._store(savepoint.store, job.keys), self._store(job.store, job.keys)
        # Objects before the record, which makes them count; where somebody was faster they are orphans.
        record = savepoints.restore(source, savepoint, target, job.identity)
        if records.compare_and_set(record, None) is None:
            raise UserError(f"job {job.job!r} has begun meanwhile: its savepoint was not restored")
        return record


def _warning(text: str, **about: str) -> Callable[[object], None]:
    """Logs the answer of a background call if it is a problem: whoever needs the result asks again, and
    streams run on meanwhile."""

    def answered(problem: object) -> None:
        if problem and isinstance(problem, str | Exception):
            log.warning(text, extra={**about, "reason": str(problem)})

    return answered


def _settle(answer: "Future[T]", result: T | Exception) -> None:
    if not answer.set_running_or_notify_cancel():
        return  # whoever asked has given up; to settle it would raise into the loop of all jobs
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
