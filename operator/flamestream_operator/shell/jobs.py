"""The reconciler of FlameStreamJobs: look, decide, carry out, look again until nothing more can be done now.

Keeps: no effect without a valid Lease; none that cannot be taken back without a fresh read of the job; a refusal is reported to the core
and never ends the operator. Does not: decide (core/decide.py).
"""

import asyncio
import base64
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from flamestream.adapters.status_file import JobStatus
from flamestream.model.errors import FlameStreamError
from flamestream_operator.api.job_status import encoded
from flamestream_operator.core import actions as do
from flamestream_operator.core.clock import written
from flamestream_operator.core.decide import decide, status_of
from flamestream_operator.core.plan import needs_config_map
from flamestream_operator.core.seen import Coordinated, Member, Operation, Refusal, Seen, Site
from flamestream_operator.core.settings import JobSettings
from flamestream_operator.hosting import JobToCoordinate
from flamestream_operator.hosting import Member as Connected
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import CONNECTED, FINALIZER, Object, is_of_earlier_life, is_owned
from flamestream_operator.objects.small import build_application_copy, digest_of_application
from flamestream_operator.shell import metrics
from flamestream_operator.shell.api import ApiProblem
from flamestream_operator.shell.cache import Key
from flamestream_operator.shell.events import EventSender
from flamestream_operator.shell.memory import Memory
from flamestream_operator.shell.tools import Tools

MOST_ROUNDS: Final = 12
"""Looks in one reconciliation: a safeguard, a launch needs five."""
READ_AGAIN: Final = 10.0
"""Seconds."""
OPERATE_AGAIN: Final = 5.0
"""Seconds until an operation that failed is tried again."""
_FINAL: Final = (do.DeletePod, do.DeleteSnapshot, do.DeleteJob, do.End, do.Suspend, do.Begin)
"""What cannot be taken back."""

log = logging.getLogger(__name__)


class Stop(Exception):
    """Look again: what was seen is old, or an effect was refused."""


class JobReconciler:
    """`reconcile(key)` for every change of what is seen of a job."""

    def __init__(self, site: Site, tools: Tools) -> None:
        self._api, self._cluster, self._hosting, self._site = tools.api, tools.cluster, tools.hosting, site
        self._check, self._again, self._clock = tools.check, tools.again, tools.clock
        self.savepoint_of: Callable[[Object | None, str], Any] = _no_savepoints
        """Set by who knows snapshots."""
        self._memories: dict[Key, Memory] = {}
        self._events = EventSender(self._api, self._clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._do: dict[type[Any], Callable[[Key, Memory, Object, Any], Awaitable[bool]]] = {
            do.WriteStatus: self._write_status,
            do.SetFinalizer: self._set_finalizer,
            do.Tell: self._tell,
            do.ReadSecrets: self._read_secrets,
            do.ReadApplication: self._read_application,
            do.LookFor: self._look_for,
            do.Ensure: self._ensure,
            do.EnsureCopy: self._ensure_copy,
            do.Try: self._try,
            do.Create: self._create,
            do.DeletePod: self._delete_pod,
            do.MarkReady: self._mark_ready,
            do.DeleteSnapshot: self._delete_snapshot,
            do.DeleteJob: self._delete_job,
            do.Coordinate: self._coordinate,
            do.Suspend: self._suspend,
            do.End: self._end,
            do.Abandon: self._abandon,
            do.Retire: self._retire,
            do.Gone: self._gone,
            do.Begin: self._begin,
        }

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        pause: float | None = None
        for _ in range(MOST_ROUNDS):
            job = self._cluster.jobs.get(key)
            if job is None:
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
                memory.app_digest = ""
                self._again(key)

    def memory_of(self, key: Key) -> Memory | None:
        """What is known of a job beside its status."""
        return self._memories.get(key)

    async def reading(self, namespace: str, settings: JobSettings, secret: str) -> JobToCoordinate:
        """How a job's store is reached, whoever runs it. Raises LookupError or ApiProblem."""
        access, key = await self._keys(namespace, secret)
        return self.settings(settings, Memory("", access_key=access, secret_key=key))

    # --- looking --------------------------------------------------------------------------------------------------------------------

    def _memory(self, key: Key, job: Object) -> Memory:
        uid = str(job["metadata"]["uid"])
        known = self._memories.get(key)
        if known is None or known.uid != uid:
            known = self._memories[key] = Memory(uid)
        return known

    def _look(self, key: Key, job: Object, memory: Memory) -> Seen:
        run = status_of(job).run.number
        app = needs_config_map(job.get("spec") or {})
        if app != memory.app_name:
            memory.app_name, memory.app_digest, memory.app_problem, memory.app = app, "", "", None
        restore = (job.get("spec") or {}).get("restoreFrom") or {}
        return Seen(
            now=self._clock(),
            job=job,
            site=self._site,
            pods=tuple(self._cluster.pods_of(key)),
            absent=frozenset(memory.absent),
            dead_nodes=self._cluster.dead_nodes(),
            coordinated=self._coordinated(key, memory) if memory.hosted_run == run else None,
            token=memory.token if memory.token_run == run else "",
            secrets_problem=memory.secrets_problem,
            app_digest=memory.app_digest,
            app_problem=memory.app_problem,
            snapshot=self._cluster.snapshots.get((key[0], str(restore.get("snapshot", "")))),
            snapshots=tuple(thing for thing in self._cluster.snapshots if _is_of(thing, key)),
            refusals=dict(memory.refusals),
            operations=dict(memory.operations),
            retired=frozenset(memory.retired),
            last_write=memory.last_write,
        )

    def _coordinated(self, key: Key, memory: Memory) -> Coordinated | None:
        identity = ".".join(key)
        status = self._hosting.status(identity)
        if status is None:
            return None
        if status.epoch != memory.epoch:
            if memory.epoch >= 0:
                metrics.epochs.labels(identity).inc(max(0, status.epoch - memory.epoch))
            memory.epoch, memory.epoch_since = status.epoch, self._clock()
        metrics.observe(identity, status, self._clock() - memory.epoch_since)
        if status.recoveries > memory.recoveries and status.last_recovery is not None and status.last_recovery.duration_ms:
            metrics.recovered(identity, status.last_recovery, status.recoveries - memory.recoveries)
            memory.recoveries = status.recoveries
        return Coordinated(status, _members(self._hosting.members(identity), status), memory.epoch_since, memory.hosted_since)

    def _forgotten(self, key: Key) -> None:
        """The object is gone."""
        if self._memories.pop(key, None) is not None:
            self._hosting.stop(".".join(key))
            metrics.forget(".".join(key))

    # --- carrying out ---------------------------------------------------------------------------------------------------------------

    async def _carry_out(self, key: Key, memory: Memory, job: Object, decision: do.Decision) -> bool:
        """Whether there is something new to look at."""
        news, fresh = False, False
        for action in decision.actions:
            if isinstance(action, _FINAL) and not fresh:
                if await self._is_old(key, job):
                    return True
                fresh = True
            self._check()
            metrics.actions.labels(type(action).__name__).inc()
            try:
                news = await self._do[type(action)](key, memory, job, action) or news
            except Stop:
                return True
        return news

    async def _is_old(self, key: Key, job: Object) -> bool:
        """Whether the job has changed since it was seen."""
        fresh = await self._api.get("FlameStreamJob", *key)
        if fresh is None or fresh["metadata"]["uid"] != job["metadata"]["uid"]:
            self._cluster.jobs.forget(key)
            if fresh is not None:
                self._cluster.jobs.put(fresh)
            return True
        self._cluster.jobs.put(fresh)
        return bool(fresh["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"])

    async def _write_status(self, key: Key, memory: Memory, job: Object, action: do.WriteStatus) -> bool:
        thing = {**{name: job[name] for name in ("apiVersion", "kind", "metadata", "spec")}, "status": encoded(action.status)}
        try:
            new = await self._api.replace_status(thing)
        except ApiProblem as problem:
            return await self._conflicted(key, job, problem)
        self._cluster.jobs.put(new)
        memory.last_write = self._clock()
        _prune(memory, action)
        return True

    async def _conflicted(self, key: Key, job: Object, problem: ApiProblem) -> bool:
        if problem.absent or problem.conflict:
            metrics.api_conflicts.inc()
            await self._is_old(key, job)
            raise Stop from problem
        raise problem

    async def _set_finalizer(self, key: Key, memory: Memory, job: Object, action: do.SetFinalizer) -> bool:
        known = list(job["metadata"].get("finalizers") or ())
        wanted = [each for each in known if each != FINALIZER] + ([FINALIZER] if action.there else [])
        patch = {"metadata": {"finalizers": wanted, "resourceVersion": job["metadata"]["resourceVersion"]}}
        try:
            new = await self._api.patch("FlameStreamJob", *key, patch)
        except ApiProblem as problem:
            return await self._conflicted(key, job, problem)
        if action.there:
            self._cluster.jobs.put(new)
        else:
            self._cluster.jobs.drop(new if new.get("metadata") else job)
        return True

    async def _tell(self, key: Key, memory: Memory, job: Object, action: do.Tell) -> bool:
        await self._events.send(job, action)
        return False

    async def _read_secrets(self, key: Key, memory: Memory, job: Object, action: do.ReadSecrets) -> bool:
        if self._clock() < memory.read_again.get("secrets", 0):
            return False
        try:
            token = await self._token(key, job, action)
            access, secret = await self._keys(key[0], action.credentials)
        except (ApiProblem, LookupError) as problem:
            text = str(problem.args[0]) if isinstance(problem, LookupError) else str(problem)
            news = text != memory.secrets_problem
            memory.secrets_problem = text
            self._later(key, memory, "secrets")
            return news
        memory.token, memory.access_key, memory.secret_key, memory.secrets_problem = token, access, secret, ""
        memory.token_run = status_of(job).run.number
        return True

    async def _token(self, key: Key, job: Object, action: do.ReadSecrets) -> str:
        name = action.token["metadata"]["name"]
        found = await self._api.get("Secret", key[0], name)
        if found is None and action.create:
            made = {**action.token, "stringData": {"token": secrets.token_hex(32)}}
            try:
                found = await self._api.create(made)
            except ApiProblem as problem:
                if not problem.exists:
                    raise
                found = await self._api.get("Secret", key[0], name)
        if found is not None and not is_owned(found, job):
            raise ApiProblem(503, "EarlierLife", f"Secret {name} is not of this life of the job: it is about to be removed, or delete it")
        if found is None:
            raise LookupError(f"Secret {name} with the run's token is gone: suspend and resume the job, the next run makes another")
        return base64.b64decode(found["data"]["token"]).decode()

    async def _keys(self, namespace: str, name: str) -> tuple[str, str]:
        if not name:
            return "", ""
        found = await self._api.get("Secret", namespace, name)
        if found is None:
            missing = f"there is no Secret {name!r} in namespace {namespace!r}"
            raise LookupError(f"spec.checkpoint.secret: {missing}: create it with the store's keys")
        data = found.get("data") or {}
        lacks = [each for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if each not in data]
        if lacks:
            raise LookupError(f"spec.checkpoint.secret: Secret {name!r} has no {' and no '.join(lacks)}: add what is missing")
        return base64.b64decode(data["AWS_ACCESS_KEY_ID"]).decode(), base64.b64decode(data["AWS_SECRET_ACCESS_KEY"]).decode()

    async def _read_application(self, key: Key, memory: Memory, job: Object, action: do.ReadApplication) -> bool:
        if self._clock() < memory.read_again.get("application", 0):
            return False
        found = await self._api.get("ConfigMap", key[0], action.name)
        if found is None:
            missing = f"there is no ConfigMap {action.name!r} in namespace {key[0]!r}"
            memory.app_problem = f"spec.application.configMap: {missing}: create it from the application's files"
            self._later(key, memory, "application")
        else:
            memory.app, memory.app_digest, memory.app_problem = found, digest_of_application(found), ""
        return True

    async def _look_for(self, key: Key, memory: Memory, job: Object, action: do.LookFor) -> bool:
        pod = await self._api.get("Pod", key[0], action.pod)
        if pod is None:
            memory.absent.add(action.pod)
            self._cluster.forget_pod(key, action.pod)
        else:
            self._cluster.put_pod(pod)
        return True

    # --- objects --------------------------------------------------------------------------------------------------------------------

    async def _ensure(self, key: Key, memory: Memory, job: Object, action: do.Ensure) -> bool:
        thing = action.thing
        try:
            await self._api.create(thing)
        except ApiProblem as problem:
            if not problem.exists:
                self._refused(memory, action.key, thing, problem)
            await self._made_alike(key, memory, job, action)
        return False

    async def _made_alike(self, key: Key, memory: Memory, job: Object, action: do.Ensure) -> None:
        thing, kind = action.thing, action.thing["kind"]
        there = await self._api.get(kind, key[0], thing["metadata"]["name"])
        if there is None:
            raise Stop
        self._ours(memory, action.key, there, job)
        parts: Object = {name: thing[name] for name in ("rules", "subjects") if name in thing}
        if kind == "PodDisruptionBudget":
            parts["spec"] = thing["spec"]
        if any(there.get(name) != value for name, value in parts.items()):
            try:
                await self._api.patch(kind, key[0], thing["metadata"]["name"], parts)
            except ApiProblem as problem:
                self._refused(memory, action.key, thing, problem)

    async def _ensure_copy(self, key: Key, memory: Memory, job: Object, action: do.EnsureCopy) -> bool:
        if memory.app is None or names.application_copy(key[1], memory.app_digest) != action.name:
            return False  # the copy that a rollback needs was made when its run began
        await self._create(key, memory, job, do.Create(build_application_copy(job, memory.app), action.key))
        return False

    async def _try(self, key: Key, memory: Memory, job: Object, action: do.Try) -> bool:
        try:
            await self._api.create(action.thing, dry_run=True)
        except ApiProblem as problem:
            if not problem.exists:
                self._refused(memory, action.key, action.thing, problem, "a worker's pod would be refused")
        return False

    async def _create(self, key: Key, memory: Memory, job: Object, action: do.Create) -> bool:
        thing = action.thing
        try:
            made = await self._api.create(thing)
        except ApiProblem as problem:
            if not problem.exists:
                self._refused(memory, action.key, thing, problem)
            there = await self._api.get(thing["kind"], key[0], thing["metadata"]["name"])
            if there is None:
                raise Stop from problem
            if thing["metadata"].get("ownerReferences"):
                self._ours(memory, action.key, there, job)
            if action.once:
                memory.refusals[action.key] = Refusal("Interrupted", f"{action.key} was begun before", harmless=True)
                raise Stop from problem
            made = there
        if thing["kind"] == "Pod":
            memory.absent.discard(thing["metadata"]["name"])
            self._cluster.put_pod(made)
            return True
        return False

    def _refused(self, memory: Memory, key: str, thing: Object, problem: ApiProblem, what: str = "") -> None:
        """Told to the core under the effect's key; what passes by itself is only tried again."""
        if problem.passing:
            raise problem
        name = f"{thing['kind']} {thing['metadata'].get('name', '')}"
        reason = _reason(problem)
        memory.refusals[key] = Refusal(reason, f"{what or name + ' was refused'}: {problem.message}"[:1000])
        raise Stop from problem

    def _ours(self, memory: Memory, key: str, there: Object, job: Object) -> None:
        """What has the name that we need is ours, or about to go with an earlier life of the job, or a refusal."""
        if is_owned(there, job):
            return
        if is_of_earlier_life(there, job):
            raise ApiProblem(
                503, "EarlierLife", f"{there['kind']} {there['metadata']['name']} of the job's earlier life is about to be removed"
            )
        name = f"{there['kind']} {there['metadata']['name']}"
        memory.refusals[key] = Refusal("NameTaken", f"{name} is there and is somebody else's: delete it, or rename the job")
        raise Stop

    async def _delete_pod(self, key: Key, memory: Memory, job: Object, action: do.DeletePod) -> bool:
        if action.fail:
            patch = {
                "status": {"phase": "Failed", "reason": "NodeLost", "message": "its node is not ready; failed by the FlameStream operator"}
            }
            try:
                await self._api.patch("Pod", key[0], action.name, patch, status=True)
            except ApiProblem as problem:
                if not problem.absent:
                    log.warning("a dead pod was not marked", extra={"pod": action.name, "problem": str(problem)})
        await self._api.delete("Pod", *(key[0], action.name), grace=action.grace)
        if action.grace == 0:
            self._cluster.forget_pod(key, action.name)
        return False

    async def _mark_ready(self, key: Key, memory: Memory, job: Object, action: do.MarkReady) -> bool:
        """An old copy of the pod is refused; its newer one is on its way here."""
        meta, others = action.pod["metadata"], [each for each in action.pod["status"].get("conditions") or () if each["type"] != CONNECTED]
        conditions = [*others, {"type": CONNECTED, "status": "True", "lastTransitionTime": written(self._clock()), "reason": "Connected"}]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"conditions": conditions}}
        try:
            self._cluster.put_pod(await self._api.patch("Pod", key[0], meta["name"], patch, status=True))
        except ApiProblem as problem:
            if not problem.absent and not problem.conflict:
                log.warning("a worker's pod was not marked ready", extra={"pod": meta["name"], "problem": str(problem)})
        return False

    async def _delete_snapshot(self, key: Key, memory: Memory, job: Object, action: do.DeleteSnapshot) -> bool:
        await self._api.delete("FlameStreamSnapshot", key[0], action.name)
        return False

    async def _delete_job(self, key: Key, memory: Memory, job: Object, action: do.DeleteJob) -> bool:
        await self._api.delete("FlameStreamJob", *key)
        return False

    # --- the coordinator ------------------------------------------------------------------------------------------------------------

    def settings(self, settings: JobSettings, memory: Memory) -> JobToCoordinate:
        """With secrets."""
        return JobToCoordinate(
            job=settings.job, token=memory.token, workers=settings.workers, fronts=settings.fronts, slots=settings.slots,
            interval=settings.interval, store=settings.store, access_key=memory.access_key, secret_key=memory.secret_key,
        )  # fmt: skip

    async def _coordinate(self, key: Key, memory: Memory, job: Object, action: do.Coordinate) -> bool:
        settings = self.settings(action.settings, memory)
        if settings == memory.hosted and self._hosting.status(settings.job) is not None:
            return False  # one that has ended must stay readable: a second start would begin anew
        self._hosting.start(settings)
        memory.hosted, memory.hosted_run, memory.hosted_since = settings, action.settings.run, self._clock()
        return True

    async def _suspend(self, key: Key, memory: Memory, job: Object, action: do.Suspend) -> bool:
        intent = status_of(job).intent.key
        if memory.suspended != intent:
            memory.suspended = intent
            self._hosting.suspend(".".join(key))
        return False

    async def _end(self, key: Key, memory: Memory, job: Object, action: do.End) -> bool:
        self._hosting.end(".".join(key))
        return False

    async def _abandon(self, key: Key, memory: Memory, job: Object, action: do.Abandon) -> bool:
        self._hosting.stop(".".join(key))
        memory.hosted, memory.hosted_run = None, -1
        memory.retired.clear()
        return False

    async def _retire(self, key: Key, memory: Memory, job: Object, action: do.Retire) -> bool:
        memory.retired.add(action.ip)
        self._hosting.retire(".".join(key), action.ip)
        return False

    async def _gone(self, key: Key, memory: Memory, job: Object, action: do.Gone) -> bool:
        self._hosting.gone(".".join(key), action.ip)
        return False

    # --- long operations ------------------------------------------------------------------------------------------------------------

    async def _begin(self, key: Key, memory: Memory, job: Object, action: do.Begin) -> bool:
        known = memory.operations.get(action.key)
        if known is not None and (not known.done or not known.problem or known.final):
            return False
        memory.operations[action.key] = Operation(problem=known.problem if known else "")
        settings = self.settings(action.arguments["settings"], memory)
        task = asyncio.create_task(self._operate(key, memory, action, settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return False

    async def _operate(self, key: Key, memory: Memory, action: do.Begin, settings: JobToCoordinate) -> None:
        try:
            if action.what == "forget":
                await asyncio.wrap_future(self._hosting.forget(settings))
            else:
                await self._restore(key, action, settings)
            memory.operations[action.key] = Operation(done=True)
        except (FlameStreamError, ApiProblem) as error:
            log.warning("operation failed", extra={"job": ".".join(key), "operation": action.key, "error": str(error)})
            text, final = str(error)[:1000], getattr(error, "category", "") in ("user", "corrupt")
            if not final:
                memory.operations[action.key] = Operation(False, text)
                self._again(key)
                await asyncio.sleep(OPERATE_AGAIN)
            memory.operations[action.key] = Operation(True, text, final)
        self._again(key)

    async def _restore(self, key: Key, action: do.Begin, settings: JobToCoordinate) -> None:
        """From a completed snapshot; a job that has state already keeps it."""
        if await asyncio.wrap_future(self._hosting.record(settings.job)) is not None:
            return
        name = action.arguments["snapshot"]
        snapshot = await self._api.get("FlameStreamSnapshot", key[0], name)
        await asyncio.wrap_future(self._hosting.restore(settings, self.savepoint_of(snapshot, name)))

    def _later(self, key: Key, memory: Memory, what: str) -> None:
        """What was not there is looked for again, not before a while."""
        memory.read_again[what] = self._clock() + READ_AGAIN
        asyncio.get_running_loop().call_later(READ_AGAIN + 0.1, self._again, key)


def _no_savepoints(_: Object | None, name: str) -> Any:
    raise LookupError(f"nobody can read snapshot {name!r}")


def _is_of(snapshot: Object, job: Key) -> bool:
    return (snapshot["metadata"]["namespace"], snapshot["spec"].get("job")) == job


def _prune(memory: Memory, action: do.WriteStatus) -> None:
    """What is remembered of launches that are over."""
    launches = {f"launch/{driver.launch}" for driver in action.status.drivers}
    for key in [key for key in memory.refusals if key.startswith("launch/") and key not in launches]:
        del memory.refusals[key]
    if len(memory.absent) > 64:
        memory.absent.clear()
    if len(memory.retired) > 256:
        memory.retired.clear()


def _members(found: Sequence[Connected], status: JobStatus) -> tuple[Member, ...]:
    layout = {worker.worker for worker in status.workers}
    return tuple(Member(each.worker, each.ip, each.worker in layout) for each in found)


def _reason(problem: ApiProblem) -> str:
    text = problem.message
    if "exceeded quota" in text:
        return "QuotaExceeded"
    if "violates PodSecurity" in text:
        return "PodSecurity"
    if "admission webhook" in text or "ValidatingAdmissionPolicy" in text:
        return "AdmissionDenied"
    if problem.status == 403:
        return "Forbidden"
    return "Invalid" if problem.status in (400, 422) else problem.reason or "Refused"
