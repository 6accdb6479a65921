"""FlameStreamDrill: deliberate faults against a job, and the audit's verdict."""

from typing import Annotated, Literal

from msgspec import Meta, field

from flamestream.cli.manifest_parts import ObjectName, Part, Seconds
from flamestream_operator.api.conditions import Condition

Target = Literal["worker", "daemon", "executor", "driver", "operator", "zookeeper", "store", "pod", "network", "node"]


class Fault(Part, frozen=True):
    """What is broken, and how."""

    target: Target
    """worker: a worker's Python process. daemon: Spark's Python daemon. executor, driver: their pods. operator: its leader's pod.
    zookeeper, store: the pods of targetSelector. pod: a random pod of targetSelector. network: that of a worker's pod. node: all pods of
    the job on one node."""
    action: Literal["kill", "pause", "delete", "cut"] = "kill"
    """kill: SIGKILL, for a pod deletion without grace. pause: SIGSTOP for pauseFor, then SIGCONT. delete: a pod's deletion with grace.
    cut, of network and node: nothing comes in or goes out for pauseFor, and nobody is told."""
    pause_for: Seconds = Seconds(10)
    """How long a pause or a cut is."""
    target_selector: Annotated[dict[str, str], Meta(max_length=8)] = field(default_factory=dict)
    """Labels of the pods, for zookeeper, store and pod."""
    target_namespace: ObjectName | None = None
    """Their namespace; left out, the drill's."""


class DrillSpec(Part, frozen=True):
    """Break a part of a job n times, then audit everything it delivered."""

    job: ObjectName
    """Name of the FlameStreamJob in this namespace."""
    fault: Fault
    """What is broken, and how."""
    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often."""
    after: Seconds | None = None
    """Time between the job being whole and the next fault; left out, random from 0.2 to 3 seconds."""
    seed: int = 0
    """Of the random moments and victims."""
    timeout: Seconds = Seconds(300)
    """The job must be whole again so long after a fault."""
    audit: bool = True
    """Compare all output with the reference interpreter. Needs sinks that can be read back."""


class FaultResult(Part, frozen=True):
    """One fault, and what it cost."""

    victim: str
    """What was broken."""
    time: str
    """When."""
    recovered_ms: float
    """Until the job was whole again."""
    recovery_ms: float = 0
    """The coordinator's own figure: from the cause to the replay."""
    output_gap_ms: float | None = None
    """The longest time in which no consumer was given anything, between the fault and results of the job that is whole again. Left out: not
    known, because no result came within seconds (an idle input), or because the coordinator was struck with the operator."""


class AuditResult(Part, frozen=True):
    """What the reference interpreter says."""

    clean: bool
    """Whether all output is right so far."""
    records: int = 0
    """Input."""
    delivered: int = 0
    """Output."""
    lost: int = 0
    """Results that are missing."""
    doubled: int = 0
    """Results that are there twice."""
    reordered: int = 0
    """Results out of order."""
    foreign: int = 0
    """Results that the reference does not have."""
    first_difference: Annotated[str, Meta(max_length=1024)] = ""
    """The first item that differs."""


class DrillStatus(Part, frozen=True):
    """What happened."""

    phase: Literal["Pending", "Running", "Auditing", "Passed", "Failed", "Error"] = "Pending"
    """Passed and Failed are verdicts; Error: the drill could not be carried out."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    """In one sentence, with what to do if that is on you."""
    conditions: Annotated[list[Condition], Meta(max_length=4)] = field(default_factory=list)
    """Completed, Failed."""
    observed_generation: int = 0
    """The generation that was acted on."""
    done: int = 0
    """Faults so far."""
    faults: Annotated[list[FaultResult], Meta(max_length=50)] = field(default_factory=list)
    """The newest 50."""
    longest_recovery_ms: float = 0
    """Of all faults."""
    longest_output_gap_ms: float = 0
    """Of all faults whose gap is known."""
    audit: AuditResult | None = None
    """The verdict."""
    attempt: int = 0
    """The job's attempt before the fault that is under way."""
    struck_at: str = ""
    """When the fault that is under way was made; written before it."""
    whole_at: str = ""
    """When the job was whole again after it; results are waited for."""
    next_at: str = ""
    """When the next one is due."""
    victim: str = ""
    """Of the fault that is under way."""
    started_at: str = ""
    """When it began."""
    finished_at: str = ""
    """When it ended."""
