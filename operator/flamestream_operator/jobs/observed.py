"""The input of the core: the job as the API server said last, its pods, the coordinator's word, and what was
tried.

Everything may be old. Nothing here is trusted for a step that cannot be taken back: the write of the status
is a compare-and-set, and before anything is deleted the job is read again (jobs/reconciler.py).

Does not: decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flamestream.job.status import JobStatus
from flamestream.model.decoding import DecodeError, from_json
from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.coordination.hosting import ConnectedWorker
from flamestream_operator.jobs.spec import Specs
from flamestream_operator.objects.meta import ANSWERS, CONNECTED, LAUNCH, ROLE, Object, identity
from flamestream_operator.site import Site

AT_ONCE = 1
"""Seconds of grace for a driver whose workers have ended or handed over: its hook waits for them, and they
need it no more."""


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The coordinator's word about a job that it coordinates here."""

    status: JobStatus
    members: Sequence[ConnectedWorker] = ()
    epoch_since: float = 0
    """When the committed epoch became what it is, as seen from here."""
    since: float = 0
    """When it was started here, as an `instant`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something long that was begun: a restore, a deletion of state, a savepoint."""

    done: bool = False
    problem: str = ""
    """Why it failed; kept while it is tried again."""
    final: bool = False
    """It would fail again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's no to an effect."""

    reason: str
    message: str
    harmless: bool = False
    """Not a failure: an earlier operator died in the middle of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that the core may know of one job at one moment."""

    now: float
    """Seconds since 1970: for stamps, and what stands in objects. Somebody may set that clock."""
    instant: float = 0
    """Seconds of this process's clock that nobody sets: for all that only this process remembers."""
    job: Object
    site: Site
    pods: Sequence[Object] = ()
    absent: frozenset[str] = frozenset()
    """Pods that a fresh read did not find."""
    dead_nodes: frozenset[str] = frozenset()
    """Nodes that are not ready, or gone."""
    closed_nodes: frozenset[str] = frozenset()
    """Nodes that take no new pods: a drain begins with that."""
    coordinated: Coordinated | None = None
    token: str = ""
    """The token of the current run, if it was read."""
    secrets_problem: str = ""
    """Why token or credentials could not be read."""
    app_digest: str = ""
    """Fingerprint of the application's ConfigMap; "" if there is none, or it was not read."""
    app_problem: str = ""
    """Why the application's ConfigMap could not be read."""
    snapshot: Object | None = None
    """The FlameStreamSnapshot that spec.restoreFrom names."""
    other: Object | None = None
    """The FlameStreamJob that spec.takeOver names."""
    leave: Leave | None = None
    """The leave of the job that spec.takeOver names, where that is in another cluster."""
    given: Leave | None = None
    """The leave that this job has given, as far as this process knows."""
    snapshots: Sequence[Object] = ()
    """All FlameStreamSnapshots of this job."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """The API server's refusals, by the key of the effect."""
    operations: Mapping[str, Operation] = field(default_factory=dict)
    """Long operations that were begun, by key."""
    away: Mapping[str, float] = field(default_factory=dict)
    """IPs of worker pods that are not connected, and since which instant as seen from here."""
    retired: frozenset[str] = frozenset()
    """IPs whose slots were asked to be handed over."""
    specs: Specs = field(default_factory=Specs)
    """The specs of this job that were read before."""
    last_write: float = 0
    """The instant at which the status was written last."""

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @property
    def identity(self) -> str:
        """NAMESPACE.NAME that sinks, journal, snapshots and record are called after."""
        return identity(self.job)

    @property
    def generation(self) -> int:
        return int(self.job["metadata"].get("generation", 0))

    @property
    def deleting(self) -> bool:
        return bool(self.job["metadata"].get("deletionTimestamp"))

    @property
    def members(self) -> Sequence[ConnectedWorker]:
        """Workers that the coordinator is connected to."""
        return self.coordinated.members if self.coordinated is not None else ()

    def pod(self, name: str) -> Object | None:
        return next((pod for pod in self.pods if pod["metadata"]["name"] == name), None)

    @property
    def could_write(self) -> list[Object]:
        """Drivers and workers that may still run: no state is removed under them. Nobody waits for a node
        that is gone."""
        return [
            pod
            for pod in (*self.of_role("driver"), *self.of_role("worker"))
            if node_of(pod) not in self.dead_nodes
        ]

    def of_role(self, role: str) -> list[Object]:
        return [pod for pod in self.pods if pod["metadata"].get("labels", {}).get(ROLE) == role]

    def workers_of(self, launch: int) -> list[Object]:
        """Executor pods of one launch."""
        return [pod for pod in self.of_role("worker") if pod["metadata"]["labels"].get(LAUNCH) == str(launch)]

    def members_of(self, driver: str, launch: int) -> list[str]:
        """IPs of the pods of one launch that may be connected: its executors, and the driver where it is the
        worker."""
        pods = [*self.workers_of(launch), *filter(None, [self.pod(driver)])]
        return [ip for pod in pods if (ip := ip_of(pod))]

    def running(self, launch: int) -> list[Object]:
        """Those of them that run."""
        return [pod for pod in self.workers_of(launch) if phase_of(pod) == "Running"]


def ip_of(pod: Object) -> str:
    """ "" before it has one."""
    return str(pod.get("status", {}).get("podIP") or "")


def phase_of(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase") or "Pending")


def ended_containers(pod: Object) -> list[Object]:
    """The terminated states of a pod's containers, of those that have ended: exit code, reason and
    message."""
    states = [
        container.get("state") or {} for container in pod.get("status", {}).get("containerStatuses") or ()
    ]
    return [state["terminated"] for state in states if state.get("terminated")]


def said_at_end(message: str) -> Object:
    """A termination message that is a JSON document; {} for any other."""
    try:
        return from_json(message, Object) if message.lstrip().startswith("{") else {}
    except DecodeError:
        return {}


def is_going(pod: Object) -> bool:
    """Whether its deletion was asked for."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def lingers(pod: Object) -> bool:
    """Whether it is to stay for a while yet, though perhaps somebody has asked for its deletion."""
    return not is_going(pod) or int(pod["metadata"].get("deletionGracePeriodSeconds") or 0) > AT_ONCE


def waits_for_condition(pod: Object) -> bool:
    """Whether it would be ready if it were said that its worker is connected."""
    gates = [gate.get("conditionType") for gate in pod.get("spec", {}).get("readinessGates") or ()]
    return CONNECTED in gates and not was_connected(pod)


def answers(pod: Object) -> bool:
    """Whether clients are led to its worker."""
    return ANSWERS in (pod["metadata"].get("labels") or {})


def was_connected(pod: Object) -> bool:
    """Whether that was said once."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each.get("type") == CONNECTED and each.get("status") == "True" for each in conditions)


def node_of(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")
