"""The operator's memory of a job beside its status: nothing that may not be lost.

Does not: outlive the process.
"""

from dataclasses import dataclass, field

from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.jobs.actions import Reach
from flamestream_operator.jobs.observed import Operation, Refusal
from flamestream_operator.jobs.spec import Specs
from flamestream_operator.objects.meta import Object


@dataclass(slots=True)
class Memory:
    """All that is remembered of one life of one job."""

    uid: str
    specs: Specs = field(default_factory=Specs)
    upgrading: JobToCoordinate | None = None
    """The application that its coordinator was told to go on with."""
    token_run: int = -1
    """Which run's token is known."""
    token: str = ""
    keys: tuple[str, str] = ("", "")
    """Access key and secret key of its store."""
    secrets_problem: str = ""
    app: Object | None = None
    """The application's ConfigMap."""
    app_digest: str = ""
    app_name: str = ""
    app_problem: str = ""
    read_again: dict[str, float] = field(default_factory=dict)
    """When what was not there may be looked for again."""
    leave: Leave | None = None
    """The leave of the job of another cluster that it is to go on with."""
    given: Leave | None = None
    """Its own leave, as it was given last."""
    asked: bool = False
    """Whether a job of another cluster has asked it to end."""
    absent: set[str] = field(default_factory=set)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    reached: Reach | None = None
    """How clients were let in last."""
    ensured: dict[str, Object] = field(default_factory=dict)
    """Objects by which clients reach it, by kind and name, as they were made or mended last."""
    retired: set[str] = field(default_factory=set)
    away: dict[str, float] = field(default_factory=dict)
    """Addresses of worker pods that are not connected, and when that was first seen."""
    hosted: JobToCoordinate | None = None
    """The job as its coordinator was told of it last."""
    hosted_since: float = 0.0
    hosted_run: int = -1
    """The run that this process coordinates: what is heard of another one is old."""
    last_write: float = 0.0
    epoch: int = -1
    epoch_since: float = 0.0
    """A stamp: when the committed epoch became what it is, as seen from here."""
    epoch_instant: float = 0.0
    recoveries: tuple[int, int] = (0, 0)
    """When the coordinator began whose word was heard last, and how many of its recoveries are counted."""
    replays: tuple[int, int] = (0, 0)
    """The same of the last recovery whose replay is timed."""
    suspended: str = ""
    """The run that was told to drain."""
