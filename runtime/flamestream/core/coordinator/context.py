"""The coordinator's context: what its parts share, and the few things that all of them do.

The parts are the record keeper, the membership, the epochs, healing and the endings; each changes only its
own things, and says what it wants done through the instructions.

Does not: decide anything.
"""

from collections.abc import Iterable

from flamestream.core.coordinator.coordination import Finish, Settings
from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.coordinator.instructions import Instructions
from flamestream.core.coordinator.membership import Membership
from flamestream.core.coordinator.record_keeper import RecordKeeper
from flamestream.core.coordinator.snapshot_index import CommittedSnapshot
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Progress, Stop, Warm
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.ids import WorkerId
from flamestream.model.time import START, FrontId, Time


class Context:
    """The common ground of all parts of one coordinator."""

    def __init__(self, settings: Settings, secret: str, nonce: str) -> None:
        self.settings, self.secret, self.nonce = settings, secret, nonce
        self.instructions = Instructions()
        self.time = Deadlines(settings.heartbeat_us // 2)
        self.keeper = RecordKeeper(self.instructions, self.time, settings.retry_us)
        self.members = Membership()
        self.members.code = settings.code
        self.committed = CommittedSnapshot(self.instructions, self.time, lambda: self.settings)
        self.running = False
        """Whether the workers of the record's layout run under its fence, as far as is known."""
        self.idle = False
        """Whether nothing was in flight at the newest report of this attempt's acker, which may be lost
        since."""
        self._workers_of: JobRecord | None = None
        """The record that `_workers` was read from."""
        self._workers: tuple[WorkerId, ...] = ()
        self.finished = False
        self.deaths = 0
        """How often workers were lost, or could not go on."""
        self.wanted = settings.workers
        """How many workers should take part, as far as there are slots for them."""
        self.minimal: Time = START
        """The greatest minimal time that any worker has reported."""
        self.reached: dict[FrontId, FrontPosition] = {}
        """How far fronts have come, by the newest reports, where the next attempt skips that
        (`at-most-once`). Of attempts of this coordinator alone: behind another's it has ended."""

    @property
    def record(self) -> JobRecord:
        """The job record, where there must be one."""
        assert self.keeper.record is not None, "there is no job record yet"
        return self.keeper.record

    @property
    def workers(self) -> tuple[WorkerId, ...]:
        """The workers of the layout; none before the first attempt."""
        record = self.keeper.record
        # A step asks a dozen times; a record is never changed, only exchanged.
        if record is not self._workers_of:
            self._workers_of, self._workers = record, record.layout.workers if record else ()
        return self._workers

    @property
    def errors(self) -> int:
        """Error items that this attempt's workers have released, by their newest reports."""
        return sum(report.errors for report in self.members.progress(self.workers) if report is not None)

    @property
    def acker_progress(self) -> Progress | None:
        """The newest report of the acker's worker under the current fence."""
        return self.members.progress([self.record.layout.acker])[0]

    def warm(self, standbys: Iterable[WorkerId] | None = None) -> None:
        """Tell workers without slots (None: all) what is committed, so that a takeover finds it at hand."""
        if self.committed.index is not None:
            told = self.members.standbys(self.workers) if standbys is None else standbys
            self.instructions.tell(told, Warm(self.record.fence, self.committed.index.of_states))

    def stop_all(self, reason: str, finish: Finish) -> None:
        """End the workers, then this coordinator."""
        self.instructions.tell(self.members.connected, Stop(reason))
        self.finish(finish)

    def finish(self, finish: Finish) -> None:
        """End this coordinator; the workers are somebody else's."""
        self.instructions.add(finish)
        self.finished = True
