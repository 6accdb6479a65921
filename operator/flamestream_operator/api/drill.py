"""FlameStreamDrill: deliberate faults against a job, and the audit's verdict."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from flamestream.job.drills import status
from flamestream.job.manifest_parts import ObjectName, Part, Seconds
from flamestream_operator.api.conditions import Condition

Target = Literal[
    "worker", "daemon", "executor", "driver", "application", "operator", "zookeeper", "store", "pod",
    "network", "node"
]  # fmt: skip

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
"""Faults that can be done, by whom they are done to. CRD definitions refuse the rest with REFUSALS."""
REFUSALS: Final[Mapping[str, str]] = {
    "worker": "a worker is a process, to be killed or paused: to delete its pod, target: executor; to cut it "
    "off, target: network",
    "daemon": "Spark's daemon is a process, and is killed: a paused one hurts nobody",
    "executor": "an executor's pod is killed, deleted or paused: to cut it off, target: network",
    "driver": "a driver's pod is killed, deleted or paused: to cut a whole application off, target: "
    "application",
    "operator": "the operator carries the drill out, so it can be killed or deleted only",
    "store": "a store's first process cannot be stopped from inside its pod: cut it, for pauseFor",
    "pod": "a pod's first process cannot be stopped from inside: cut it, for pauseFor",
    "network": "a network is cut: action: cut, for pauseFor",
}
"""Why, and what to choose, for targets that not every action is for."""
ELSEWHERE: Final = ("zookeeper", "store", "pod")
"""Targets that are named by a selector, and may be in another namespace."""


class Fault(Part, frozen=True):
    """A fault: its target and its action."""

    target: Target
    """worker: a worker's Python process. daemon: Spark's Python daemon. executor, driver: their pods.
    application: all pods of one Spark application of the job. operator: its leader's pod. zookeeper, store,
    pod: one of the pods of targetSelector. network: that of a worker's pod. node: all pods of the job on one
    node."""
    action: Literal["kill", "pause", "delete", "cut"] = "kill"
    """kill: SIGKILL, for a pod deletion without grace. pause: SIGSTOP for pauseFor, then SIGCONT. delete: a
    pod's deletion with grace. cut: nothing comes in or goes out for pauseFor, and nobody is told."""
    pause_for: Seconds | None = None
    """Duration of a pause or a cut; left out, 10s; at most 10m."""
    target_selector: Annotated[dict[str, str], Meta(max_length=8)] = field(default_factory=dict)
    """Labels of the pods, for zookeeper, store and pod."""
    target_namespace: ObjectName | None = None
    """Their namespace; left out, the drill's. Another has to be among allow.drillNamespaces of the operator's
    chart."""

    @property
    def lasts(self) -> float:
        """Seconds that it goes on: 0 of what happens at once."""
        return float(self.pause_for or Seconds(10)) if self.action in ("pause", "cut") else 0.0


class DrillSpec(Part, frozen=True):
    """Break a part of a job n times, then audit everything it delivered."""

    job: ObjectName
    """Name of the FlameStreamJob in this namespace."""
    fault: Fault
    """The fault: its target and its action."""
    times: Annotated[int, Meta(ge=0, le=100)] = 1
    """Number of faults; 0: none, whatever spec.fault says: the audit alone."""
    after: Seconds | None = None
    """Time between the job being whole and the next fault; left out, random from 0.2 to 3 seconds."""
    seed: int = 0
    """Seed of the random moments and victims."""
    timeout: Seconds = Seconds(300)
    """The job must be whole again so long after a fault."""
    audit: bool = True
    """Compare all output with the reference interpreter. Needs sinks that can be read back. Without, a drill
    measures the gap, and is Inconclusive."""
    definitions: bool = False
    """Whether its audit also says which of the formal model's definitions hold, by the code of now alone."""


class DrillStatus(status.DrillStatus, frozen=True, kw_only=True, rename="camel"):
    """The state of a drill, its faults and its verdict."""

    conditions: Annotated[list[Condition], Meta(max_length=8)] = field(default_factory=list)
    """Completed: it is over, whatever the verdict. Ready: it has passed. Failed, Stalled: it has not. Reconciling: it
    is under way."""
    observed_generation: int = 0
    """The generation that was acted on."""
