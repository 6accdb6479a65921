"""Objects of a cluster in the words of the page: a row, a savepoint, a drill.

Does not: ask anybody.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from flamestream.job.drills.left_audit import ANNOTATION, LeftAudit, read_left
from flamestream.job.drills.status import OVER, AuditResult, DrillStatus
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest_parts import Seconds
from flamestream.ui.marks import Mark, at_micros
from flamestream.ui.source import Ran, Refused, Row
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.kube.cache import Cluster, key_of
from flamestream_operator.objects.meta import GROUP, Object, own_name, part, whole

ASKED_BY: Final = f"{GROUP}/asked-by"
"""Annotation of a drill: who has started it from the page."""
CODES: Final = {"Passed": ExitCode.OK, "Failed": ExitCode.DIFFERENCE}
"""Exit codes of a drill by its phase."""
VICTIMS: Final = ("worker", "daemon", "executor", "driver", "application")


def row_of_object(
    name: str, resource: JobResourceStatus, *, running: bool, guarantee: str, audit: str
) -> Row:
    """The row of a job that no coordinator here speaks for: as its status was written last."""
    latency, epoch, recovery = resource.latency, resource.epoch, resource.recovery
    return Row(
        job=name,
        phase=resource.phase,
        running=running,
        guarantee=guarantee,
        workers=resource.workers.ready,
        wanted=resource.workers.desired,
        standbys=resource.workers.standby,
        p50_ms=latency.delivered_p50_ms if latency and running else None,
        p99_ms=latency.delivered_p99_ms if latency and running else None,
        epoch=epoch.number if epoch else 0,
        epoch_at=micros(epoch.time) if epoch else 0,
        recovery=recovery.cause if recovery else "",
        recovery_ms=recovery.duration_ms if recovery else 0,
        audit=audit,
        problems=len(resource.problems) + (resource.phase == "Failed"),
    )


def mark_of_recovery(resource: JobResourceStatus) -> Mark | None:
    """The last recovery as a job's status has it, whoever led then; None: there was none."""
    last = resource.recovery
    if last is None or not last.attempt or not (seen := micros(last.time)):
        return None
    return Mark(
        at=at_micros(seen),
        kind="recovery",
        text=last.cause,
        attempt=last.attempt,
        duration_ms=last.duration_ms,
    )


def savepoints_of(job: Object, cluster: Cluster) -> list[Mapping[str, object]]:
    """The FlameStreamSnapshots of a job that are complete, the oldest first, in the words of a listing."""
    namespace, name = key_of(job)
    mine = [
        (thing, thing.get("status") or {})
        for thing in cluster.snapshots
        if (thing["metadata"].get("namespace"), part(thing, "spec", "job")) == (namespace, name)
        and part(thing, "status", "phase") == "Completed"
    ]
    return [
        {
            "name": str(status.get("index", "")),
            "epoch": status.get("epoch", 0),
            "attempt": 0,
            "cut": str(micros(str(status.get("time") or ""))),
            "segments": status.get("objects", 0),
            "rows": 0,
            "bytes": status.get("size", 0),
            "savepoint": thing["metadata"]["name"],
        }
        for thing, status in sorted(mine, key=lambda each: made_at(each[0]))
    ]


def drill_of(job: Object, victim: str, after: str, by: str) -> Object:
    """A FlameStreamDrill that kills one `victim` of a job, `after` seconds. Raises Refused (400)."""
    if victim not in VICTIMS:
        raise Refused(400, f"kill is one of {', '.join(VICTIMS)}, not {victim!r}")
    # An object's duration is above 0.
    pause = str(Seconds(max(0.1, float(after))))
    return _drill(job, victim, by, {"fault": {"target": victim}, "times": 1, "after": pause})


def audit_of(job: Object, by: str, *, formal: bool) -> Object:
    """A FlameStreamDrill that breaks nothing, and audits; `formal`: by the definitions of the formal model too."""
    spec = {"fault": {"target": "worker"}, "times": 0, **({"definitions": True} if formal else {})}
    return _drill(job, "audit", by, spec)


def is_audit(drill: Object) -> bool:
    """Whether a drill breaks nothing."""
    return bool(part(drill, "spec", "times") == 0)


def _drill(job: Object, what: str, by: str, spec: Object) -> Object:
    namespace, name = key_of(job)
    meta = {"generateName": f"{name[:40]}-{what}-", "namespace": namespace, "annotations": {ASKED_BY: by}}
    return whole("FlameStreamDrill", meta, spec={"job": name, **spec})


def audit_of_drill(drill: Object) -> Ran:
    """The audit of a drill, under way or over; without a verdict, why there is none."""
    status, began = drill_status(drill), micros(str(drill["metadata"].get("creationTimestamp") or ""))
    if status.phase not in OVER:
        return Ran(state="running", began=began)
    if status.audit is not None:
        answer = _report(status.audit, f"By drill {drill['metadata']['name']}, after {status.done:,} faults.")
    else:
        reason = status.message or f"drill {own_name(drill)} has none"
        answer = {"error": {"category": "user", "message": reason}}
    return Ran(
        state="done", began=micros(status.started_at) or began, ended=micros(status.finished_at),
        code=int(CODES.get(status.phase, ExitCode.UNPROVEN)), answer=answer,
    )  # fmt: skip


def audit_of_terminal(job: Object) -> Ran:
    """The last audit that was made at a terminal, as the job's object has it."""
    left = left_at(job)
    if left is None:
        return Ran()
    code = ExitCode.OK if left.audit.clean else ExitCode.DIFFERENCE
    report = _report(left.audit, "By `kubectl flamestream audit`.")
    return Ran(state="done", began=left.began, ended=left.ended, code=int(code), answer=report)


def left_at(job: Object) -> LeftAudit | None:
    """The verdict in an annotation of a job; None: there is none, or it cannot be read."""
    text = (job["metadata"].get("annotations") or {}).get(ANNOTATION)
    return None if text is None else read_left(str(text))


def _report(audit: AuditResult, by: str) -> Mapping[str, object]:
    """A verdict as `flamestream audit --json` has it, as far as a drill's status says it."""
    verdict = {
        name: getattr(audit, name)
        for name in ("delivered", "lost", "doubled", "reordered", "foreign", "misplaced", "not_due")
    }
    return {
        "records": audit.records, "clean": audit.clean, "kept": audit.clean, "empty": not audit.delivered,
        "complete": audit.complete, "verdict": verdict, "places": [], "input": [],
        "bounds": {"epoch": audit.epoch, "complete": audit.complete}, "first_difference": audit.first_difference,
        "said": [by, *filter(None, (audit.input, audit.bounds))],
        "definitions": [
            {**msgspec.structs.asdict(row), "strict": row.strict or None} for row in audit.definitions
        ],
    }  # fmt: skip


def drill_status(drill: Object) -> DrillStatus:
    """The status of a drill; of one that cannot be read, that it cannot."""
    try:
        return msgspec.convert(drill.get("status") or {}, DrillStatus)
    except msgspec.ValidationError as error:
        return DrillStatus(phase="Inconclusive", reason="Unreadable", message=str(error)[:1000])


def made_at(thing: Object) -> tuple[str, str]:
    """A key to sort objects by when they were made."""
    meta = thing["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta["name"])


def micros(text: str) -> int:
    """Microseconds since 1970 of a moment as objects have it; 0: there is none, or it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
