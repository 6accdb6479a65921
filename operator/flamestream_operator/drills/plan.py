"""A FlameStreamDrill as a plan, and which fault is possible for which target.

Keeps: what is offered by the CRD is what is carried out. Does not: go through the steps
(flamestream.job.drills.drill), or strike (drills/strikes.py).
"""

from typing import Final

from flamestream.connectors import sinks
from flamestream.job.drills.observed import DrillPlan
from flamestream.job.manifest import BATCHES
from flamestream.job.manifest_rules import why_not_audited
from flamestream_operator.api.drill import ELSEWHERE, DrillSpec
from flamestream_operator.objects.meta import Object
from flamestream_operator.site import Allowed

HITS_WORKERS: Final = ("worker", "daemon", "executor", "driver", "application", "network", "node")
"""Targets whose loss makes a new attempt."""
HITS_BATCHES: Final = ("driver", "application")
"""The same where the driver is the worker: what an executor was at, Spark gives another."""
LONGEST: Final = 600.0
"""Seconds of a pause or a cut."""


def plan_of(spec: DrillSpec, guarantee: str = "exactly-once") -> DrillPlan:
    """The drill's spec, as its steps are planned by."""
    fault = spec.fault
    hits = HITS_BATCHES if guarantee == BATCHES else HITS_WORKERS
    return DrillPlan(
        job=spec.job, target=fault.target, times=spec.times, hits=fault.target in hits,
        lasting=fault.lasts,
        after=float(spec.after) if spec.after is not None else None,
        seed=spec.seed, timeout=float(spec.timeout), audit=spec.audit, saves=guarantee != "none",
    )  # fmt: skip


def place_of(spec: DrillSpec, namespace: str, own: str) -> str:
    """The namespace of who is struck by a drill in `namespace`; `own` is the operator's."""
    if spec.fault.target == "operator":
        return own
    return (spec.fault.target_namespace or namespace) if spec.fault.target in ELSEWHERE else namespace


def forbidden(spec: DrillSpec, namespace: str, own: str, allowed: Allowed) -> str:
    """The reason why nobody is struck so, whatever rights the operator has; "": somebody may be. The CRD says
    it too, as far as one object knows."""
    fault, place = spec.fault, place_of(spec, namespace, own)
    if fault.target in ELSEWHERE and not fault.target_selector:
        return f"a {fault.target} is one of the pods of spec.fault.targetSelector, which is empty: say which"
    if place != namespace and place not in allowed.drill_namespaces:
        return (
            f"drills strike in their job's namespace: ask who runs the operator for {place!r} in the chart's "
            "allow.drillNamespaces"
        )
    if spec.definitions and not spec.audit:
        return "spec.definitions: the audit judges them, and spec.audit is false: leave one of the two out"
    if fault.lasts > LONGEST:
        return f"spec.fault.pauseFor: at most {LONGEST:g} s"
    return ""


def in_batches(spec: Object) -> bool:
    """Whether a job with this spec has one worker, the driver, for which executors compute."""
    return bool(spec.get("guarantee") == BATCHES)


def cannot_audit(spec: Object) -> str:
    """Why the output of a job with this spec cannot be read back, as far as the spec alone says; "": it may
    be."""
    if why := why_not_audited(str(spec.get("guarantee", ""))):
        return why
    for name, sink in spec["sinks"].items():
        known = sinks.kind_of(sink)
        if known is not None and not known.reads_back:
            return f"sink {name!r} is a {next(iter(sink))} sink, which cannot be read back"
    return ""
