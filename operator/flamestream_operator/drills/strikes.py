"""The strikes of drills: who can be struck, the blow itself, what is seen of it, and whether who was struck
has a successor.

Keeps: only what the drill names is touched, and only the lives that were announced. What cannot be made says
why; what was made counts when it is seen: a pod's uid gone, a process gone or standing still, the cutter's
word that the kernel has cut. Does not: decide when (flamestream.job.drills.drill).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from flamestream.job.drills.status import Sight
from flamestream.model.decoding import DecodeError, from_json
from flamestream_operator.api.drill import ELSEWHERE, DrillSpec, DrillStatus
from flamestream_operator.drills.cut import CUT
from flamestream_operator.drills.plan import forbidden, in_batches, place_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.observed import ip_of, is_going, phase_of
from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.cutter import build_cutter, cutter_name
from flamestream_operator.objects.meta import APPLICATION, LAUNCH, ROLE, Object
from flamestream_operator.site import Site

_RIGHTS: Final = "; the chart's operator.drills gives the operator the right"
_CUT_RIGHTS: Final = (
    "; a cut runs a container with NET_ADMIN in the pod: the namespace's Pod Security must be `privileged` "
    "while it is made, and the chart's operator.drills gives the operator the right"
)
_CANNOT_START: Final = (
    "CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "ImagePullBackOff",
    "ErrImageNeverPull", "InvalidImageName",
)  # fmt: skip
_KILLED: Final = (137, 143)
"""Exit codes of a cutter whose pod was removed meanwhile."""

log = logging.getLogger(__name__)


class PodApi(Api, Protocol):
    """The API server as strikes need it, beyond objects."""

    async def execute(self, namespace: str, pod: str, container: str, command: list[str]) -> str: ...
    async def attach(self, namespace: str, pod: str, container: Object) -> None: ...
    async def log(self, namespace: str, pod: str, container: str | None = None) -> str: ...


@dataclass(frozen=True, slots=True)
class Targets:
    """Pods that can be struck, with their lives, or why nobody may look."""

    victims: Mapping[str, tuple[str, ...]]
    out_of_reach: str = ""


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault that was made, or not: what was seen of it at once, and why it was refused."""

    sight: Sight = ""
    refused: str = ""


class Strikes:
    """The strikes of one operator."""

    def __init__(self, tools: Tools, api: PodApi, me: Key, site: Site) -> None:
        self._api, self._me, self._site = api, me, site
        self._cluster, self._hosting, self._check = tools.cluster, tools.hosting, tools.check

    # --- who ------------------------------------------------------------------------------------------------

    async def targets(self, namespace: str, spec: DrillSpec) -> Targets:
        """Before a strike."""
        if why := self._forbidden(namespace, spec):
            return Targets({}, why)
        try:
            return Targets(await self._victims(namespace, spec))
        except ApiProblem as problem:
            if problem.status != 403:
                raise
            return Targets(
                {},
                f"the operator may not see the target's pods: {problem.message}: give it the rights "
                "(operator.drills)",
            )

    async def _victims(self, namespace: str, spec: DrillSpec) -> dict[str, tuple[str, ...]]:
        target = spec.fault.target
        if target == "operator":
            me = await self._api.get("Pod", *self._me)
            return _each([me] if me is not None else [])
        if target in ELSEWHERE:
            pods = await self._elsewhere(namespace, spec)
            return _each([pod for pod in pods if phase_of(pod) == "Running" and not is_going(pod)])
        workers = self._workers(namespace, spec)
        if target in ("node", "application"):
            names = {_group(target, pod) for pod in workers} - {""}
            return {name: _lives(self._of_group(namespace, spec, name)) for name in names}
        if target == "driver":
            # One of two applications may have standbys only: its driver's death would cost nothing, and be
            # waited for in vain.
            struck = {_group("application", pod) for pod in workers}
            drivers = [pod for pod in self._pods(namespace, spec) if _is(pod, "driver")]
            return _each([pod for pod in drivers if _group("application", pod) in struck])
        return _each(workers)

    def _workers(self, namespace: str, spec: DrillSpec) -> list[Object]:
        """Pods of workers that hold slots, or compute for a driver that does."""
        members = {
            member.ip for member in self._hosting.members(f"{namespace}.{spec.job}") if not member.standby
        }
        pods = self._pods(namespace, spec)
        launches = {_launch(pod) for pod in pods if _is(pod, "driver") and ip_of(pod) in members}
        return [
            pod for pod in pods if _is(pod, "worker") and (ip_of(pod) in members or _launch(pod) in launches)
        ]

    def _pods(self, namespace: str, spec: DrillSpec) -> list[Object]:
        return [pod for pod in self._cluster.pods_of((namespace, spec.job)) if not is_going(pod)]

    def _of_group(self, namespace: str, spec: DrillSpec, name: str) -> list[Object]:
        pods = self._pods(namespace, spec)
        return [pod for pod in pods if _group(spec.fault.target, pod) == name and phase_of(pod) == "Running"]

    async def _elsewhere(self, namespace: str, spec: DrillSpec) -> list[Object]:
        return await self._api.list_all(
            "Pod", place_of(spec, namespace, self._me[0]), dict(spec.fault.target_selector)
        )

    def _forbidden(self, namespace: str, spec: DrillSpec) -> str:
        return forbidden(spec, namespace, self._me[0], self._site.allowed)

    async def _struck(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> list[Object]:
        """The pods that were announced, as they are now."""
        place = place_of(spec, namespace, self._me[0])
        if spec.fault.target in ("node", "application"):
            names = [
                pod["metadata"]["name"]
                for pod in self._cluster.pods_of((namespace, spec.job))
                if pod["metadata"]["uid"] in status.lives
            ]
        else:
            names = [status.victim]
        # Afresh: the cache may still show a life that is over.
        found = [await self._api.get("Pod", place, name) for name in names]
        return [pod for pod in found if pod is not None and pod["metadata"]["uid"] in status.lives]

    # --- the blow -------------------------------------------------------------------------------------------

    async def strike(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> Blow:
        """Once: it is tried by nobody again, since it may have struck. An answer that was lost is no
        refusal."""
        fault, victim = spec.fault, status.victim
        if why := self._forbidden(namespace, spec):
            return Blow(refused=why)  # it was announced by an operator to whom more was allowed
        self._check()
        log.warning("drill strikes", extra={"target": fault.target, "victim": victim, "action": fault.action})
        try:
            pods = await self._struck(namespace, spec, status)
            if len(pods) < len(status.lives):  # a successor of the same name is another (!)
                return Blow(refused=f"{victim} was gone before it was struck")
            sights = [await self._one(spec, status, pod) for pod in pods]
        except ApiProblem as problem:
            log.warning("the strike failed", extra={"victim": victim, "problem": str(problem)})
            if problem.passing:  # it may have struck: the sight decides
                return Blow()
            hint = (_CUT_RIGHTS if fault.action == "cut" else _RIGHTS) if problem.status == 403 else ""
            return Blow(refused=f"the strike at {victim} failed: {problem}{hint}")
        refused = "; ".join(blow.refused for blow in sights if blow.refused)
        return Blow(refused=refused) if refused else sights[0]

    async def _one(self, spec: DrillSpec, status: DrillStatus, pod: Object) -> Blow:
        """Strike one pod."""
        fault, meta = spec.fault, pod["metadata"]
        if fault.action == "cut":
            # From the operator's image and never from the pod's (!): it may do what the pod may not.
            cutter = build_cutter(
                cutter_name(status.struck_at), self._site.image, self._site.pull_policy, fault.lasts
            )
            await self._api.attach(meta["namespace"], meta["name"], cutter)
            return Blow()
        if fault.action == "pause" or fault.target in ("worker", "daemon"):
            return await self._inside(spec, pod)
        grace = 0 if fault.action == "kill" else None
        await self._api.delete("Pod", meta["namespace"], meta["name"], grace=grace)
        return Blow()

    async def _inside(self, spec: DrillSpec, pod: Object) -> Blow:
        """Strike by a process in the pod, which says what it saw."""
        fault, meta = spec.fault, pod["metadata"]
        role = fault.target if fault.target in ("worker", "daemon") else "pod"
        words = ["pause", str(fault.lasts)] if fault.action == "pause" else ["kill"]
        container = str(pod["spec"]["containers"][0]["name"])
        command = ["python3", "-m", "flamestream_operator.drills.strike", role, *words]
        said = (await self._api.execute(meta["namespace"], meta["name"], container, command)).strip()
        log.warning("struck", extra={"victim": meta["name"], "said": said[:500]})
        return _answer(str(meta["name"]), said)

    # --- what is seen of it ---------------------------------------------------------------------------------

    async def look(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> Blow:
        """The sight of a fault that was announced and not seen yet, or of a cut that goes on."""
        if spec.fault.action == "cut":
            return await self._cut(namespace, spec, status)
        if status.seen or spec.fault.action == "pause" or spec.fault.target in ("worker", "daemon"):
            return Blow()  # the process inside has said, or nobody knows
        pods = await self._struck(namespace, spec, status)
        if not pods:
            return Blow("gone")
        return Blow("going" if spec.fault.action == "delete" and all(is_going(pod) for pod in pods) else "")

    async def _cut(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> Blow:
        pods = await self._struck(namespace, spec, status)
        name, sights = cutter_name(status.struck_at), []
        for pod in pods:
            for container in pod.get("status", {}).get("ephemeralContainerStatuses") or ():
                if container["name"] == name:
                    if why := _failed(container):
                        return Blow(
                            refused=f"the network of {pod['metadata']['name']} was not cut: {why}"[:1000]
                        )
                    sights.append(bool(status.seen) or await self._has_cut(pod, container))
        return Blow("cut" if sights and len(sights) >= len(status.lives) and all(sights) else "")

    async def _has_cut(self, pod: Object, container: Object) -> bool:
        """Whether the kernel has cut a pod's network: the container that does it says so then."""
        if _ended(container).get("exitCode") == 0:
            return True
        if not {"running", "terminated"} & set(container.get("state") or {}):
            return False
        try:
            said = await self._api.log(
                pod["metadata"]["namespace"], pod["metadata"]["name"], container["name"]
            )
        except ApiProblem as problem:
            # 400: the container is there, and has not started.
            if problem.passing or problem.status in (400, 404):
                return False
            raise
        return any(line.split()[:1] == [CUT] for line in said.splitlines())

    def _computes(self, namespace: str, spec: DrillSpec) -> bool:
        """Whether all that compute for a driver run; whether workers are there is the coordinator's word."""
        job = self._cluster.jobs.get((namespace, spec.job))
        if job is None or not in_batches(job["spec"]):
            return True
        pods = [pod for pod in self._pods(namespace, spec) if _is(pod, "worker")]
        return sum(phase_of(pod) == "Running" for pod in pods) >= int(job["spec"]["workers"]["replicas"])

    async def is_replaced(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> bool:
        """As many pods must be ready as there were, or another operator lead: else the drill would be over
        before it began."""
        if spec.fault.target == "operator":
            return status.victim != self._me[1]
        if spec.fault.target not in ELSEWHERE:
            return self._computes(namespace, spec)
        pods = await self._elsewhere(namespace, spec)
        there = [pod for pod in pods if _is_ready(pod) and not is_going(pod)]
        if spec.fault.action in ("kill", "delete"):
            there = [pod for pod in there if pod["metadata"]["uid"] not in status.lives]
        return len(there) >= status.peers


def _is(pod: Object, role: str) -> bool:
    return bool(pod["metadata"]["labels"].get(ROLE) == role)


def _launch(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get(LAUNCH))


def _group(target: str, pod: Object) -> str:
    """The node or the application that a pod belongs to."""
    return (
        str(pod["spec"].get("nodeName") or "")
        if target == "node"
        else str(pod["metadata"]["labels"].get(APPLICATION) or "")
    )


def _each(pods: list[Object]) -> dict[str, tuple[str, ...]]:
    return {str(pod["metadata"]["name"]): _lives([pod]) for pod in pods}


def _lives(pods: list[Object]) -> tuple[str, ...]:
    return tuple(sorted(str(pod["metadata"]["uid"]) for pod in pods))


def _answer(pod: str, said: str) -> Blow:
    """Read what the process in the pod printed."""
    last = said.splitlines()[-1] if said else ""
    try:
        told = from_json(last, Object)
    except DecodeError:
        return Blow(refused=f"the strike in pod {pod} failed: {said[-300:] or 'it said nothing'}")
    if told.get("seen") in ("gone", "paused"):
        return Blow(told["seen"])
    return Blow(refused=f"the strike in pod {pod} failed: {told.get('problem', last)}")


def _is_ready(pod: Object) -> bool:
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in pod.get("status", {}).get("conditions") or ()
    )


def _ended(container: Object) -> Object:
    return dict((container.get("state") or {}).get("terminated") or {})


def _failed(container: Object) -> str:
    """The reason why it has not cut, or not to the end; "": it does, or its pod went while it did."""
    ended, waits = _ended(container), (container.get("state") or {}).get("waiting") or {}
    if ended and ended.get("exitCode") not in (0, *_KILLED):
        return str(ended.get("message") or ended.get("reason") or f"exit code {ended['exitCode']}")
    return f"{waits['reason']}: {waits.get('message', '')}" if waits.get("reason") in _CANNOT_START else ""
