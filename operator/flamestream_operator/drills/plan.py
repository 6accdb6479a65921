"""A FlameStreamDrill as a plan, and which fault is possible for which target.

Keeps: what is offered by the CRD is what is carried out. Does not: go through the steps (flamestream.job.drill), or strike
(drills/strikes.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from flamestream.job.drill import DrillPlan
from flamestream_operator.api.drill import DrillSpec
from flamestream_operator.jobs.admission import Allowed

ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "worker": ("kill", "pause"),
    "daemon": ("kill",),
    "executor": ("kill", "delete", "pause"),
    "driver": ("kill", "delete", "pause"),
    "application": ("kill", "delete", "pause", "cut"),
    "operator": ("kill", "delete"),
    "zookeeper": ("kill", "delete", "pause", "cut"),
    "store": ("kill", "delete", "cut"),
    "pod": ("kill", "delete", "cut"),
    "network": ("cut",),
    "node": ("kill", "delete", "pause", "cut"),
}
"""What can be done to whom. CRD definitions refuse the rest with REFUSALS."""
REFUSALS: Final[Mapping[str, str]] = {
    "worker": "a worker is a process, to be killed or paused: to delete its pod, target: executor; to cut it off, target: network",
    "daemon": "Spark's daemon is a process, and is killed: a paused one hurts nobody",
    "executor": "an executor's pod is killed, deleted or paused: to cut it off, target: network",
    "driver": "a driver's pod is killed, deleted or paused: to cut a whole application off, target: application",
    "operator": "the operator carries the drill out, so it can be killed or deleted only",
    "store": "a store's first process cannot be stopped from inside its pod: cut it, for pauseFor",
    "pod": "a pod's first process cannot be stopped from inside: cut it, for pauseFor",
    "network": "a network is cut: action: cut, for pauseFor",
}
"""Why, and what to choose, for targets that not every action is for."""
ELSEWHERE: Final = ("zookeeper", "store", "pod")
"""Targets that are named by a selector, and may be in another namespace."""
HITS_WORKERS: Final = ("worker", "daemon", "executor", "driver", "application", "network", "node")
"""Targets whose loss makes a new attempt."""
LONGEST: Final = 600.0
"""Seconds of a pause or a cut."""
_WITHOUT_HISTORY: Final = ("socket", "http", "callback", "discard", "connector")


def plan_of(spec: DrillSpec, guarantee: str = "exactly-once") -> DrillPlan:
    """What is asked for."""
    fault = spec.fault
    return DrillPlan(
        job=spec.job, target=fault.target, times=spec.times, hits=fault.target in HITS_WORKERS,
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
    """Why nobody is struck so, whatever rights the operator has; "": somebody may be. The CRD says it too, of what one object knows."""
    fault, place = spec.fault, place_of(spec, namespace, own)
    if fault.target in ELSEWHERE and not fault.target_selector:
        return f"a {fault.target} is one of the pods of spec.fault.targetSelector, which is empty: say which"
    if place != namespace and place not in allowed.drill_namespaces:
        return f"drills strike in their job's namespace: ask who runs the operator for {place!r} in the chart's allow.drillNamespaces"
    if fault.lasts > LONGEST:
        return f"spec.fault.pauseFor: at most {LONGEST:g} s"
    return ""


def cannot_audit(spec: Mapping[str, Any]) -> str:
    """Why the output of a job with this spec cannot be read back, as far as the spec alone says; "": it may be."""
    for name, sink in spec["sinks"].items():
        kind = next(iter(sink))
        if kind in _WITHOUT_HISTORY:
            return f"sink {name!r} is a {kind} sink, which cannot be read back"
    return ""
