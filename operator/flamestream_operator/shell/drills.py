"""The reconciler of FlameStreamDrills: carries out what core/drill.py says.

Keeps: the fault is written to the status, as a compare-and-set, before it is made; a drill is finished by whoever leads then.
Does not: exist unless the chart gave the rights for it.
"""

import json
import logging
from typing import Any

import msgspec
from msgspec.structs import replace

from flamestream.cli.manifest_parts import Seconds
from flamestream_operator.api.drill import DrillSpec, DrillStatus
from flamestream_operator.core.actions import Tell
from flamestream_operator.core.clock import written
from flamestream_operator.core.conditions import condition
from flamestream_operator.core.decide import status_of
from flamestream_operator.core.drill import DrillSeen, in_error, step
from flamestream_operator.core.launching import launch_of
from flamestream_operator.core.seen import Seen, Site, phase_of
from flamestream_operator.core.wanted import wanted
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object
from flamestream_operator.objects.pods import build_audit_pod
from flamestream_operator.shell.api import ApiProblem, LightkubeApi
from flamestream_operator.shell.cache import Key
from flamestream_operator.shell.events import EventSender
from flamestream_operator.shell.jobs import JobReconciler
from flamestream_operator.shell.strikes import Strikes
from flamestream_operator.shell.tools import Tools

log = logging.getLogger(__name__)


class DrillReconciler:
    """`reconcile(key)` for every change of a FlameStreamDrill, and while one runs."""

    def __init__(self, jobs: JobReconciler, site: Site, tools: Tools, api: LightkubeApi, me: Key) -> None:
        self._jobs, self._site, self._api = jobs, site, api
        self._strikes = Strikes(tools, api, me)
        self._cluster, self._hosting, self._check, self._clock = tools.cluster, tools.hosting, tools.check, tools.clock
        self._events = EventSender(api, tools.clock)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        drill = self._cluster.drills.get(key)
        if drill is None or drill["metadata"].get("deletionTimestamp"):
            return None
        before = _status(drill)
        seen = await self._look(key, drill, before)
        next_step = step(seen)
        if next_step.status != before:
            drill = await self._write(drill, next_step.status)
        if next_step.effect == "strike":
            problem = await self._strikes.strike(key[0], seen.spec, next_step.status.victim)
            if problem:
                await self._write(drill, in_error(next_step.status, self._clock(), problem))
                return None
        elif next_step.effect == "audit":
            await self._begin_audit(key, drill, seen)
        return None if next_step.status.phase in ("Passed", "Failed", "Error") else next_step.look_again

    # --- looking --------------------------------------------------------------------------------------------------------------------

    async def _look(self, key: Key, drill: Object, status: DrillStatus) -> DrillSeen:
        spec = msgspec.convert(drill["spec"], DrillSpec, dec_hook=lambda _, value: Seconds.parse(value))
        job = self._cluster.jobs.get((key[0], spec.job))
        audit, problem = await self._audit_of(key) if status.phase == "Auditing" else (None, "")
        victims, replaced, out_of_reach = await self._strikes.targets(key[0], spec, status)
        return DrillSeen(
            now=self._clock(),
            spec=spec,
            status=status,
            job_phase=status_of(job).phase if job is not None else "",
            workers=int(job["spec"]["workers"]["replicas"]) if job is not None else 0,
            told=self._hosting.status(f"{key[0]}.{spec.job}"),
            victims=victims,
            replaced=replaced,
            out_of_reach=out_of_reach,
            strike_problem=await self._strikes.problem(key[0], spec, status) if status.struck_at else "",
            audit=audit,
            audit_problem=problem,
        )

    # --- audit ----------------------------------------------------------------------------------------------------------------------

    async def _begin_audit(self, key: Key, drill: Object, seen: DrillSeen) -> None:
        name = names.audit(key[1])
        if await self._api.get("Pod", key[0], name) is not None:
            return
        job = self._cluster.jobs.get((key[0], seen.spec.job))
        memory = self._jobs.memory_of((key[0], seen.spec.job))
        if job is None or memory is None:
            return
        status = status_of(job)
        look = Seen(now=seen.now, job=job, site=self._site, app_digest=memory.app_digest)
        want = wanted(look, status)
        if want.plan is None or not status.drivers:
            return
        driver = status.drivers[-1]
        launch = launch_of(look, status, want, want.plan, application=driver.application, number=driver.launch, tasks=driver.tasks)
        self._check()
        await self._api.create(build_audit_pod(launch, drill, name, complete=seen.job_phase == "Completed"))

    async def _audit_of(self, key: Key) -> tuple[dict[str, Any] | None, str]:
        """Its verdict, or why there is none."""
        pod = await self._api.get("Pod", key[0], names.audit(key[1]))
        if pod is None or phase_of(pod) not in ("Succeeded", "Failed"):
            return None, ""
        for container in pod["status"].get("containerStatuses") or ():
            text = str(((container.get("state") or {}).get("terminated") or {}).get("message") or "")
            if text.startswith("{"):
                found: dict[str, Any] = json.loads(text)
                return found, ""
        return None, f"the audit ended without a verdict: see `kubectl logs {pod['metadata']['name']}`"

    # --- writing --------------------------------------------------------------------------------------------------------------------

    async def _write(self, drill: Object, status: DrillStatus) -> Object:
        now = written(self._clock())
        before = _status(drill)
        known = {each.type: each for each in before.conditions}
        over = status.phase in ("Passed", "Failed", "Error")
        generation = int(drill["metadata"].get("generation", 0))  # `kubectl wait` does not believe a condition of an older one
        conditions = [
            condition("Completed", over, status.phase, status.message, known.get("Completed"), now, generation),
            condition("Failed", status.phase in ("Failed", "Error"), status.phase, status.message, known.get("Failed"), now, generation),
        ]
        status = replace(status, conditions=conditions, observed_generation=generation)
        plain = {name: value for name, value in msgspec.to_builtins(status).items() if value is not None}
        self._check()
        try:
            new = await self._api.replace_status({**drill, "status": plain})
        except ApiProblem as problem:
            fresh = await self._api.get("FlameStreamDrill", drill["metadata"]["namespace"], drill["metadata"]["name"])
            if fresh is not None:
                self._cluster.drills.put(fresh)
            raise problem
        self._cluster.drills.put(new)
        if status.phase != before.phase:
            kind = "Warning" if status.phase in ("Failed", "Error") else "Normal"
            await self._events.send(new, Tell(kind, status.phase, status.message or status.phase))
        return new


def _status(drill: Object) -> DrillStatus:
    try:
        return msgspec.convert(drill.get("status") or {}, DrillStatus)
    except msgspec.ValidationError:
        return DrillStatus()
