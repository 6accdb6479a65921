"""The coordinator's interface: its events, actions, settings and status.

The shell (the launcher, the operator, or the simulator) turns the outside into events, calls
`Coordinator.step`, and carries out the actions in their order. It keeps three promises:

- one request to the job record is under way at a time (the coordinator asks for no more), and each gets
  exactly one answer;
- a worker's messages come in the order sent, between its WorkerConnected and its WorkerDisconnected; a
  connection that replaces another of the same worker is reported as a disconnect first;
- it calls `step` with Woken at or after the time of the last WakeAt (waking more often is harmless).

Does not: decide anything (coordinator.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Hello, ToCoordinator, ToWorker
from flamestream.core.protocol.snapshot import Inventory, SnapshotIndex
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, WorkerId
from flamestream.model.slot import DEFAULT_SLOTS
from flamestream.model.time import START, Instant, Time

NO_EPOCH = Epoch(0)
"""The number of the committed epoch before there is one."""

BALANCE_US: Final = 300_000_000
"""For so long a worker is too full before slots move, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Microseconds whose mean must be too much to do, and for which it must be too little: a change costs some
    tenths of a second, so a needless worker need not stay for long."""

    up_us: int = 10_000_000
    down_us: int = 30_000_000


USUAL: Final = Pace()

# --- settings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A job's settings for its coordinator. Durations are microseconds."""

    job: str
    graph: str
    """`Graph.identity`: workers must have the same."""
    python: str
    """"3.11": workers and indexes must have the same."""
    code: str = ""
    """Digest of the application's files: workers must have loaded the same. "" asks nobody."""
    code_changed: bool = False
    """The application may be another than that of the attempt before: somebody has said that it is meant to
    be."""
    code_told: bool = False
    """`code` is that which the job runs, as far as is known: where the record has another one, a newer
    coordinator has gone on with that."""
    takes_over_as: str = ""
    """Its own name, where it goes on with what another job has handed over to it; "": with its own alone."""
    inventory: Inventory | None = None
    """Contents of a snapshot of the graph. None: nobody said, and an index must be of the same graph."""
    watch_us: int = 0
    """For so long after an upgrade to these settings the code may not fail, or the job goes back."""
    keep_us: int = 0
    """For so long workers of the code before stay, if not for as long as it is watched."""
    drop: tuple[str, ...] = ()
    """Names of operations that are gone and whose state may go."""
    workers: int
    """Workers that take part as soon as they are there; more are standbys."""
    least_workers: int = 1
    most_workers: int | None = None
    """Between so few and so many take part, `workers` of them at first, by how much there is to do. None:
    always `workers`."""
    standbys: int | None = None
    """Workers without slots that stay while all take part that are wanted; others are told to stop. None: all
    stay."""
    pace: Pace = USUAL
    """For how long there must be too much to do, or too little, before more or fewer workers are wanted."""
    fronts: int
    slots: int = DEFAULT_SLOTS
    interval_us: int | None = 1_000_000
    """The time between announcements of epochs. None: no epochs at all, and every recovery starts empty
    (guarantee `none`)."""
    epoch_timeout_us: int = 60_000_000
    """An epoch that is not accepted by then aborts; a slow consumer may need all of it."""
    heartbeat_us: int = 3_000_000
    """A worker of the layout that is silent for so long is lost."""
    stuck_us: int = 5_000_000
    """An oldest cause that stays in flight for so long means that something was lost."""
    link_pause_us: int = 20_000
    """A broken link between two workers waits for so long: if one of them has died, word of that is on its
    way."""
    grace_us: int = 700_000
    """A lost worker's relaunch is awaited for so long before survivors take its slots."""
    discovery_us: int = 2_000_000
    """A new coordinator waits for so long for the workers of the layout that it finds."""
    settle_us: int = 1_000_000
    """A new coordinator waits no longer than this from the first worker on that came: whoever lives comes
    soon after it."""
    gather_us: int = 30_000_000
    """At a start, `workers` workers are awaited for so long; then those that are there begin."""
    rebalance: bool = True
    """A worker that comes while fewer than `workers` take part is given slots (costs a recovery)."""
    rebalance_pause_us: int = 5_000_000
    """The least time between a recovery and a rebalance."""
    exactly_once: bool = True
    """Consumers remember what they were given: one that does not is an error."""
    two_phase: bool = False
    """Output waits for the commit of its epoch (`exactly-once-2pc`, `at-most-once`): an end waits until none
    is held."""
    warm_us: int = 10_000_000
    """A rebalance waits for so long until the newcomer has the committed snapshot at hand: reading it would
    hold up the stream."""
    balance_us: int | None = BALANCE_US
    """A worker that is a quarter busier than the mean for so long gives slots to others (costs a recovery).
    None: slots stay where they are."""
    retry_us: int = 100_000
    """Pause before the record or an index is asked for again."""
    last_epoch_us: int = 3_000_000
    """A job that fails on user code gets so long for a last epoch."""
    drain_us: int = 60_000_000
    """A drain that takes longer becomes a stop; the next start replays the rest."""
    failures: int = 5
    """Failures of one kind in a row without progress that end the job."""
    calm_us: int = 10_000_000
    """A run of so long with nothing in flight is progress too, though minimal time stands still."""

    @property
    def durable(self) -> bool:
        """Whether there are epochs; without, every recovery starts empty."""
        return self.interval_us is not None

    @property
    def gives_again(self) -> bool:
        """Whether a recovery computes what has left once more; without epochs, or where output waits for them,
        it does not."""
        return self.durable and not self.two_phase


# --- events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordRead:
    """The job record and its version; both None before the first attempt."""

    record: JobRecord | None
    version: int | None


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The write has taken effect, as `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class RecordConflict:
    """The version was not the expected one: nothing was written."""


@dataclass(frozen=True, slots=True)
class RecordUnknown:
    """A read got no answer, or it is unknown whether a write took effect."""

    message: str


@dataclass(frozen=True, slots=True)
class IndexWritten:
    """The index is durable. `hash` is the hex SHA-256 of its bytes, which ReadIndex will be asked
    with."""

    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class IndexFailed:
    """The store is away, full or read-only: the epoch aborts, the stream goes on."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexLoaded:
    """The index asked for: its bytes have the hash, and decode."""

    name: str
    index: SnapshotIndex


@dataclass(frozen=True, slots=True)
class IndexBroken:
    """The index cannot be had. `category` is retryable (the store is away) or corrupt (missing, damaged,
    not an index)."""

    name: str
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class WorkerConnected:
    """A worker has said Hello on a new connection."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class WorkerDisconnected:
    """A worker's connection has ended, or another has taken its place."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class FromWorker:
    """A message of a worker; any but Hello, which is WorkerConnected."""

    worker: WorkerId
    message: ToCoordinator


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Spark or Kubernetes says that a worker's process has ended."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Requested:
    """The job is to end: `drain` at an epoch with nothing left in flight, `stop` at once; a second start
    resumes in both cases."""

    what: Literal["stop", "drain"]


@dataclass(frozen=True, slots=True)
class UpgradeRequested:
    """The job is to go on with another application, under these settings, whose workers connect beside those
    that run; None: it is to stay with the one that it has."""

    settings: Settings | None


@dataclass(frozen=True, slots=True)
class UpgradeInherited:
    """The code that runs has taken over under another coordinator, from the code of these settings, whose workers are
    kept: it is still to be watched."""

    before: Settings


@dataclass(frozen=True, slots=True)
class HandOverRequested:
    """The job is to end at a cut from which the job called `to` goes on; "": it is to go on as ever."""

    to: str


@dataclass(frozen=True, slots=True)
class Woken:
    """Time has passed, or something may have changed."""


Event = (
    RecordRead
    | RecordWritten
    | RecordConflict
    | RecordUnknown
    | IndexWritten
    | IndexFailed
    | IndexLoaded
    | IndexBroken
    | WorkerConnected
    | WorkerDisconnected
    | FromWorker
    | WorkerGone
    | Requested
    | UpgradeRequested
    | UpgradeInherited
    | HandOverRequested
    | Woken
)

# --- status -------------------------------------------------------------------------------------------------


Phase = Literal["starting", "gathering", "recovering", "waiting", "running", "ending", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The coordinator's part of `flamestream status`. Live figures (items, minimal time) are in the workers'
    Progress."""

    phase: Phase
    attempt: Attempt = NO_FENCE.attempt
    epoch: Epoch = NO_EPOCH
    """The committed epoch."""
    cut: Time = START
    workers: tuple[WorkerId, ...] = ()
    """Workers of the layout that are connected."""
    standbys: tuple[WorkerId, ...] = ()
    recoveries: int = 0
    """Recoveries that this coordinator has begun."""
    cause: str = ""
    """The reason why the last recovery began."""
    duration_us: int = 0
    """The time from the last recovery's cause to its Replay; 0 while it is under way."""
    replayed_from: Time = START
    """The cut that the last Replay began at; it stays while the next recovery is under way."""
    kind: str = ""
    """The kind of that cause, in a word."""
    steps: tuple[tuple[str, int], ...] = ()
    """Microseconds of each of that recovery's steps so far. The last one, its replay, is not in its duration."""
    wanted: int = 0
    """How many workers should take part; 0: not known yet."""
    snapshot_size: int = 0
    """Bytes of the committed snapshot; 0 if it is not known here."""
    code: str = ""
    """Digest of the application that the newest attempt runs."""
    successors: tuple[WorkerId, ...] = ()
    """Connected workers of the application that an upgrade goes to."""
    refusal: str = ""
    """The reason why the job does not go on with the application that was asked for last, or has not stayed
    with it."""
    refused: str = ""
    """Digest of that application."""
    before: str = ""
    """Digest of the application that it has gone on from, as long as that one's workers are kept; "": none."""
    watched: bool = False
    """Whether what it goes on with is watched, and taken back if it fails."""
    problems: tuple[str, ...] = ()


# --- actions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the job record. Answer: RecordRead or RecordUnknown."""


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write the job record by compare-and-set (`version` None: create). Answer: RecordWritten, RecordConflict
    or RecordUnknown."""

    record: JobRecord
    version: int | None


@dataclass(frozen=True, slots=True)
class WriteIndex:
    """Create the object, never overwrite; after a doubt read back and compare. Answer: IndexWritten or
    IndexFailed."""

    name: str
    index: SnapshotIndex


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """Read the object and check its hash. Answer: IndexLoaded or IndexBroken."""

    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    """Delete objects that nothing refers to any more. Best effort, in the background; no answer."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a connected worker; it is dropped if the connection is gone."""

    worker: WorkerId
    message: ToWorker


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close a worker's connection. A WorkerDisconnected may follow or not; it counts as gone from now on."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call step with Woken at or after `time` (and not later than necessary). Replaces the earlier one."""

    time: Instant


@dataclass(frozen=True, slots=True)
class Report:
    """The status has changed."""

    status: Status


@dataclass(frozen=True, slots=True)
class Finish:
    """The last action of a coordinator. `category` (of model.errors) is "" for a normal end.

    After `fenced` (another coordinator has written the record) the shell starts a new one if it is still the
    one in charge.
    """

    outcome: Literal["completed", "drained", "stopped", "handed over", "failed", "fenced"]
    category: str = ""
    message: str = ""


Action = (
    ReadRecord
    | WriteRecord
    | WriteIndex
    | ReadIndex
    | DeleteObjects
    | Tell
    | Disconnect
    | WakeAt
    | Report
    | Finish
)
