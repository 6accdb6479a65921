"""The reconciler of FlameStreamDrills: carries out what flamestream.job.drills.drill says.

Keeps: the fault is written to the status, as a compare-and-set, before it is made; a drill is finished by
whoever leads then. A status that cannot be read is never taken for a drill that has not begun. Does not:
exist unless the chart gave the rights for it.
"""

import dataclasses
import logging
from typing import Final

import msgspec
from msgspec.structs import replace

from flamestream.job.drills.drill import step
from flamestream.job.drills.observed import DrillObserved
from flamestream.job.drills.status import OVER, AuditResult
from flamestream.job.manifest_parts import Seconds
from flamestream.job.moments import moment, written
from flamestream.model.decoding import DecodeError, from_json
from flamestream_operator import metrics
from flamestream_operator.api.conditions import conditions_of_ending
from flamestream_operator.api.drill import DrillSpec, DrillStatus
from flamestream_operator.drills.plan import cannot_audit, in_batches, plan_of
from flamestream_operator.drills.strikes import Blow, PodApi, Strikes, Targets
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.observed import ended_containers, phase_of
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.kube.cache import Key
from flamestream_operator.kube.events import EventSender
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, part
from flamestream_operator.site import Site

AUDITED: Final = {"Clean": True, "NotClean": False}
"""Reasons of drills that had an audit, and whether it was clean."""

log = logging.getLogger(__name__)


class DrillReconciler:
    """`reconcile(key)` for every change of a FlameStreamDrill, and while one runs."""

    def __init__(self, readers: ReadingPods, site: Site, tools: Tools, api: PodApi, me: Key) -> None:
        self._readers, self._api, self._tools = readers, api, tools
        self._strikes = Strikes(tools, api, me, site)
        self._cluster, self._hosting, self._check, self._clock = (
            tools.cluster,
            tools.hosting,
            tools.check,
            tools.clock,
        )
        self._events = EventSender(api, tools.clock)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        drill = self._cluster.drills.get(key)
        if drill is None or drill["metadata"].get("deletionTimestamp"):
            return None
        before = _status(drill)
        if before.phase in OVER:
            return None
        spec = msgspec.convert(drill["spec"], DrillSpec, dec_hook=lambda _, value: Seconds.parse(value))
        if before.phase == "Pending" and (first := self._before(key, drill, spec.job)):
            why = f"waits for drill {first!r}: one drill of a job at a time"
            if before.message != why:
                await self._write(drill, replace(before, message=why))
            return 5.0
        observed = await self._look(
            key, drill, spec, before if before.phase != "Pending" else replace(before, message="")
        )
        next_step = step(observed)
        if next_step.status != before:  # announced before it is made (!)
            drill = await self._write(drill, _ours(next_step.status))
        if next_step.effect == "strike":
            blow = await self._strikes.strike(key[0], spec, _ours(next_step.status))
            if blow != Blow():
                told = dataclasses.replace(
                    observed, status=next_step.status, sight=blow.sight, refused=blow.refused
                )
                next_step = step(told)
                await self._write(drill, _ours(next_step.status))
        elif next_step.effect == "audit":
            await self._begin_audit(key, drill, observed)
        return None if next_step.status.phase in OVER else next_step.look_again

    def observe(self) -> None:
        """Bring the verdicts of audits up to date: somebody is about to read them."""
        verdicts: dict[str, bool] = {}
        for drill in sorted(self._cluster.drills, key=_made):
            reason = (drill.get("status") or {}).get("reason")
            if reason in AUDITED:
                job = f"{drill['metadata']['namespace']}.{part(drill, 'spec', 'job')}"
                verdicts[job] = AUDITED[reason]
        metrics.audited(verdicts)

    def _before(self, key: Key, drill: Object, job: str) -> str:
        """The drill of the same job whose turn it is; "": this one's."""
        mine = [
            other
            for other in self._cluster.drills
            if other["metadata"]["namespace"] == key[0] and part(other, "spec", "job") == job
        ]
        undone = [
            other
            for other in mine
            if _status(other).phase not in OVER and not other["metadata"].get("deletionTimestamp")
        ]
        first = min([*undone, drill], key=_turn)
        return "" if first["metadata"]["name"] == key[1] else str(first["metadata"]["name"])

    # --- looking --------------------------------------------------------------------------------------------

    async def _look(self, key: Key, drill: Object, spec: DrillSpec, status: DrillStatus) -> DrillObserved:
        job = await self._job((key[0], spec.job))
        found = status_of(job) if job is not None else None
        asked = job["spec"] if job is not None else {}
        audit, problem = await self._audit_of(key) if status.phase == "Auditing" else (None, "")
        targets = (
            await self._strikes.targets(key[0], spec)
            if not status.struck_at and status.phase != "Auditing"
            else Targets({})
        )
        blow = await self._strikes.look(key[0], spec, status) if status.struck_at else Blow()
        return DrillObserved(
            now=self._clock(),
            plan=plan_of(spec, asked.get("guarantee", "exactly-once")),
            status=status,
            job_phase=_phase(job, found.phase if found is not None else ""),
            job_uid=str(job["metadata"]["uid"]) if job is not None else "",
            job_message=found.message if found is not None else "",
            workers=_workers(asked) if job is not None else 0,
            attempt=found.attempt if found is not None else 0,
            told=self._hosting.status(f"{key[0]}.{spec.job}"),
            age=self._clock()
            - moment(str(drill["metadata"].get("creationTimestamp") or "") or written(self._clock())),
            victims=targets.victims,
            out_of_reach=targets.out_of_reach,
            cannot_audit=cannot_audit(asked) if job is not None else "",
            refused=blow.refused,
            sight=blow.sight,
            replaced=await self._strikes.is_replaced(key[0], spec, status) if status.struck_at else True,
            audit=audit,
            audit_problem=problem,
        )

    async def _job(self, key: Key) -> Object | None:
        """A job that was applied with its drill may not be in the cache yet."""
        return self._cluster.jobs.get(key) or await self._api.get("FlameStreamJob", *key)

    # --- audit ----------------------------------------------------------------------------------------------

    async def _begin_audit(self, key: Key, drill: Object, observed: DrillObserved) -> None:
        """Create the audit's pod, which is the drill's: the job may have no driver any more."""
        name, job = names.audit(key[1]), (key[0], observed.plan.job)
        if await self._api.get("Pod", key[0], name) is None:
            await self._readers.audit(job, drill, name, tasks=observed.workers)

    async def _audit_of(self, key: Key) -> tuple[AuditResult | None, str]:
        """Verdict of a drill's audit, or why there is none."""
        pod = await self._api.get("Pod", key[0], names.audit(key[1]))
        if pod is None or phase_of(pod) not in ("Succeeded", "Failed"):
            return None, ""
        for ended in ended_containers(pod):
            if (text := str(ended.get("message") or "")).startswith("{"):
                return _verdict(text)
        return None, f"the audit ended without a verdict: see `kubectl logs {pod['metadata']['name']}`"

    # --- writing --------------------------------------------------------------------------------------------

    async def _write(self, drill: Object, status: DrillStatus) -> Object:
        now = written(self._clock())
        before = _status(drill)
        over = status.phase in OVER
        reason = status.reason or status.phase
        # `kubectl wait` does not believe a condition of an older one
        generation = int(drill["metadata"].get("generation", 0))
        failed = over and status.phase != "Passed"
        conditions = conditions_of_ending(
            over, failed, reason, status.message, before.conditions, now, generation
        )
        status = replace(status, conditions=conditions, observed_generation=generation)
        plain = {name: value for name, value in msgspec.to_builtins(status).items() if value is not None}
        self._check()
        new = await self._tools.write_status(self._cluster.drills, drill, plain)
        if status.phase != before.phase:
            await self._events.send(
                new, "Warning" if failed else "Normal", reason, status.message or status.phase
            )
        return new


def _status(drill: Object) -> DrillStatus:
    try:
        return msgspec.convert(drill.get("status") or {}, DrillStatus)
    except msgspec.ValidationError as error:  # a new drill would strike once more
        log.error(
            "a drill's status cannot be read",
            extra={"drill": drill["metadata"]["name"], "problem": str(error)},
        )
        return DrillStatus(phase="Inconclusive", reason="Unreadable", message=str(error)[:1000])


def _turn(drill: Object) -> tuple[bool, str, str]:
    """Who has begun goes on, else who was there first."""
    return _status(drill).phase == "Pending", *_made(drill)


def _made(drill: Object) -> tuple[str, str]:
    meta = drill["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta["name"])


def _ours(status: object) -> DrillStatus:
    assert isinstance(status, DrillStatus), "steps keep the kind of status that they were given"
    return status


def _phase(job: Object | None, phase: str) -> str:
    if job is None:
        return ""
    return "Deleting" if job["metadata"].get("deletionTimestamp") else phase or "Pending"


def _workers(spec: Object) -> int:
    """The number of workers that the job's coordinator should know."""
    workers = spec["workers"]
    return 1 if in_batches(spec) else int(workers.get("replicas") or workers["min"])


def _verdict(text: str) -> tuple[AuditResult | None, str]:
    """Read what an audit's pod has said: its verdict, or why there is none."""
    try:
        found = from_json(text, dict[str, object])
        if "error" in found:
            return None, str(found["error"])
        return msgspec.convert(found, AuditResult), ""
    except DecodeError as error:  # a ValidationError is one
        return None, f"its verdict cannot be read: {error}"
