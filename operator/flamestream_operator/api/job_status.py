"""The status of a FlameStreamJob: what a person reads, and what the operator has decided and must not forget.

Keeps: its size is bounded whatever the job's age. Does not: hold live figures (metrics and `kubectl
flamestream status` do).
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field, to_builtins

from flamestream.job.manifest_parts import Free, Part
from flamestream_operator.api.conditions import Condition

Phase = Literal[
    "Pending", "Starting", "Running", "Recovering", "Suspending", "Suspended", "Upgrading", "BackingOff",
    "Completed", "HandedOver", "Failed", "Deleting"
]  # fmt: skip
MOST_SOURCES: Final = 16
"""Sources whose event time is told; `kubectl flamestream status` and the metrics have all."""


class EpochStatus(Part, frozen=True):
    """The committed epoch as this status was written: with a change of something else, or three minutes after
    the last time."""

    number: int
    """Its number."""
    cut: str
    """Its global time: everything below is in the snapshot. Text, because the number has more than 53
    bits."""
    time: str
    """When it was committed."""


class WorkersStatus(Part, frozen=True):
    """The workers of the job."""

    desired: int = 0
    """As asked for."""
    ready: int = 0
    """Workers that are in the layout and connected."""
    standby: int = 0
    """Connected, without slots."""
    summary: str = "0/0"
    """ready/desired."""
    selector: str = ""
    """Label selector of the worker pods, for autoscalers."""


class DriverStatus(Part, frozen=True):
    """A Spark application: a driver pod and the executors it makes."""

    name: str
    """The pod's name."""
    application: str
    """a, or b with highAvailability."""
    launch: int
    """Counts the driver pods of the job; none is used twice."""
    tasks: int
    """Workers and standbys that it runs."""
    revision: str
    """Hash of everything that the pods were made from."""
    code: str = ""
    """Hash of the application that its workers have loaded; "": that of the run."""
    uid: str = ""
    """The pod's uid, once it was seen: a pod that was seen and is not there any more is never made again."""
    state: Literal["Starting", "Running", "Retiring"] = "Starting"
    """Retiring: its workers hand their slots over, then it is deleted."""
    since: str = ""
    """When the state began."""


class RunStatus(Part, frozen=True):
    """A stretch of the job between two planned stops. Its token is new, so workers of an older run are not
    let in."""

    number: int = 0
    """Counts runs."""
    generation: int = 0
    """The generation of the spec that it runs."""
    code: str = ""
    """Hash of the application that it runs, and of what cannot be mixed with it."""
    digest: str = ""
    """The same of the application's files alone, as workers say it; "": none has said it yet."""
    next: str = ""
    """Hash of the application whose workers start beside those that run, to take over; "": none."""
    before: str = ""
    """Hash of the application that it has gone on from, as long as its workers are kept; "": none."""
    before_digest: str = ""
    """Its digest."""
    turned_at: str = ""
    """When it went on from that."""
    application: str = ""
    """Fingerprint of the application's ConfigMap as the run began; "": there is none."""
    stage: Literal[
        "None", "Restoring", "TakingOver", "Forgetting", "Starting", "Running", "Draining", "Stopped", "Ended"
    ] = "None"
    """The place of the run in its life. Restoring, TakingOver, Forgetting: before it begins. Stopped: at an
    epoch, it can go on. Ended: for good."""
    cause: Literal["", "Suspend", "Upgrade", "Completed", "HandedOver", "Failed", "Rollback"] = ""
    """Why it drains, stopped or ended."""
    started_at: str = ""
    """When its first driver was decided on."""
    graph: str = ""
    """Identity of the graph, as the workers said."""
    attempt: int = 0
    """The job's attempt as the run began: the next one is its start."""


class IntentStatus(Part, frozen=True):
    """The next effect, as the operator announced it when it wrote this: one that this does not announce is
    never carried out."""

    key: str = ""
    """Names the effect; the same key twice is the same effect."""
    generation: int = 0
    """The generation of the spec that it is for."""


class RecoveryStatus(Part, frozen=True):
    """The last recovery."""

    cause: Annotated[str, Meta(max_length=512)]
    """The failure that it repaired."""
    time: str
    """When it was seen."""
    duration_ms: float
    """Milliseconds from its cause to the replay."""
    replayed_from: str = ""
    """The cut that the replay began at."""
    count: int = 0
    """Recoveries so far, of this run, those among them that another one overtook."""
    attempt: int = 0
    """The attempt that it began."""
    kind: str = ""
    """The cause in a word."""


class ItemsStatus(Part, frozen=True):
    """Items since the workers began."""

    input: int = 0
    """Records that entered."""
    output: int = 0
    """Results that were delivered."""


class LatencyStatus(Part, frozen=True):
    """Latencies from a record's entry on, in milliseconds, in the minute before this status was written."""

    p50_ms: float = 0
    """Until its results are released, the median of all runs."""
    p99_ms: float = 0
    """The same: one in a hundred took longer."""
    delivered_p50_ms: float = 0
    """Until a consumer has acknowledged them, the median of all calls, by their oldest result."""
    delivered_p99_ms: float = 0
    """The same: one in a hundred took longer."""


class SnapshotPlace(Part, frozen=True):
    """The committed snapshot."""

    store: str = ""
    """The snapshot's place, without credentials."""
    size: int = 0
    """Bytes."""


class CanaryStatus(Part, frozen=True):
    """The records behind the committed cut, interpreted by the code that runs and by the new one."""

    records: int = 0
    """Records that both have interpreted."""
    equal: int = 0
    """Results that both have given."""
    differ: int = 0
    """Results in whose place the new code has given another, or none, or that it gives beside."""
    new_errors: int = 0
    """Records that lead to an error item of the new code, and to none of the code before."""
    micros_before: float = 0
    """Microseconds a record, by the reference interpreter."""
    micros_after: float = 0
    """The same of the new code."""
    summary: Annotated[str, Meta(max_length=1024)] = ""
    """All of it in words; or why nothing was tried."""
    examples: Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=3)] = field(
        default_factory=list
    )
    """The sinks and records of the first results that differ. What they are is in the log of the trial's pod."""


class PreflightStatus(Part, frozen=True):
    """The trial of new code beside the running stream."""

    code: str
    """Hash of the application and image that is tried."""
    generation: int
    """The generation of the spec that asks for it."""
    pod: str
    """Name of the pod in which it is tried."""
    digest: str = ""
    """Digest of the application's files, as its workers will say it."""
    state: Literal["Running", "Passed", "Failed"] = "Running"
    """Passed: the stream goes on with it. Failed: the stream goes on with the code that it has."""
    since: str = ""
    """When it began."""
    message: Annotated[str, Meta(max_length=512)] = ""
    """Why it failed."""
    canary: CanaryStatus | None = None
    """The comparison with the code that runs."""


class StableSpec(Part, frozen=True):
    """The newest spec that was seen Ready: where a failed upgrade goes back to."""

    generation: int = 0
    """Its generation."""
    code: str = ""
    """Hash of its application and image."""
    application: str = ""
    """Fingerprint of the application's ConfigMap."""
    spec: Free = field(default_factory=dict)
    """All of it."""


class SuspensionStatus(Part, frozen=True):
    """Proof that the job stopped at a committed epoch."""

    epoch: int
    """The committed epoch."""
    cut: str
    """Its global time; nothing above it has entered."""
    time: str
    """When it was there."""
    outputs: int = 0
    """Results delivered so far, all below the cut."""
    clean: bool = True
    """False: the drain ran out of time, and the next start replays what was above the cut."""


class FailureStatus(Part, frozen=True):
    """Failures in a row."""

    count: int = 0
    """Number of failures in a row."""
    last: Annotated[str, Meta(max_length=1024)] = ""
    """The message of the last failure."""
    reason: Annotated[str, Meta(max_length=128)] = ""
    """The same in a word."""
    time: str = ""
    """When it was."""
    next_try: str = ""
    """When the next start is due."""


class JobResourceStatus(Part, frozen=True):
    """All of a FlameStreamJob's status."""

    observed_generation: int = 0
    """The newest generation of the spec that was acted on."""
    phase: Phase = "Pending"
    """The state of the job in a word."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    """The state of the job in a sentence, with what to do if that is on you."""
    conditions: Annotated[list[Condition], Meta(max_length=16)] = field(default_factory=list)
    """Statements to wait for."""
    guarantee: str = ""
    """The guarantee that the running job keeps."""
    attempt: int = 0
    """The fencing number, one more at every recovery."""
    epoch: EpochStatus | None = None
    """The committed epoch."""
    workers: WorkersStatus = field(default_factory=WorkersStatus)
    """The workers of the job."""
    drivers: Annotated[list[DriverStatus], Meta(max_length=8)] = field(default_factory=list)
    """The Spark applications of the job."""
    launches: int = 0
    """Driver pods so far."""
    run: RunStatus = field(default_factory=RunStatus)
    """The stretch since the last planned stop."""
    intent: IntentStatus = field(default_factory=IntentStatus)
    """The effect that the operator was about to cause."""
    recovery: RecoveryStatus | None = None
    """The last recovery."""
    items: ItemsStatus = field(default_factory=ItemsStatus)
    """Items, at the time of the last write of this status."""
    latency: LatencyStatus | None = None
    """Latencies of a job with a journalled source."""
    event_times: Annotated[dict[str, str], Meta(max_length=MOST_SOURCES)] = field(default_factory=dict)
    """How far each source with event time has come: a moment, or seconds that do not count from 1970; windows
    that end before it are over. `unknown`: one of its fronts has had no record that says a time. `ended`: its
    input has ended. As old as `items`."""
    late: Annotated[dict[str, int], Meta(max_length=MOST_SOURCES)] = field(default_factory=dict)
    """Items of each source that came too late for a window, a join or what else knows event time, once for
    each of these. As old as `items`."""
    skipped: Annotated[dict[str, int], Meta(max_length=MOST_SOURCES)] = field(default_factory=dict)
    """Under `at-most-once`: records of each source that recoveries have skipped, since the job began. As old
    as `items`."""
    snapshot: SnapshotPlace | None = None
    """The committed snapshot."""
    suspension: SuspensionStatus | None = None
    """The epoch at which it is suspended."""
    failures: FailureStatus = field(default_factory=FailureStatus)
    """Failures in a row."""
    last_stable: StableSpec | None = None
    """The newest spec that was seen Ready."""
    turned: StableSpec | None = None
    """The spec that the run has gone on to, as long as it is watched or was not yet seen Ready."""
    rolled_back: int = 0
    """A generation that failed and was left for lastStable; a newer one is tried again. 0: none."""
    rolled_back_application: str = ""
    """Fingerprint of the application's ConfigMap that failed."""
    preflight: PreflightStatus | None = None
    """The trial of the newest code."""
    problems: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=8)] = field(
        default_factory=list
    )
    """Lasting troubles that do not stop the stream."""
    identity: str = ""
    """NAMESPACE.NAME of the job whose sinks, journal, snapshots and record it goes on with; "": its own."""
    handed_over: str = ""
    """Who goes on where it has ended, in words; "": nobody."""
    started_at: str = ""
    """When the job was first started."""
    finished_at: str = ""
    """When it completed, or failed for good."""
    last_savepoint: str = ""
    """When the last scheduled savepoint was made."""

    def code_of(self, driver: DriverStatus) -> str:
        """The code that a driver's workers have loaded."""
        return driver.code or self.run.code


def encoded(status: JobResourceStatus) -> dict[str, Any]:
    """Plain values, with fields that are null left out."""
    plain: dict[str, Any] = to_builtins(status)
    return {key: value for key, value in plain.items() if value is not None}
