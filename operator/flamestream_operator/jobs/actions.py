"""The actions of a job's core. The shell carries them out in order and stops at the first that fails.

Every action may be carried out twice, or by an operator that has just lost its Lease: its key or its object's
name makes the second time nothing, and the coordinator's record fences what is left.

Does not: say when (effects.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.objects.meta import Object


class Action(Struct, frozen=True):
    """Something for the shell to do."""


class WriteStatus(Action, frozen=True):
    """Compare-and-set against the version that was seen."""

    status: JobResourceStatus


class SetFinalizer(Action, frozen=True):
    """Add ours, or take it away."""

    there: bool


class Tell(Action, frozen=True):
    """An Event about the job."""

    kind: str
    """Normal or Warning."""
    reason: str
    message: str


class ReadSecrets(Action, frozen=True):
    """Token and credentials of the current run; makes the token if `create`."""

    token: Object
    """The Secret as it would be made; the shell puts the token in."""
    create: bool
    credentials: str
    """Name of the Secret with the store's keys; "": none."""


class ReadApplication(Action, frozen=True):
    """The application's ConfigMap, to be copied and told apart."""

    name: str


class ReadLeave(Action, frozen=True):
    """The leave that a job of another cluster has given, beside its record."""

    job: str
    """Its identity."""


class GiveLeave(Action, frozen=True):
    """Say beside the job's record which job of another cluster may take it over, and end it there once that asks."""

    job: str
    """The job's identity."""
    leave: Leave | None


class LookFor(Action, frozen=True):
    """Is this pod really not there? A fresh read."""

    pod: str


class Ensure(Action, frozen=True):
    """Create the object; one of the same owner that is there already is made like it if it can change."""

    thing: Object
    key: str
    """Under which a refusal is reported."""


class EnsureCopy(Action, frozen=True):
    """Copy the application's ConfigMap under a name that tells its content; one that is there is fine."""

    config_map: str
    name: str
    key: str


class Try(Action, frozen=True):
    """A dry run: what the API server would say."""

    thing: Object
    key: str


class Create(Action, frozen=True):
    """Create the object. One of the same name and owner is fine; with `once` it means an interrupted try,
    which is given up."""

    thing: Object
    key: str
    once: bool = False


class Draw(Action, frozen=True):
    """Create a Secret, each of whose values is drawn by chance; one of the same name and owner stays as it is."""

    thing: Object
    key: str


class Reach(Action, frozen=True):
    """Make the objects by which clients reach the job like these: once for each of their forms, and once more behind
    each launch, which makes them as it needs them and may be given up."""

    things: tuple[Object, ...]
    left_over: str
    """Name of the job's Service that is deleted if it is there; "": none."""
    launch: int
    """The newest launch that was seen."""
    key: str = "aside/reach"


class DeletePod(Action, frozen=True):
    """`fail` first says in its status that it has failed, so that whoever watches it notices at once."""

    name: str
    grace: int | None = None
    fail: bool = False


class MarkReady(Action, frozen=True):
    """The worker in this pod is connected: from now on the disruption budget counts it."""

    pod: Object


class MarkAnswers(Action, frozen=True):
    """The worker in this pod takes part, so clients are led to it; or not any more."""

    pod: str
    answers: bool


class DeleteSnapshot(Action, frozen=True):
    """Delete a FlameStreamSnapshot, whose own reconciler removes what it stands for."""

    name: str


class DeleteJob(Action, frozen=True):
    """Delete the job, whose time to live is over."""


class Coordinate(Action, frozen=True):
    """Start its coordinator, or change its settings."""

    job: JobToCoordinate
    """Without token and keys, which the shell adds."""
    run: int
    """The run whose token it is."""


class Upgrade(Action, frozen=True):
    """Have the coordinator go on with another application, or with none but that which runs."""

    job: JobToCoordinate | None
    """Without token and keys."""


class Suspend(Action, frozen=True):
    """Drain to an epoch."""


class End(Action, frozen=True):
    """Stop all workers now."""


class Abandon(Action, frozen=True):
    """Coordinate it no more."""


class Retire(Action, frozen=True):
    """Hand the slots of the workers at these IPs over, of all at once: each step of its own would be a
    recovery."""

    ips: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """The same of these, whose own stop is only expected."""


class Gone(Action, frozen=True):
    """The pod at this IP is dead."""

    ip: str


class Begin(Action, frozen=True):
    """A long operation, once per key."""

    key: str
    what: Literal["restore", "take over", "forget"]
    settings: JobToCoordinate
    """Without token and keys, which the shell adds."""
    snapshot: str = ""
    """Name of the FlameStreamSnapshot to restore."""
    other: str = ""
    """NAMESPACE.NAME of the job to be taken over."""
    elsewhere: bool = False
    """It is in another cluster."""
    begins_anew: bool = False
    """The job that is forgotten goes on: its attempts are kept, as its sinks refuse older ones."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions in their order, and when to look again if nothing happens."""

    actions: Sequence[Action]
    look_again: float | None = None
    """Seconds."""
