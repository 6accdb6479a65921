"""FlameStreamSnapshot: a savepoint, kept until it is deleted, restored from by `spec.restoreFrom`."""

from typing import Annotated, Literal

from msgspec import Meta, field

from flamestream.job.manifest_parts import ObjectName, Part
from flamestream_operator.api.conditions import Condition


class SnapshotSpec(Part, frozen=True):
    """A savepoint of a job: a copy of a committed snapshot that no later epoch removes."""

    job: ObjectName
    """Name of the FlameStreamJob in this namespace. It may run or be suspended."""
    deletion_policy: Literal["Keep", "Delete"] = "Delete"
    """Whether the copy in the store goes when this object is deleted."""


class SnapshotStatus(Part, frozen=True):
    """The state of a savepoint, and its place in the store."""

    phase: Literal["Pending", "Taking", "Completed", "Failed", "Deleting"] = "Pending"
    """The state of the savepoint in a word."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    """The state of the savepoint in a sentence, with what to do if that is on you."""
    conditions: Annotated[list[Condition], Meta(max_length=8)] = field(default_factory=list)
    """Ready: it is there to be restored from. Reconciling: it is being taken. Failed, Stalled: it will not be."""
    observed_generation: int = 0
    """The generation that was acted on."""
    job: str = ""
    """Identity of the job: NAMESPACE.NAME."""
    name: str = ""
    """The savepoint's name in the store."""
    epoch: int = 0
    """Number of the committed epoch that was saved."""
    cut: str = ""
    """Its global time."""
    store: str = ""
    """The store that it is in."""
    secret: str = ""
    """The Secret that the store is read with."""
    index: str = ""
    """Name of the object with the snapshot index."""
    index_hash: str = ""
    """SHA-256 of its bytes."""
    graph: str = ""
    """Identity of the graph: what can be restored from it."""
    size: int = 0
    """Bytes."""
    objects: int = 0
    """Objects in the store."""
    time: str = ""
    """When it was complete."""
    tries: int = 0
    """Number of tries."""
