"""The upgrade: other code takes over a running stream at one cut, a tick.

    asked      its workers connect beside those that run, and fetch the committed snapshot
    closing    they are there: one more epoch, so that what is left to save is small
    turning    an epoch whose cut holds minimal time: nothing above is released, so all of it is the new
               code's; its commit is the new code's attempt, by one write
    made       the workers before are told to stop; the new ones recover, and replay from the cut

Until that write the stream runs on as ever, and giving it up costs nothing.

Keeps: a result is made by one code, whatever dies in between; who has loaded other code takes part in nothing
before. Does not: start workers (the launcher, the operator), or say whether the code is any good.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from flamestream.core.coordinator import coordination as co
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.healing import Healing
from flamestream.core.coordinator.snapshot_index import check_index
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Hello, Stop
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch, WorkerId
from flamestream.model.time import Instant

MOST_ASKED: Final = 16
TURNED: Final = "the job goes on with other code"
Differs = Callable[[Hello, co.Settings], str]


class Upgrade:
    """The change of code that is asked for, if one is."""

    def __init__(self, context: Context, epochs: Epochs, healing: Healing, differs: Differs) -> None:
        """`differs` says why a worker does not fit settings; "" if it does."""
        self.refusal = ""
        """The reason why the last one that was asked for is not made."""
        self._asked: dict[str, co.Settings] = {}
        """Those that were asked for, by their code: another coordinator may have made the tick to any."""
        self._wanted: co.Settings | None = None
        self._before: co.Settings | None = None
        self._chosen: list[WorkerId] = []
        self._later: list[co.Settings | None] = []
        """The newest word, as long as it is not known what the record says."""
        self._closing: Epoch | None = None
        """The epoch that was committed when its workers were there, or its last try began: a later one leaves
        little to save."""
        self._since = Instant(0)
        self._context, self._epochs, self._healing, self._differs = context, epochs, healing, differs

    def ask(self, wanted: co.Settings | None) -> None:
        """Go on with another application; None: with none but that which runs. The last word counts, until the
        tick is made."""
        if wanted is not None:
            self._asked.pop(wanted.code, None)
            self._asked[wanted.code] = wanted
            while len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
        # What runs now is not known before the record is, nor while it is being written.
        self._later = [wanted]
        if self._context.keeper.record is not None:
            self.heed(self._context.record)

    def heed(self, record: JobRecord) -> None:
        """Another coordinator may have made the tick, and died; then what was asked for meanwhile."""
        if self._turning() and self._epochs.is_committing:
            return
        if record.code in self._asked and record.code != self._context.settings.code:
            self._turn(self._asked[record.code])
        words, self._later = self._later, []
        for wanted in words:
            if wanted is not None and self._wanted is not None and wanted.code == self._wanted.code:
                continue
            self._give_up("another upgrade was asked for" if wanted else "the upgrade was called off")
            self.refusal = ""
            if wanted is not None and wanted.code != self._context.settings.code:
                self._wanted = wanted

    def takes(self, hello: Hello) -> bool:
        """Whether it is a worker of the application that the job is to go on with."""
        return self._wanted is not None and not self._differs(hello, self._wanted)

    def is_behind(self, hello: Hello) -> bool:
        """Whether it is a worker of the application that the job has gone on from."""
        return self._before is not None and not self._differs(hello, self._before)

    @property
    def asked(self) -> bool:
        """Whether one is under way."""
        return self._wanted is not None

    def go_on(self) -> None:
        """Take the next step: the stream runs, and nothing is wrong."""
        if self._later:
            self.heed(self._context.record)
        if self._wanted is None:
            return
        if self._turning():
            if self._context.members.lost(self._chosen):
                self._epochs.interrupted("a worker of the new code is lost")
            return
        chosen, context = self._there(self._wanted), self._context
        if not chosen or not context.committed.known(context.record):
            self._closing = None
        elif context.settings.durable:
            self._close(chosen)
        elif not self._epochs.pending and context.keeper.idle:
            self._turn(self._wanted)
            self._healing.recover(chosen, TURNED, context.time.now, "tick")

    # --- of its epoch (epochs.Turn) -------------------------------------------------------------------------

    def turned(self, record: JobRecord) -> JobRecord:
        """The record that commits the epoch, made the next attempt's."""
        assert self._wanted is not None, "whoever calls an upgrade off gives up its epoch"
        return self._healing.next_record(record, self._chosen, self._wanted)

    def refuses(self, index: SnapshotIndex, record: JobRecord) -> str:
        """The reason why the new code cannot go on from this index; "" if it can."""
        assert self._wanted is not None, "whoever calls an upgrade off gives up its epoch"
        found = msgspec.structs.replace(record, committed=index.epoch, cut=index.cut)
        try:
            check_index(index, found, self._wanted)
        except UserError as error:
            self._refuse(str(error))
        return self.refusal

    def made(self) -> None:
        """It is in the record."""
        assert self._wanted is not None, "whoever calls an upgrade off gives up its epoch"
        self._turn(self._wanted)
        self._healing.ticked(TURNED, self._since)

    # --- inside ---------------------------------------------------------------------------------------------

    def _turning(self) -> bool:
        return self._epochs.pending is not None and self._epochs.pending.turn is self

    def _there(self, wanted: co.Settings) -> list[WorkerId]:
        """Who makes up the first layout of the new code; empty while it is better to wait."""
        members, time = self._context.members, self._context.time
        ahead = members.spares(self._context.workers, ahead=True)[: min(wanted.workers, wanted.slots)]
        if not ahead:
            return []
        since = [members[worker].since for worker in ahead]
        enough = len(ahead) == min(wanted.workers, wanted.slots) or time.due_in(min(since), wanted.gather_us)
        # (!) Read before: while minimal time is held, everybody waits for it.
        warm = not self._context.committed.size or all(members[worker].warm for worker in ahead)
        return ahead if enough and (warm or time.due_in(max(since), wanted.warm_us)) else []

    def _close(self, chosen: list[WorkerId]) -> None:
        context, epochs = self._context, self._epochs
        record, index = context.record, context.committed.index
        if index is not None and self.refuses(index, record):
            return
        if self._closing is None:
            self._closing = record.committed
        if record.committed == self._closing and context.minimal > record.cut:
            epochs.consider(urgent=True)
        elif epochs.consider(urgent=True, turn=self):
            # (!) If it comes to nothing an ordinary one is next: the stream must not wait for an upgrade.
            self._closing, self._chosen, self._since = record.committed, chosen, context.time.now

    def _turn(self, made: co.Settings) -> None:
        """From here on the new code counts."""
        context = self._context
        self._before, context.settings = context.settings, made
        self._wanted, self._closing = None if self._wanted is made else self._wanted, None
        context.instructions.tell(context.members.ticked(), Stop(TURNED))

    def _refuse(self, reason: str) -> None:
        self.refusal, self._wanted = reason, None
        members = self._context.members
        self._context.instructions.tell(members.spares((), ahead=True), Stop(f"refused: {reason}"))

    def _give_up(self, reason: str) -> None:
        if self._wanted is not None and self._turning():
            self._epochs.abort(reason)
        self._wanted = self._closing = None
        ahead = self._context.members.spares((), ahead=True)
        self._context.instructions.tell(ahead, Stop(reason))
