"""The effects of a job on the API server's objects: what it needs is made or mended, tried, created, deleted.

Keeps: an object that is not ours is not touched; a refusal is reported to the core under the effect's key.
Does not: decide what there should be (jobs/effects.py).
"""

import logging
from typing import Final

from flamestream.job.moments import written
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.handlers import Handler, Stop, Tools
from flamestream_operator.jobs.inputs import drawn
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.jobs.observed import Refusal
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import ANSWERS, CONNECTED, Object, is_of_earlier_life, is_owned
from flamestream_operator.objects.small import build_application_copy

_REACHED: Final = ("NetworkPolicy", "Service")
"""Kinds of what clients reach a job by."""

log = logging.getLogger(__name__)


class JobObjects:
    """Handlers by action."""

    def __init__(self, tools: Tools) -> None:
        self._api, self._cluster, self._clock = tools.api, tools.cluster, tools.clock
        self.handlers: Final[dict[type[object], Handler]] = {
            do.LookFor: self._look_for, do.Ensure: self._ensure, do.EnsureCopy: self._ensure_copy,
            do.Try: self._try, do.Create: self._create, do.DeletePod: self._delete_pod,
            do.MarkReady: self._mark_ready, do.DeleteSnapshot: self._delete_snapshot,
            do.DeleteJob: self._delete_job, do.Draw: self._draw, do.Reach: self._reach,
            do.MarkAnswers: self._mark_answers,
        }  # fmt: skip

    async def _look_for(self, key: Key, memory: Memory, job: Object, action: do.LookFor) -> bool:
        pod = await self._api.get("Pod", key[0], action.pod)
        if pod is None:
            memory.absent.add(action.pod)
            self._cluster.forget_pod(key, action.pod)
        else:
            self._cluster.put_pod(pod)
        return True

    async def _ensure(self, key: Key, memory: Memory, job: Object, action: do.Ensure) -> None:
        try:
            await self._api.create(action.thing)
        except ApiProblem as problem:
            if not problem.exists:
                self._refused(memory, action.key, action.thing, problem)
            if not await self._made_alike(key, memory, job, action):
                raise Stop from problem
        if action.thing["kind"] in _REACHED:
            memory.ensured[_named(action.thing)] = action.thing

    async def _made_alike(self, key: Key, memory: Memory, job: Object, action: do.Ensure) -> bool:
        """Mend what is there; whether it is."""
        thing, kind = action.thing, action.thing["kind"]
        there = await self._api.get(kind, key[0], thing["metadata"]["name"])
        if there is None:
            return False
        self._ours(memory, action.key, there, job)
        # What the API server lets change: a RoleBinding's roleRef, for one, is fixed.
        parts: Object = {name: thing[name] for name in ("rules", "subjects", "data") if name in thing}
        if kind in ("PodDisruptionBudget", "NetworkPolicy", "Service"):
            # the API server fills in what we leave open
            parts["spec"] = {**(there.get("spec") or {}), **thing["spec"]}
        if any(there.get(name) != value for name, value in parts.items()):
            try:
                await self._api.patch(kind, key[0], thing["metadata"]["name"], parts)
            except ApiProblem as problem:
                self._refused(memory, action.key, thing, problem)
        return True

    async def _ensure_copy(self, key: Key, memory: Memory, job: Object, action: do.EnsureCopy) -> None:
        if memory.app is None or names.application_copy(key[1], memory.app_digest) != action.name:
            return  # the copy that a rollback needs was made when its run began
        await self._create(key, memory, job, do.Create(build_application_copy(job, memory.app), action.key))

    async def _try(self, key: Key, memory: Memory, job: Object, action: do.Try) -> None:
        try:
            await self._api.create(action.thing, dry_run=True)
        except ApiProblem as problem:
            if not problem.exists:
                self._refused(memory, action.key, action.thing, problem, "a worker's pod would be refused")

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
            # Savepoints by the clock have no owner: they outlive the job.
            if thing["metadata"].get("ownerReferences"):
                self._ours(memory, action.key, there, job)
            if action.once:
                # (!) never twice
                memory.refusals[action.key] = Refusal(
                    "Interrupted", f"{action.key} was begun before", harmless=True
                )
                raise Stop from problem
            made = there
        if thing["kind"] != "Pod":
            return False
        memory.absent.discard(thing["metadata"]["name"])
        self._cluster.put_pod(made)
        return True

    async def _draw(self, key: Key, memory: Memory, job: Object, action: do.Draw) -> bool:
        return await self._create(key, memory, job, do.Create(drawn(action.thing), action.key))

    async def _reach(self, key: Key, memory: Memory, job: Object, action: do.Reach) -> None:
        """A refusal is told, and tried again at the next look: the stream does not wait for it."""
        if action == memory.reached:
            return
        memory.refusals.pop(action.key, None)
        try:
            for thing in action.things:
                if memory.ensured.get(_named(thing)) == thing:
                    continue  # a launch has just made it
                wanted = do.Ensure(thing, action.key)
                # Looked for first: a new leader finds that of nearly all jobs.
                if await self._made_alike(key, memory, job, wanted):
                    memory.ensured[_named(thing)] = thing
                else:
                    await self._ensure(key, memory, job, wanted)
        except Stop:
            return
        there = await self._api.get("Service", key[0], action.left_over) if action.left_over else None
        if there is not None and is_owned(there, job):
            await self._api.delete("Service", key[0], action.left_over)
            memory.ensured.pop(_named(there), None)
        memory.reached = action

    def _refused(self, memory: Memory, key: str, thing: Object, problem: ApiProblem, what: str = "") -> None:
        """Told to the core under the effect's key; what passes by itself is only tried again."""
        if problem.passing:  # an API server that is away is no verdict on the object
            raise problem
        what = what or f"{thing['kind']} {thing['metadata'].get('name', '')} was refused"
        memory.refusals[key] = Refusal(_reason(problem), f"{what}: {problem.message}"[:1000])
        raise Stop from problem

    def _ours(self, memory: Memory, key: str, there: Object, job: Object) -> None:
        """Refuse an object of the name that we need that is not ours; one of an earlier life of the job is
        about to go (ApiProblem)."""
        if is_owned(there, job):
            return
        name = f"{there['kind']} {there['metadata']['name']}"
        if is_of_earlier_life(there, job):
            raise ApiProblem(503, "EarlierLife", f"{name} of the job's earlier life is about to be removed")
        memory.refusals[key] = Refusal(
            "NameTaken", f"{name} is there and is somebody else's: delete it, or rename the job"
        )
        raise Stop

    async def _delete_pod(self, key: Key, memory: Memory, job: Object, action: do.DeletePod) -> None:
        if action.fail:
            why = {
                "phase": "Failed",
                "reason": "NodeLost",
                "message": "its node is not ready; failed by the FlameStream operator",
            }
            try:
                await self._api.patch("Pod", key[0], action.name, {"status": why}, status=True)
            except ApiProblem as problem:
                if not problem.absent:
                    log.warning(
                        "a dead pod was not marked", extra={"pod": action.name, "problem": str(problem)}
                    )
        await self._api.delete("Pod", key[0], action.name, grace=action.grace)
        if action.grace == 0:
            self._cluster.forget_pod(key, action.name)

    async def _mark_ready(self, key: Key, memory: Memory, job: Object, action: do.MarkReady) -> None:
        """An old copy of the pod is refused; its newer one is on its way here."""
        meta, others = (
            action.pod["metadata"],
            [each for each in action.pod["status"].get("conditions") or () if each["type"] != CONNECTED],
        )
        conditions = [
            *others,
            {
                "type": CONNECTED,
                "status": "True",
                "lastTransitionTime": written(self._clock()),
                "reason": "Connected",
            },
        ]
        # A merge patch replaces the whole list of conditions: by the version it undoes nothing that kubelet
        # has written meanwhile (!).
        patch = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": {"conditions": conditions},
        }
        await self._mark(key, meta["name"], patch, status=True)

    async def _mark_answers(self, key: Key, memory: Memory, job: Object, action: do.MarkAnswers) -> None:
        labels = {ANSWERS: "true" if action.answers else None}
        await self._mark(key, action.pod, {"metadata": {"labels": labels}}, status=False)

    async def _mark(self, key: Key, pod: str, patch: Object, *, status: bool) -> None:
        try:
            self._cluster.put_pod(await self._api.patch("Pod", key[0], pod, patch, status=status))
        except ApiProblem as problem:
            if not problem.absent and not problem.conflict:
                log.warning("a worker's pod was not marked", extra={"pod": pod, "problem": str(problem)})

    async def _delete_snapshot(
        self, key: Key, memory: Memory, job: Object, action: do.DeleteSnapshot
    ) -> None:
        await self._api.delete("FlameStreamSnapshot", key[0], action.name)

    async def _delete_job(self, key: Key, memory: Memory, job: Object, action: do.DeleteJob) -> None:
        await self._api.delete("FlameStreamJob", *key)


def _named(thing: Object) -> str:
    return f"{thing['kind']}/{thing['metadata']['name']}"


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
