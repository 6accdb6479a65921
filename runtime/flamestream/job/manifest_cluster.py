"""The fields of a manifest that only a cluster looks at. `flamestream run` checks them and leaves them alone.

The text under each field is what `kubectl explain` shows (the CRDs are generated from here).

Does not: have fields of the stream itself (manifest.py).
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from flamestream.job.manifest_parts import Free, Named, ObjectName, Part, Seconds

Quantity = Annotated[int | str, Meta(extra_json_schema={"x-kubernetes-int-or-string": True})]
"""1, 500m, 2Gi."""


OperationName = Annotated[str, Meta(min_length=1, max_length=1024)]
"""As `flamestream plan` shows it."""


class Resources(Part, frozen=True):
    """Resources of a container: what it asks for, and what it may use."""

    requests: Annotated[dict[str, Quantity], Meta(max_length=16)] = field(default_factory=dict)
    """Amounts that the scheduler reserves, like {cpu: 500m, memory: 1Gi}."""
    limits: Annotated[dict[str, Quantity], Meta(max_length=16)] = field(default_factory=dict)
    """Amounts that the container may use at most, like {memory: 2Gi}."""


class Driver(Part, frozen=True):
    """The Spark driver, which starts the workers' executors and is idle otherwise."""

    resources: Resources = field(
        default_factory=lambda: Resources(
            requests={"cpu": "100m", "memory": "512Mi"}, limits={"memory": "1Gi"}
        )
    )
    """Its container's requests and limits."""


class Marks(Part, frozen=True):
    """Labels and annotations of one kind of pods, beside those of all."""

    labels: Annotated[dict[str, str], Meta(max_length=32)] = field(default_factory=dict)
    """Labels, like the name of a pod group."""
    annotations: Annotated[dict[str, str], Meta(max_length=32)] = field(default_factory=dict)
    """Annotations, like the name of a task group."""


class PodSettings(Part, frozen=True):
    """Settings of all pods of the job, drivers and workers alike."""

    labels: Annotated[dict[str, str], Meta(max_length=32)] = field(default_factory=dict)
    """Labels of the pods, beside FlameStream's own."""
    annotations: Annotated[dict[str, str], Meta(max_length=32)] = field(default_factory=dict)
    """Annotations of the pods."""
    driver: Marks = field(default_factory=Marks)
    """Labels and annotations of drivers' pods alone."""
    workers: Marks = field(default_factory=Marks)
    """Labels and annotations of workers' pods alone: a scheduler that starts them together finds their group by
    them."""
    node_selector: Annotated[dict[str, str], Meta(max_length=32)] = field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[list[Free], Meta(max_length=32)] = field(default_factory=list)
    """As in a pod."""
    affinity: Free = field(default_factory=dict)
    """As in a pod; with highAvailability the rules that keep applications apart are added."""
    volumes: Annotated[list[Named], Meta(max_length=32)] = field(default_factory=list)
    """As in a pod: input folders, a shared folder for the journal and for files sinks."""
    volume_mounts: Annotated[list[Named], Meta(max_length=32)] = field(default_factory=list)
    """As in a container, for the volumes above."""
    env: Annotated[list[Named], Meta(max_length=64)] = field(default_factory=list)
    """As in a container, for the application."""
    service_account_name: ObjectName | None = None
    """An existing service account for the driver; left out, one of least rights is made."""
    image_pull_secrets: Annotated[list[ObjectName], Meta(max_length=8)] = field(default_factory=list)
    """Names of the Secrets that the image is pulled with."""
    priority_class_name: ObjectName | None = None
    """An existing priority class."""
    topology_spread_constraints: Annotated[list[Free], Meta(max_length=8)] = field(default_factory=list)
    """As in a pod: how drivers and workers spread over zones or nodes. The name of their job is in their
    label of that name."""
    scheduler_name: ObjectName | None = None
    """The scheduler that places the pods, like volcano or yunikorn; left out, the cluster's own."""
    clients: Annotated[list[Free], Meta(max_length=32)] = field(default_factory=list)
    """Who may connect to the ports that sources, sinks and queries listen on, as `from` of a NetworkPolicy; left out,
    anybody."""


class Upgrade(Part, frozen=True):
    """How other code takes over, and the fate of the state. Without it, at a tick; a change of graph name or
    file is refused. On one machine all but `strategy` counts."""

    strategy: Literal["Tick", "Restore", "Fresh"] = "Tick"
    """Tick: workers of the new code start beside those that run, and take over between two results; where more
    than code is other (the guarantee, the journal, the place of a source or sink), as Restore. Restore: stop at
    an epoch, go on from it. Both check first that the snapshot fits the new graph, and go back to the last
    stable spec if it does not start. Fresh: drop the state and begin anew."""
    drop: Annotated[list[OperationName], Meta(max_length=256)] = field(default_factory=list)
    """Names of operations that the graph has no more, and whose state is to be forgotten; of sources, of which
    what was read and is in no epoch is."""
    canary: Annotated[int, Meta(ge=0, le=100_000)] = 1000
    """So many records behind the committed cut are interpreted by both codes before the new one takes over: what
    differs is shown, and an error that the code before does not give refuses the upgrade. 0: none."""
    watch: Seconds = Seconds(60)
    """For so long after a tick the new code may not fail: where it raises under onError: fail, gives error items
    that the code before did not give, or has its workers lost three times, the job goes back to the code
    before, at a tick."""
    keep: Seconds | None = None
    """For so long workers of the code before stay beside the new ones; left out, as long as it is watched."""


class HandOver(Part, frozen=True):
    """The leave for another job to go on with this one's sources, sinks and state."""

    to: Annotated[str, Meta(min_length=1, max_length=317)]
    """Its name; NAMESPACE/NAME if it is in another namespace, or in another cluster whose operator keeps its jobs in
    the same ZooKeeper. When it asks, by its `takeOver`, this job ends between two results, and it goes on there."""


class TakeOver(Part, frozen=True):
    """The job that this one goes on with: a job of its own name ends between two results, and this one begins
    there, with the same sources and sinks and its state, exactly once."""

    job: Annotated[str, Meta(min_length=1, max_length=317)]
    """The name of the job that runs; on a cluster NAMESPACE/NAME if it is in another namespace, or in another cluster
    whose operator keeps its jobs in the same ZooKeeper."""
    origin: Annotated[str, Meta(min_length=1, max_length=317)] | None = None
    """The job that sinks, journal and snapshots are called after, where `job` has taken them over itself; left
    out, it is `job`."""
    shadow: bool = False
    """Take nothing over yet: interpret what the other job reads with this one's code and a state of its own, from each
    committed cut to the next, and say what differs from what that one delivers. Nothing is delivered."""


class Backoff(Part, frozen=True):
    """Pauses between tries after failures; each is twice the one before."""

    initial: Seconds = Seconds(1)
    """The first pause."""
    max: Seconds = Seconds(300)
    """The longest pause."""
    reset_after: Seconds = Seconds(600)
    """A job that ran for so long without failing starts again with the first pause."""
    limit: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Give up after so many failures in a row; left out, never."""


class Savepoints(Part, frozen=True):
    """Savepoints taken by the clock."""

    every: Seconds
    """Time between two, like 1h."""
    keep: Annotated[int, Meta(ge=1, le=100)] = 3
    """So many of the newest are kept."""


class RestoreFrom(Part, frozen=True):
    """The beginning of a job that has no state yet."""

    snapshot: ObjectName
    """Name of a completed FlameStreamSnapshot in this namespace."""


class ZooKeeper(Part, frozen=True):
    """The ZooKeeper that keeps the job record."""

    servers: Annotated[str, Meta(min_length=1, max_length=1024)]
    """host:port[,host:port]."""


class ClusterSpec(Part, frozen=True):
    """The part of a job's spec that only a cluster looks at."""

    image: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """Image of driver and workers; left out, the operator's own."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When nodes pull the image; left out: IfNotPresent, and for the operator's own image as the operator was
    told."""
    zookeeper: ZooKeeper | None = None
    """The ZooKeeper of the job record; left out, the operator's."""
    driver: Driver = field(default_factory=Driver)
    """The Spark driver."""
    pods: PodSettings = field(default_factory=PodSettings)
    """Settings of all pods of the job."""
    high_availability: bool = False
    """Run as two Spark applications on different nodes, so that losing a driver is losing some workers only.
    Needs two workers."""
    suspend: bool = False
    """Stop at a committed epoch, and stay stopped until this is false again."""
    upgrade: Upgrade | None = None
    """The fate of the state at a change of code or image."""
    hand_over: HandOver | None = None
    """Another job may go on where this one ends. On one machine, whoever may write to its run folder may."""
    take_over: TakeOver | None = None
    """Go on with another job's sources, sinks and state, looked at only while the job has none. It stays in the
    spec: what is outside keeps the other's name."""
    restore_from: RestoreFrom | None = None
    """A savepoint to begin with, looked at only while the job has no state."""
    restart_policy: Literal["Always", "OnFailure", "Never"] = "OnFailure"
    """Whether a job that failed is started again: after every failure (Always: those of the application
    itself too, with the pauses of backoff), after those that may pass, or never. A job that completed is
    not."""
    backoff: Backoff = field(default_factory=Backoff)
    """Pauses between tries after failures."""
    deadline: Seconds | None = None
    """The job fails if it has not completed so long after its first start."""
    ttl_after_finished: Seconds | None = None
    """A job that completed or failed for good is deleted after so long; left out, never."""
    deletion_policy: Literal["Keep", "Delete"] = "Keep"
    """The fate of snapshots and the job record when the job is deleted. Kept ones are adopted by a job of the
    same name."""
    savepoints: Savepoints | None = None
    """Savepoints taken by the clock."""
