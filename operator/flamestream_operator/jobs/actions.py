"""What the core wants done. The shell carries actions out in order and stops at the first that fails.

Every action may be carried out twice, or by an operator that has just lost its Lease: its key or its object's name makes the second
time nothing, and the coordinator's record fences what is left.

Does not: say when (effects.py).
"""

from dataclasses import dataclass, field
from typing import Any

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.objects.meta import Object


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Compare-and-set against the version that was seen."""

    status: JobResourceStatus


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add ours, or take it away."""

    there: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """An Event about the job."""

    kind: str
    """Normal or Warning."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReadSecrets:
    """Token and credentials of the current run; makes the token if `create`."""

    token: Object
    """The Secret as it would be made; the shell puts the token in."""
    create: bool
    credentials: str
    """Name of the Secret with the store's keys; "": none."""


@dataclass(frozen=True, slots=True)
class ReadApplication:
    """The application's ConfigMap, to be copied and told apart."""

    name: str


@dataclass(frozen=True, slots=True)
class LookFor:
    """Is this pod really not there? A fresh read."""

    pod: str


@dataclass(frozen=True, slots=True)
class Ensure:
    """Create the object; one of the same owner that is there already is made like it if it can change."""

    thing: Object
    key: str
    """Under which a refusal is reported."""


@dataclass(frozen=True, slots=True)
class EnsureCopy:
    """Copy the application's ConfigMap under a name that tells its content; one that is there is fine."""

    config_map: str
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Try:
    """A dry run: what the API server would say."""

    thing: Object
    key: str


@dataclass(frozen=True, slots=True)
class Create:
    """Create the object. One of the same name and owner is fine; with `once` it means an interrupted try, which is given up."""

    thing: Object
    key: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """`fail` first says in its status that it has failed, so that whoever watches it notices at once."""

    name: str
    uid: str
    grace: int | None = None
    fail: bool = False


@dataclass(frozen=True, slots=True)
class MarkReady:
    """The worker in this pod is connected: from now on the disruption budget counts it."""

    pod: Object


@dataclass(frozen=True, slots=True)
class DeleteSnapshot:
    """Its own reconciler removes what it stands for."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Its time is over."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Start its coordinator, or change its settings."""

    job: JobToCoordinate
    """Without token and keys, which the shell adds."""
    run: int
    """The run whose token it is."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Drain to an epoch."""


@dataclass(frozen=True, slots=True)
class End:
    """Stop all workers now."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """Coordinate it no more."""


@dataclass(frozen=True, slots=True)
class Retire:
    """Hand the slots of the workers at these IPs over, of all at once: each step of its own would be a recovery."""

    ips: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """The same of these, whose own stop is only expected."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod at this IP is dead."""

    ip: str


@dataclass(frozen=True, slots=True)
class Begin:
    """A long operation, once per key."""

    key: str
    what: str
    """restore or forget."""
    arguments: dict[str, Any] = field(default_factory=dict)


Action = (
    WriteStatus | SetFinalizer | Tell | ReadSecrets | ReadApplication | LookFor | Ensure | EnsureCopy | Try | Create | DeletePod | MarkReady
    | DeleteSnapshot | DeleteJob | Coordinate | Suspend | End | Abandon | Retire | Gone | Begin
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions in their order, and when to look again if nothing happens."""

    actions: list[Action]
    look_again: float | None = None
    """Seconds."""
