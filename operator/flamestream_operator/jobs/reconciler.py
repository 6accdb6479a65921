"""The reconciler of FlameStreamJobs: look, decide, carry out, look again until nothing more can be done now.

Keeps: no effect without a valid Lease; none that cannot be taken back without a fresh read of the job; a
refusal is reported to the core and never ends the operator. Does not: decide (jobs/decide.py).
"""

import logging
from collections.abc import Sequence
from typing import Final

from flamestream_operator import metrics
from flamestream_operator.api.job_status import JobResourceStatus, encoded
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.changes.take_over import other_of
from flamestream_operator.jobs.decide import decide, desired_of, status_of
from flamestream_operator.jobs.handlers import Handler, Stop, Tools
from flamestream_operator.jobs.inputs import JobInputs
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.jobs.object_effects import JobObjects
from flamestream_operator.jobs.observed import Coordinated, Observed, ip_of
from flamestream_operator.jobs.spec import Desired, needs_config_map
from flamestream_operator.jobs.stream_effects import JobStreams
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key, key_of
from flamestream_operator.kube.events import EventSender
from flamestream_operator.objects.meta import ROLE, Object, part
from flamestream_operator.site import Site

MOST_ROUNDS: Final = 12
"""Looks in one reconciliation: a safeguard, a launch needs five."""
_FINAL: Final = (do.DeletePod, do.DeleteSnapshot, do.DeleteJob, do.End, do.Suspend, do.Begin)
"""Actions that cannot be taken back: the job is read again before the first of them."""

log = logging.getLogger(__name__)


class JobReconciler:
    """`reconcile(key)` for every change of what is seen of a job."""

    def __init__(self, site: Site, tools: Tools) -> None:
        self._tools, self._api, self._cluster, self._hosting, self._site = (
            tools,
            tools.api,
            tools.cluster,
            tools.hosting,
            site,
        )
        self._check, self._again, self._clock, self._instant = (
            tools.check,
            tools.again,
            tools.clock,
            tools.instant,
        )
        self._memories: dict[Key, Memory] = {}
        self._events = EventSender(self._api, self._clock)
        self.inputs = JobInputs(tools)
        self._do: dict[type[object], Handler] = {
            do.WriteStatus: self._write_status, do.SetFinalizer: self._set_finalizer, do.Tell: self._tell,
            **self.inputs.handlers, **JobObjects(tools).handlers, **JobStreams(tools).handlers,
        }  # fmt: skip

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        pause: float | None = None
        for _ in range(MOST_ROUNDS):
            # From the cache, which may be old: the status is written as a compare-and-set, and what cannot be
            # taken back reads the job again.
            job = self._cluster.jobs.get(key)
            # In each round (!): what it was given a name by may have made it another shard's.
            if job is None or not self._tools.mine(job):
                self._forgotten(key)
                return None
            memory = self._memory(key, job)
            decision = decide(self._look(key, job, memory))
            pause = decision.look_again
            if not await self._carry_out(key, memory, job, decision):
                break
        return pause

    def changed(self, identity: str) -> None:
        """A coordinator's word. In the loop's thread."""
        namespace, _, name = identity.partition(".")
        self._again((namespace, name))

    def application_changed(self, namespace: str, name: str) -> None:
        """A ConfigMap that may be a job's application."""
        for key, memory in self._memories.items():
            if key[0] == namespace and memory.app_name == name:
                # Not taken from the event, which may be old: until a look has read it anew there is no plan,
                # and the stream runs on.
                memory.app_digest = ""
                self._again(key)

    def observe(self) -> None:
        """Bring all figures up to date: somebody is about to read them."""
        for key, memory in self._memories.items():
            try:
                status = (self._cluster.jobs.get(key) or {}).get("status") or {}
                metrics.stated(".".join(key), status.get("conditions") or ())
                if memory.hosted_run >= 0 and (said := self._coordinated(key, memory)) is not None:
                    metrics.observe(".".join(key), said.status, self._instant() - memory.epoch_instant)
            except Exception:  # one job's figures must not hide those of all others (!)
                metrics.reconcile_errors.labels("figures").inc()
                log.exception("figures cannot be read", extra={"job": ".".join(key)})

    def memory_of(self, key: Key) -> Memory | None:
        """The memory of a job, beside its status; None: this process has not looked at it yet."""
        return self._memories.get(key)

    def planned(self, job: Object) -> tuple[Observed, JobResourceStatus, Desired]:
        """A job as other reconcilers see it: without its pods, but with its status and the plan that should
        run."""
        # A new one is not kept: that there is one says that this process has looked at the job (`memory_of`).
        memory, status = self._memories.get(key_of(job)) or Memory(""), status_of(job)
        observed = Observed(
            now=self._clock(), job=job, site=self._site, app_digest=memory.app_digest, specs=memory.specs
        )
        return observed, status, desired_of(observed, status)

    # --- looking --------------------------------------------------------------------------------------------

    def _memory(self, key: Key, job: Object) -> Memory:
        uid = str(job["metadata"]["uid"])
        known = self._memories.get(key)
        # Another life of the name inherits nothing: refusals, tokens and missed pods are of the old one.
        if known is None or known.uid != uid:
            known = self._memories[key] = Memory(uid)
        return known

    def _look(self, key: Key, job: Object, memory: Memory) -> Observed:
        run = status_of(job).run.number
        app = needs_config_map(job.get("spec") or {})
        if app != memory.app_name:
            memory.app_name, memory.app_digest, memory.app_problem, memory.app = app, "", "", None
        restore = (job.get("spec") or {}).get("restoreFrom") or {}
        # Not the word of an earlier run's coordinator: its outcome would end this run as well (!).
        pods, coordinated = (
            tuple(self._cluster.pods_of(key)),
            self._coordinated(key, memory) if memory.hosted_run == run else None,
        )
        _note_away(memory, pods, coordinated, self._instant())
        return Observed(
            now=self._clock(), instant=self._instant(), job=job, site=self._site, pods=pods,
            absent=frozenset(memory.absent), dead_nodes=self._cluster.dead_nodes(),
            closed_nodes=self._cluster.closed_nodes(), coordinated=coordinated,
            token=memory.token if memory.token_run == run else "", secrets_problem=memory.secrets_problem,
            app_digest=memory.app_digest, app_problem=memory.app_problem,
            snapshot=self._cluster.snapshots.get((key[0], str(restore.get("snapshot", "")))),
            other=self._cluster.jobs.get(other_of(job) or ("", "")), leave=memory.leave, given=memory.given,
            snapshots=tuple(thing for thing in self._cluster.snapshots if _is_of(thing, key)),
            refusals=dict(memory.refusals), operations=dict(memory.operations), away=dict(memory.away),
            retired=frozenset(memory.retired), specs=memory.specs, last_write=memory.last_write,
        )  # fmt: skip

    def _coordinated(self, key: Key, memory: Memory) -> Coordinated | None:
        identity = ".".join(key)
        status = self._hosting.status(identity)
        if status is None:
            return None
        # without: a coordinator that has just begun, and has read no record yet
        if status.attempt and status.epoch != memory.epoch:
            # The first look adds nothing: those epochs were committed before this process looked.
            metrics.epochs.labels(identity).inc(
                max(0, status.epoch - memory.epoch) if memory.epoch >= 0 else 0
            )
            memory.epoch, memory.epoch_since, memory.epoch_instant = (
                status.epoch,
                self._clock(),
                self._instant(),
            )
        if status.outcome:
            # Its last word: whoever reads the figures next (`observe`) finds it let go. Other looks need none of them.
            metrics.observe(identity, status, self._instant() - memory.epoch_instant)
        began, counted = memory.recoveries
        counted = counted if began == status.began else 0  # another coordinator counts from its own beginning
        if (
            status.recoveries > counted
            and status.last_recovery is not None
            # one that is under way has no duration yet, and is counted when it has
            and status.last_recovery.duration_ms
        ):
            metrics.recovered(identity, status.last_recovery, status.recoveries - counted)
            memory.recoveries = (status.began, status.recoveries)
        replay = (status.began, status.recoveries)
        if memory.replays != replay and status.last_recovery and "replay" in status.last_recovery.steps_ms:
            metrics.replay_ended(identity, status.last_recovery)
            memory.replays = replay
        return Coordinated(status, self._hosting.members(identity), memory.epoch_since, memory.hosted_since)

    def _forgotten(self, key: Key) -> None:
        """The object is gone, or another leader's."""
        if self._memories.pop(key, None) is not None:
            self._hosting.stop(".".join(key))
            metrics.forget(".".join(key))

    # --- carrying out ---------------------------------------------------------------------------------------

    async def _carry_out(self, key: Key, memory: Memory, job: Object, decision: do.Decision) -> bool:
        """Whether there is something new to look at."""
        news, fresh = False, False
        for action in decision.actions:
            if isinstance(action, _FINAL) and not fresh:
                if await self._is_old(key, job):  # what cannot be taken back is done to what is there now (!)
                    return True
                fresh = True
            self._check()  # before every effect (!): another operator may lead by now
            metrics.actions.labels(type(action).__name__).inc()
            try:
                # In this order: `news or ...` would leave actions out.
                news = bool(await self._do[type(action)](key, memory, job, action)) or news
            except Stop:
                return True
        return news

    async def _is_old(self, key: Key, job: Object) -> bool:
        """Whether the job has changed since it was seen."""
        fresh = await self._api.get("FlameStreamJob", *key)
        if fresh is None or fresh["metadata"]["uid"] != job["metadata"]["uid"]:
            # That ends the life: its late events are refused from here on (kube/cache.py).
            self._cluster.jobs.forget(key)
            if fresh is not None:
                self._cluster.jobs.put(fresh)
            return True
        self._cluster.jobs.put(fresh)
        return bool(fresh["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"])

    async def _write_status(self, key: Key, memory: Memory, job: Object, action: do.WriteStatus) -> bool:
        # `metadata` has the version that was seen, so that what follows from an old copy is refused (!).
        thing = {
            **{name: job[name] for name in ("apiVersion", "kind", "metadata", "spec")},
            "status": encoded(action.status),
        }
        try:
            new = await self._api.replace_status(thing)
        except ApiProblem as problem:
            return await self._conflicted(key, job, problem)
        self._cluster.jobs.put(new)
        memory.last_write = self._instant()
        _prune(memory, action)
        return True

    async def _conflicted(self, key: Key, job: Object, problem: ApiProblem) -> bool:
        if problem.absent or problem.conflict:  # somebody wrote in between: look again, force nothing (!)
            metrics.api_conflicts.inc()
            await self._is_old(key, job)
            raise Stop from problem
        raise problem

    async def _set_finalizer(self, key: Key, memory: Memory, job: Object, action: do.SetFinalizer) -> bool:
        try:
            new = await self._tools.finalize(job, there=action.there)
        except ApiProblem as problem:
            return await self._conflicted(key, job, problem)
        if action.there:
            self._cluster.jobs.put(new)
        else:
            self._cluster.jobs.drop(new if new.get("metadata") else job)
        return True

    async def _tell(self, key: Key, memory: Memory, job: Object, action: do.Tell) -> None:
        await self._events.send(job, action.kind, action.reason, action.message)


def _note_away(memory: Memory, pods: Sequence[Object], coordinated: Coordinated | None, now: float) -> None:
    """Who is not connected, and since when, as far as this process has seen."""
    here = {member.ip for member in coordinated.members} if coordinated is not None else set()
    away = (
        {ip_of(pod) for pod in pods if pod["metadata"].get("labels", {}).get(ROLE) == "worker"} - here - {""}
    )
    # Without a coordinator nobody can be missed: a new leader counts from the first word of its own.
    memory.away = {ip: memory.away.get(ip, now) for ip in away} if coordinated is not None else {}


def _is_of(snapshot: Object, job: Key) -> bool:
    return (part(snapshot, "metadata", "namespace"), part(snapshot, "spec", "job")) == job


def _prune(memory: Memory, action: do.WriteStatus) -> None:
    """Forget what is remembered of launches that are over."""
    launches = {f"launch/{driver.launch}" for driver in action.status.drivers}
    for key in [key for key in memory.refusals if key.startswith("launch/") and key not in launches]:
        del memory.refusals[key]
    if len(memory.absent) > 64:  # bounded; what is forgotten is looked for once more
        memory.absent.clear()
    if len(memory.retired) > 256:
        memory.retired.clear()
