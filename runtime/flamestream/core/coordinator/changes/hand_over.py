"""The hand-over: another job goes on from a running stream at one cut, with its sources, its sinks and its state.

As at a tick (upgrade.py) an epoch holds minimal time at its cut, so nothing above has left. Its commit says in
the same write that this job has ended, and who goes on: whoever begins with that record, under any cluster
state, makes all of it.

Keeps: behind that write nobody acts for this job. Does not: begin the other one (cli/changes/take_over.py, the
operator).
"""

import msgspec

from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import Finish
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.protocol.job_record import JobRecord, handed_over
from flamestream.core.protocol.snapshot import SnapshotIndex


class HandOver:
    """The hand-over that is asked for, if one is."""

    pauses = False  # what enters meanwhile is the other job's

    def __init__(self, context: Context, epochs: Epochs) -> None:
        self._to = ""
        self._made = False
        self._context, self._epochs = context, epochs

    def ask(self, to: str) -> None:
        """End the job where the one called `to` goes on; "": go on as ever, unless it is being written."""
        self._to = to
        if not to and self._epochs.is_turning(self) and not self._epochs.is_committing:
            self._epochs.abort("the hand-over was called off")

    def go_on(self) -> None:
        """Take the next step: the stream runs, and nothing is wrong."""
        context = self._context
        if not self._to:
            return
        if context.settings.durable:
            self._epochs.turn(self)
        elif context.keeper.idle:
            context.keeper.write(self.turned(context.record), self.made)

    def finished(self) -> bool:
        """Whether it is made: then everybody is told."""
        if self._made:
            why = self._context.record.outcome
            self._context.stop_all(why, Finish("handed over", message=why))
        return self._made

    # --- of its epoch (epochs.Turn) -------------------------------------------------------------------------

    def turned(self, record: JobRecord) -> JobRecord:
        """The record that commits the epoch and ends the job."""
        nonce = self._context.nonce
        return msgspec.structs.replace(record, outcome=handed_over(self._to), holder=self._to, writer=nonce)

    def refuses(self, index: SnapshotIndex, record: JobRecord) -> str:
        """Nothing: who goes on has looked at what it takes over before it asked."""
        return ""

    def fitted(self, index: SnapshotIndex) -> SnapshotIndex:
        """The index, with all that it has."""
        return index

    def made(self) -> None:
        """It is in the record."""
        self._made = True
