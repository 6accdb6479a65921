"""How drills strike: who can be struck, the blow itself, and whether who was struck has a successor.

Keeps: only what the drill names is touched; what cannot be made says why. Does not: decide when (core/drill.py).
"""

import logging
from typing import Final

from flamestream_operator.api.drill import DrillSpec, DrillStatus
from flamestream_operator.core.seen import ip_of, is_going, phase_of
from flamestream_operator.objects.cutter import CUTTER, build_cutter
from flamestream_operator.objects.meta import APPLICATION, ROLE, Object
from flamestream_operator.shell.api import ApiProblem, LightkubeApi
from flamestream_operator.shell.cache import Key
from flamestream_operator.shell.tools import Tools

_OTHERS: Final = ("zookeeper", "store", "pod")
_RIGHTS: Final = (
    "a cut runs a container with NET_ADMIN in the pod: the namespace's Pod Security must be `privileged` while it is made, and the chart's "
    "operator.drills gives the operator the right"
)

log = logging.getLogger(__name__)


class Strikes:
    """Of one operator."""

    def __init__(self, tools: Tools, api: LightkubeApi, me: Key) -> None:
        self._api, self._me = api, me
        self._cluster, self._hosting, self._check = tools.cluster, tools.hosting, tools.check

    async def targets(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> tuple[tuple[str, ...], bool, str]:
        """Who can be struck, whether who was struck has a successor, and why nobody may look."""
        try:
            victims = await self._victims(namespace, spec) if status.phase == "Running" and not status.struck_at else ()
            return victims, await self._is_replaced(namespace, spec, status) if status.struck_at else True, ""
        except ApiProblem as problem:
            if problem.status != 403:
                raise
            return (), True, f"the operator may not see the target's pods: {problem.message}: give it the rights (operator.drills)"

    async def _victims(self, namespace: str, spec: DrillSpec) -> tuple[str, ...]:
        target = spec.fault.target
        if target == "operator":
            return (self._me[1],)
        if target in _OTHERS:
            pods = await self._api.list_all("Pod", spec.fault.target_namespace or namespace, dict(spec.fault.target_selector))
            return tuple(pod["metadata"]["name"] for pod in pods if phase_of(pod) == "Running" and not is_going(pod))
        if target == "node":
            return tuple({str(pod["spec"]["nodeName"]) for pod in self._workers(namespace, spec)})
        if target == "driver":
            # One of two applications may have standbys only: its driver's death would cost nothing, and be waited for in vain.
            struck = {pod["metadata"]["labels"].get(APPLICATION) for pod in self._workers(namespace, spec)}
            drivers = [pod for pod in self._pods(namespace, spec) if pod["metadata"]["labels"].get(ROLE) == "driver"]
            return tuple(pod["metadata"]["name"] for pod in drivers if pod["metadata"]["labels"].get(APPLICATION) in struck)
        return tuple(pod["metadata"]["name"] for pod in self._workers(namespace, spec))

    def _workers(self, namespace: str, spec: DrillSpec) -> list[Object]:
        """Pods of workers that hold slots."""
        members = {member.ip for member in self._hosting.members(f"{namespace}.{spec.job}") if not member.standby}
        pods = self._pods(namespace, spec)
        return [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == "worker" and ip_of(pod) in members]

    def _pods(self, namespace: str, spec: DrillSpec) -> list[Object]:
        return [pod for pod in self._cluster.pods_of((namespace, spec.job)) if not is_going(pod)]

    async def _is_replaced(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> bool:
        """A pod that was struck must be gone or ready again: else the drill would be over before it began."""
        if spec.fault.target == "operator":
            return status.victim != self._me[1]
        if spec.fault.target not in _OTHERS:
            return True
        pods = await self._api.list_all("Pod", spec.fault.target_namespace or namespace, dict(spec.fault.target_selector))
        return any(_is_ready(pod) and not is_going(pod) for pod in pods)

    async def strike(self, namespace: str, spec: DrillSpec, victim: str) -> str:
        """ "", or why it failed: it is tried by nobody again, since it may have struck."""
        fault = spec.fault
        self._check()
        log.warning("drill strikes", extra={"target": fault.target, "victim": victim, "action": fault.action})
        try:
            if fault.target in ("worker", "daemon"):
                pause = [str(float(fault.pause_for))] if fault.action == "pause" else []
                how = "pause" if fault.action == "pause" else "kill"
                said = await self._api.execute(
                    namespace, victim, "executor", ["python3", "-m", "flamestream_operator.strike", fault.target, how, *pause]
                )
                log.warning("struck", extra={"victim": victim, "said": said.strip()})
                return "" if said.strip().isdigit() else f"the strike in pod {victim} failed: {said.strip()[:200]}"
            if fault.target in ("network", "node"):
                await self._at_once(namespace, spec, victim)
                return ""
            where = self._me[0] if fault.target == "operator" else (fault.target_namespace or namespace)
            await self._api.delete("Pod", where, victim, grace=0 if fault.action == "kill" else None)
        except ApiProblem as problem:
            log.warning("the strike failed", extra={"victim": victim, "problem": str(problem)})
            hint = f"; {_RIGHTS}" if fault.action == "cut" and problem.status == 403 else ""
            return f"the strike at {victim} failed: {problem}{hint}"
        return ""

    async def _at_once(self, namespace: str, spec: DrillSpec, victim: str) -> None:
        """Several pods of the job."""
        for pod in self._struck(namespace, spec, victim):
            name = pod["metadata"]["name"]
            if spec.fault.action == "cut":
                await self._api.attach(namespace, name, build_cutter(pod, float(spec.fault.pause_for)))
            else:
                await self._api.delete("Pod", namespace, name, grace=0)

    def _struck(self, namespace: str, spec: DrillSpec, victim: str) -> list[Object]:
        pods = self._pods(namespace, spec)
        if spec.fault.target == "node":
            return [pod for pod in pods if pod["spec"].get("nodeName") == victim and phase_of(pod) == "Running"]
        return [pod for pod in pods if pod["metadata"]["name"] == victim]

    async def problem(self, namespace: str, spec: DrillSpec, status: DrillStatus) -> str:
        """Why a cut that was announced was not made: its container says so after the strike."""
        if spec.fault.action != "cut":
            return ""
        for pod in self._struck(namespace, spec, status.victim):
            fresh = await self._api.get("Pod", namespace, pod["metadata"]["name"])
            for container in (fresh or {}).get("status", {}).get("ephemeralContainerStatuses") or ():
                if container["name"].startswith(CUTTER) and (said := _failed(container)):
                    return f"the network of {pod['metadata']['name']} was not cut: {said}"[:1000]
        return ""


def _is_ready(pod: Object) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in pod.get("status", {}).get("conditions") or ())


def _failed(container: Object) -> str:
    state = container.get("state") or {}
    ended, waits = state.get("terminated") or {}, state.get("waiting") or {}
    if ended and ended.get("exitCode") not in (0, 137, 143):
        return str(ended.get("message") or ended.get("reason") or f"exit code {ended['exitCode']}")
    if waits.get("reason") in ("CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "ImagePullBackOff"):
        return f"{waits['reason']}: {waits.get('message', '')}"
    return ""
