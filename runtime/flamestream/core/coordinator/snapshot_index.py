"""The committed index, as the coordinator knows it: read by the name in the job record, never found by
listing, and checked.

Keeps: a restore begins from the index that the record names, made by this job's graph; a missing, damaged
or foreign one is an error that names it, never an empty state (invariant 4). Does not: read bytes or check
hashes (the shell, with the hash in the record), or load segments (the workers).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from flamestream.core.coordinator.coordination import IndexBroken, IndexLoaded, ReadIndex, Settings
from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.coordinator.instructions import Instructions
from flamestream.core.protocol.inventory import misfit, other_fronts
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import Instant

BEGIN_ANEW: Final = (
    "or begin anew: `flamestream reset` removes what a job of one machine has left, upgrade.strategy: Fresh "
    "drops a cluster's"
)


class CommittedSnapshot:
    """The committed index, and the way to have it again."""

    def __init__(
        self, instructions: Instructions, deadlines: Deadlines, settings: Callable[[], Settings]
    ) -> None:
        """`settings`: those of now, which an upgrade changes."""
        self.index: SnapshotIndex | None = None
        self.size = 0
        """Bytes of the index's segments."""
        self.problem = ""
        self.corrupt = False
        """Whether this attempt was told that the index is missing or damaged; a new attempt asks again."""
        self._instructions, self._deadlines, self._of_now = instructions, deadlines, settings
        self.name = ""
        self._asked = ""
        self._again: Instant | None = None

    @property
    def _settings(self) -> Settings:
        return self._of_now()

    def known(self, record: JobRecord) -> bool:
        """Whether `index` is the record's (None if it names none); if not, it is asked for."""
        if not record.index or not self._settings.durable:
            self.index, self.name = None, ""
            return True
        if record.index == self.name:  # by name: an index never changes
            return True
        self._ask(record)
        return False

    def learn(self, name: str, index: SnapshotIndex) -> None:
        """The index `name` was read, or has just been committed."""
        if not self._settings.exactly_once:
            index = msgspec.structs.replace(index, outputs=())  # no consumer has to remember anything
        if (ours := self._settings.inventory) is not None:
            # of a sink that is no more nobody can say what it has
            outputs = tuple(output for output in index.outputs if output.sink in ours.sinks)
            index = msgspec.structs.replace(index, outputs=outputs)
        self.index, self.name = index, name
        self.size = sum(segment.size for segment in index.segments)
        self.problem = ""

    def hear(self, event: IndexLoaded | IndexBroken) -> bool:
        """Take the answer to ReadIndex; False if it is to an older question."""
        if event.name != self._asked:
            return False
        self._asked = ""
        if isinstance(event, IndexLoaded):
            self.learn(event.name, event.index)
        else:
            self.problem, self.corrupt = (
                f"index {event.name}: {event.message}",
                event.category != "retryable",
            )
            self._again = Instant(self._deadlines.now + self._settings.retry_us)
        return True

    def raise_if_corrupt(self) -> None:
        """Raises Corrupt if the index is lost, without which no recovery can go on."""
        if self.corrupt:
            raise Corrupt(
                f"{self.problem}: the last snapshot of job {self._settings.job!r} is lost; restore the "
                "object and start again"
            )

    def check(self, record: JobRecord) -> None:
        """Raises Corrupt or UserError if the known index, or what has left before there is one, is not what this
        job can start from."""
        if self.index is not None:
            check_index(self.index, record, self._settings)
        elif self._settings.gives_again:
            check_start(record, self._settings)

    def _ask(self, record: JobRecord) -> None:
        if self._asked == record.index or (self._again is not None and not self._deadlines.due(self._again)):
            return
        self._asked, self._again = record.index, None
        self._instructions.add(ReadIndex(record.index, record.index_hash))


def check_start(record: JobRecord, settings: Settings) -> None:
    """Raises UserError if a job that has no snapshot yet would read what has left otherwise."""
    if reason := other_fronts(record.fronts, settings.inventory):
        raise UserError(
            f"the graph cannot go on with what has left before the first snapshot: {reason}; {BEGIN_ANEW}"
        )


def check_index(index: SnapshotIndex, record: JobRecord, settings: Settings) -> None:
    """Raises Corrupt or UserError if a job with these settings cannot start from the record's index."""
    name = record.index
    if (index.epoch, index.cut) != (record.committed, record.cut):
        raise Corrupt(
            f"index {name} is of epoch {index.epoch} at cut {index.cut}, but the job record has "
            f"epoch {record.committed} at"
            f" {record.cut}: store and cluster state do not belong together; "
            "restore both from the same moment"
        )
    if index.held and not settings.two_phase:
        raise UserError(holds_output(name))
    for what, theirs, ours in (
        ("job", index.job, settings.job),
        ("number of slots", index.slots, settings.slots),
        ("Python", index.python, settings.python),
    ):
        if theirs != ours:
            raise UserError(
                f"index {name} was written by another {what}: it has {theirs!r}, this job has {ours!r}. "
                f"Start with the {what} of the snapshot; {BEGIN_ANEW}"
            )
    if index.inventory is not None and not record.fronts:
        # A record without names was written by who knows none: numbers go by the graph's order.
        index = msgspec.structs.replace(index, inventory=msgspec.structs.replace(index.inventory, fronts=()))
    if reason := misfit(index, settings.graph, settings.inventory, settings.drop):
        raise UserError(f"the graph cannot go on from index {name} (epoch {index.epoch}): {reason}")


def holds_output(name: str) -> str:
    """The reason why another guarantee cannot go on from this index."""
    return (
        f"index {name} holds output that exactly-once-2pc (or at-most-once) has not delivered yet: start the "
        "job with that guarantee once more, stop it with a drain (which delivers everything), and change the "
        "guarantee then"
    )
