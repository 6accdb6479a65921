"""A job's state, as its coordinator reports it: what `flamestream status` shows, and what the operator
decides by.

Does not: write a file (node/status_file.py).
"""

import msgspec

from flamestream.model.ids import SourceName


class OperationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a vertex of the graph, of all workers together. An item that is taken back counts as one more."""

    operation: str
    """Its place in the graph, and what it is."""
    items_in: int = 0
    """Items that came along the edges to it, since the workers of now began."""
    items_out: int = 0
    """Items that it has led on: so many along each edge out of it."""
    in_rate: float = 0.0
    """A second, in the last two."""
    out_rate: float = 0.0
    busy: float = 0.0
    """The time that it takes a second, in seconds, with all that stands behind it up to the next door; told by
    samples."""
    item_us: float | None = None
    """The same for an item, in microseconds; None: there was none in the last two seconds."""
    keys: int = 0
    """Keys that its state has."""
    state_bytes: int = 0
    """Bytes of its state as snapshots have it."""


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a worker, from its last heartbeat."""

    worker: str
    connected: bool
    items_in: int = 0
    items_out: int = 0
    minimal: int = 0
    """Microseconds."""
    settled: int = 0
    problem: str = ""
    runs: int = 0
    bundles: int = 0
    """Acknowledged by consumers."""
    busy: float = 0.0
    """The share of the last two seconds in which its loop did not wait."""
    in_flight: int = 0
    """Items whose results are not all acknowledged."""
    waiting: dict[SourceName, int] = {}
    """Requests that have no answer yet, by call."""
    memory: int = 0
    """Bytes of its process."""
    replayed: int = 0
    """Items of journalled runs that entered once more in a recovery."""
    invalidated: int = 0
    """Results that were taken back before their release."""
    late: dict[SourceName, int] = {}
    """Items of each source that came too late for something here."""
    skipped: dict[SourceName, int] = {}
    """Records of fronts here that recoveries have skipped, since the job began, by source
    (`at-most-once`)."""
    latencies: list[int] = []
    """Calls by how long it took from a record's entry to the acknowledgment, by
    core.protocol.latency.BOUNDS. All counts are since it began."""
    latencies_us: int = 0
    """The same, summed up."""
    releases: list[int] = []
    """Runs by how long it took to the release of their results."""
    releases_us: int = 0
    transactions: int = 0
    """Those whose outcome is final; what a recovery decides again counts again."""
    decisions: int = 0
    """The same, and once more for each time that one was decided again."""
    aborted: int = 0
    deciding_waits: bool = False
    """Whether transactions wait here now until nothing can come below them, for guesses were wrong too often."""
    slots: int = 0
    """Slots of the layout that are this worker's."""
    contended: list[tuple[str, int]] = []
    """The rows whose changes had most transactions looked at again, the most first: how many."""
    spans: int = 0
    """Spans of traces that the collector has taken from it."""
    spans_dropped: int = 0
    """Spans that the collector did not get."""
    operations: list[tuple[str, int, int]] = []
    """Each vertex of the graph, with the items that came to it here and those that it has led on."""


class LastRecovery(msgspec.Struct, frozen=True, kw_only=True):
    cause: str
    duration_ms: float
    """Milliseconds from its cause to the replay; 0 while it is under way."""
    kind: str = ""
    """The cause in a word: start, lost, link, worker, stuck, drained, joined, moved or tick."""
    attempt: int = 0
    """The attempt that it began."""
    replayed_from: int = 0
    """The cut that its replay began at: a global time."""
    steps_ms: dict[str, float] = {}
    """Milliseconds of each step: decide, record, open, seal; and, once that is through, replay, which the duration
    does not hold."""
    ended: int = 0
    """Microseconds since 1970: when the job ran again; 0: not yet, or another coordinator saw it."""


class LatencyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of the last minute in milliseconds, from a run's stamp to its release or to its consumer's
    acknowledgment."""

    p50_ms: float = 0
    p99_ms: float = 0
    calls: int = 0
    """To consumers, so many in the last minute; of `release`: runs."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All of the file."""

    job: str
    pid: int
    """The coordinator's process."""
    began: int = 0
    """Microseconds since 1970: when this coordinator was made. What it counts it counts from then on."""
    updated: int
    """Microseconds since 1970."""
    phase: str
    graph: str = ""
    """Identity of the graph."""
    code: str = ""
    """Digest of the application."""
    successors: list[str] = []
    """Connected workers of the application that an upgrade goes to."""
    refusal: str = ""
    """The reason why the job does not go on with the application that was asked for last, or has not stayed
    with it."""
    refused: str = ""
    """Digest of that application."""
    before: str = ""
    """Digest of the application that it has gone on from, as long as that one's workers are kept; "": none."""
    watched: bool = False
    """Whether the application that it goes on with is watched, and taken back if it fails."""
    attempt: int = 0
    layout: int = 0
    epoch: int = 0
    """The committed one."""
    cut: int = 0
    """Its global time."""
    cut_time: int = 0
    """The same in microseconds."""
    unsaved_since: int = 0
    """Microseconds since 1970: when something happened that no epoch has saved yet; 0: an idle stream,
    everything is saved."""
    workers: list[WorkerFigures] = []
    operations: list[OperationFigures] = []
    """The vertices of the graph, in its order: the first 256."""
    standbys: list[str] = []
    warm: list[str] = []
    """Those of the standbys that have the committed snapshot at hand, so that a takeover need not read it."""
    wanted: int = 0
    """How many workers should take part; 0: not known yet."""
    items_in: int = 0
    """Items of all workers that this coordinator has heard of, also of those that are gone; what a recovery
    reads again counts once."""
    items_out: int = 0
    """The same of results; what is computed again counts again."""
    event_times: dict[SourceName, int | None] = {}
    """Microseconds that each source with event time has come to, the last of its fronts; None: one has told
    nothing yet."""
    idle: dict[SourceName, int] = {}
    """Partitions of each source with event time that are idle, so that nobody waits for them."""
    late: dict[SourceName, int] = {}
    """Items of each source that came too late for a window, a join or what else knows event time, once for
    each: of all workers that this coordinator has heard of."""
    skipped: dict[SourceName, int] = {}
    """Records of each source that recoveries have skipped, since the job began (`at-most-once`: also where
    there are none)."""
    recoveries: int = 0
    last_recovery: LastRecovery | None = None
    snapshot_size: int = 0
    """Bytes of the committed snapshot."""
    latency: LatencyFigures | None = None
    """To acknowledgments, by calls. None: no journalled source has given a result yet."""
    release: LatencyFigures | None = None
    """To releases, by runs: without the consumer's share."""
    snapshot_ms: float = 0
    """Milliseconds from the announcement of the last committed epoch to its commit."""
    snapshots: int = 0
    """Epochs that this coordinator announced and committed."""
    snapshots_ms: float = 0
    """Milliseconds that all these took, summed up."""
    first_output: int = 0
    last_output: int = 0
    """Microseconds since 1970: when a consumer acknowledged something first and last, as far as it was
    reported to this coordinator."""
    gaps: list[tuple[int, int]] = []
    """(end, length) in microseconds of the longest stretches without an acknowledgment: the first that ended
    after a moment is the longest since."""
    problems: list[str] = []
    dropped_connections: int = 0
    """On the coordinator's port: that did not prove the job's token, or did not keep to the protocol."""
    outcome: str = ""
    """When finished: completed, drained, stopped, failed or fenced."""
    category: str = ""
    message: str = ""

    @property
    def deciding(self) -> WorkerFigures | None:
        """The worker that decides transactions; None: there were none yet."""
        return max(
            (worker for worker in self.workers if worker.transactions),
            key=lambda worker: worker.transactions, default=None,
        )  # fmt: skip

    @property
    def waiting(self) -> dict[SourceName, int]:
        """Requests that have no answer yet, by call: of all workers, also where there are none."""
        calls = {call for worker in self.workers for call in worker.waiting}
        return {call: sum(worker.waiting.get(call, 0) for worker in self.workers) for call in sorted(calls)}
