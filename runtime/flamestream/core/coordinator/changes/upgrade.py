"""The upgrade: other code takes over a running stream at one cut, a tick.

    asked      its workers connect beside those that run, and fetch the committed snapshot
    closing    they are there: one more epoch, so that what is left to save is small
    turning    an epoch whose cut holds minimal time: nothing above is released, so all of it is the new
               code's; its commit is the new code's attempt, by one write
    made       the new workers recover, and replay from the cut; those before are kept for a while
    watched    for a while: new code that fails is taken back, by a tick to the code before. Where it kills
               its workers, an attempt that gives again what has left and no more comes to that tick; where
               it has never run, the tick needs no epoch

Until that write the stream runs on as ever, and giving it up costs nothing.

Keeps: a result is made by one code, whatever dies in between; who has loaded other code takes part in nothing
before. Does not: start workers (the launcher, the operator), or try the code before (preflight).
"""

import dataclasses
from typing import Final

import msgspec

from flamestream.core.coordinator import coordination as co
from flamestream.core.coordinator.changes.watch import Watch
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.healing import TICK, Healing
from flamestream.core.coordinator.membership import differs
from flamestream.core.coordinator.scaling import wanted_by
from flamestream.core.coordinator.snapshot_index import check_index
from flamestream.core.coordinator.takeover import of_one_release
from flamestream.core.protocol.inventory import leaving, only_in, without
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Hello, Stop
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.errors import UserError
from flamestream.model.ids import WorkerId
from flamestream.model.time import Instant

MOST_ASKED: Final = 16
TURNED: Final = "the job goes on with other code"


class Upgrade:
    """The change of code that is asked for, if one is; and the code before, as long as it can go back."""

    pauses = False  # what enters meanwhile is the new code's, and at hand in the journal

    def __init__(self, context: Context, epochs: Epochs, healing: Healing) -> None:
        self.refusal = ""
        """The reason why the last one that was asked for is not made, or was taken back."""
        self.refused = ""
        """The code that it is of."""
        self._asked: dict[str, co.Settings] = {context.settings.code: context.settings}
        """Those that were asked for, by their code, the first one first: another coordinator may have made the
        tick to any."""
        self._failed = ""
        """The code that is being taken back."""
        self._wanted: co.Settings | None = None
        self._before: co.Settings | None = None
        """The code that it has gone on from, as long as its workers are kept."""
        self._watch: Watch | None = None
        self._chosen: list[WorkerId] = []
        self._later: list[co.Settings | None] = []
        """The newest word, as long as it is not known what the record says."""
        self._inherits = False
        """Whether the first of those that were asked for has run before this coordinator began."""
        self._at_once = False
        """Whether the record is being written that turns without an epoch."""
        self._since = Instant(0)
        """When the hold of the newest tick began."""
        self._context, self._epochs, self._healing = context, epochs, healing

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

    def inherit(self, before: co.Settings) -> None:
        """The code that runs has taken over from `before` under another coordinator, and is watched anew."""
        if before.code not in self._asked:
            self._asked, self._inherits = {before.code: before, **self._asked}, True
        if self._context.keeper.record is not None:
            self.heed(self._context.record)

    def heed(self, record: JobRecord) -> None:
        """Another coordinator may have made the tick, and died; then what was asked for meanwhile."""
        if self._at_once or (self._turning() and self._epochs.is_committing):
            return
        made, runs = record.code, self._context.settings.code
        inherits, self._inherits = self._inherits, False
        if made in self._asked and (made != runs or (inherits and self._before is None)):
            self._since = self._context.time.now
            self._turn(self._asked[made], self._asked_before(made), seen=False)
            # (!) For all that is known here: else it goes back to the tick's cut, above which results have left.
            self._healing.ran = made
        elif inherits:
            self._dismiss(TURNED)
        if self._wanted is not None and self._goes_back(self._wanted):
            return  # first back, then on
        words, self._later = self._later, []
        for wanted in words:
            self._change(wanted)

    def takes(self, hello: Hello) -> bool:
        """Whether it is a worker of the application that the job is to go on with, or may go back to."""
        # (!) As long as the record is not read: who is sent away then is not there to go back to.
        inherited = next(iter(self._asked.values())) if self._inherits else None
        return any(not differs(hello, each) for each in (self._wanted, self._before, inherited) if each)

    def is_behind(self, hello: Hello) -> bool:
        """Whether it is a worker of an application that the job has gone on from."""
        return hello.code in self._asked and hello.code != self._context.settings.code

    @property
    def asked(self) -> bool:
        """Whether one is under way."""
        return self._wanted is not None

    @property
    def before(self) -> str:
        """The code that it has gone on from, as long as its workers are kept; "": none."""
        return "" if self._before is None else self._before.code

    @property
    def watched(self) -> bool:
        """Whether the code that runs is watched."""
        return self._watch is not None

    def look_back(self) -> None:
        """Whether the code that runs, or should, holds what it promised; for how long that before is kept."""
        time, settings = self._context.time, self._context.settings
        if self._watch is not None and (reason := self._watch.failed(ran=self._ran)):
            self._take_back(reason)
        elif self._watch is not None and self._watch.over:
            self._watch = None
        kept = max(settings.keep_us, settings.watch_us)
        idle = self._watch is None and self._wanted is None
        if self._before is not None and idle and time.due_in(self._since, kept):
            self._before = None
            self._dismiss(TURNED)

    def turns_at_once(self) -> bool:
        """Go back though nothing runs, if the new code has never come to that; whether that is under way.

        (!) Only then has it given nothing above the tick's cut, so that all of it is the code's before to make.
        """
        back = self._wanted is not None and self._goes_back(self._wanted) and not self._context.running
        if back and not self._ran and (chosen := self._there(self._next)):
            self._turn_at_once(chosen)
            return True
        return False

    def go_on(self) -> None:
        """Take the next step: the stream runs, and nothing is wrong."""
        if self._later:
            self.heed(self._context.record)
        if (wanted := self._wanted) is None:
            return
        chosen, context = self._there(wanted), self._context
        if self._turning():
            if context.members.lost(self._chosen):
                self._epochs.interrupted("a worker of the new code is lost")
        elif not chosen or not context.committed.known(context.record):
            self._epochs.turn_later()
        elif context.settings.durable:
            self._close(wanted, chosen)
        else:
            self._turn_at_once(chosen)

    def take_back(self, reason: str) -> bool:
        """A worker says that it cannot go on: whether the job goes back to the code before instead of failing
        of it."""
        # Code that cannot even give again what has left leads nowhere from where another could go on.
        return (self._context.running or not self._ran) and self._take_back(reason)

    def _take_back(self, reason: str) -> bool:
        before, context = self._before, self._context
        if self._turning() or (self._wanted is not None and self._goes_back(self._wanted)):
            return True  # it is on its way; who fails says so again, should it come to nothing
        if self._watch is None or before is None or not context.members.of(before.code):
            return False
        failed = context.settings
        if no_way := _no_way_back(failed, before):
            self._refuse(failed, f"{reason}; there is no way back: {no_way}")
            return False
        self._watch, self._failed = None, failed.code
        self._refuse(failed, f"taken back: {reason}")
        if self._wanted is not None and not self._later:
            self._later = [self._wanted]  # what was asked for meanwhile
        fresh = only_in(failed.inventory, before.inventory)
        # As if it had never been: what it alone kept goes with it.
        self._wanted = dataclasses.replace(before, drop=(*before.drop, *fresh))
        # (!) What kills its workers is above all that has left: an attempt without it comes to the tick.
        self._healing.drained = True
        return True

    # --- of its epoch (epochs.Turn) -------------------------------------------------------------------------

    def turned(self, record: JobRecord) -> JobRecord:
        """The record that commits the epoch, made the next attempt's."""
        following = self._healing.next_record(record, self._chosen, self._next)
        return msgspec.structs.replace(following, taken_back=self._failed)

    def refuses(self, index: SnapshotIndex, record: JobRecord) -> str:
        """The reason why the new code cannot go on from this index; "" if it can."""
        return self._misfit(self._next, index, record)

    def fitted(self, index: SnapshotIndex) -> SnapshotIndex:
        """The index, without what the new code lets go: who starts from it later need not say so again."""
        return without(index, only_in(index.inventory, self._next.inventory))

    def made(self) -> None:
        """The tick is in the record: its code is the one that runs from here on."""
        self._at_once = False
        self._turn(self._next, self._context.settings)
        self._healing.turned(TURNED, self._since, TICK)

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _next(self) -> co.Settings:
        """The settings that the epoch under way goes on to."""
        assert self._wanted is not None, "whoever calls an upgrade off gives up its epoch"
        return self._wanted

    @property
    def _ran(self) -> bool:
        """Whether the job's code may have given something above the tick's cut."""
        return self._healing.ran == self._context.settings.code

    def _turn_at_once(self, chosen: list[WorkerId]) -> None:
        """Without an epoch: what has been committed is all there is, or nothing has left above it."""
        context = self._context
        if context.keeper.idle:
            self._epochs.abort(TURNED)
            self._chosen, self._since, self._at_once = chosen, context.time.now, True
            context.keeper.write(self.turned(context.record), self.made)

    def _refuse(self, which: co.Settings, reason: str) -> None:
        self.refusal, self.refused = reason, which.code

    def _turning(self) -> bool:
        return self._epochs.is_turning(self)

    def _goes_back(self, to: co.Settings) -> bool:
        return self._before is not None and self._before.code == to.code

    def _change(self, wanted: co.Settings | None) -> None:
        if wanted is not None and self._wanted is not None and wanted.code == self._wanted.code:
            return
        reason = "another upgrade was asked for" if wanted else "the upgrade was called off"
        if self._wanted is not None and self._turning():
            self._epochs.abort(reason)
        self._wanted = None
        self._epochs.turn_later()
        if wanted is not None and wanted.code == self._context.record.taken_back:
            if self.refused != wanted.code:  # by another coordinator, which knew why
                self.refusal = "it was taken back, for it had failed: change it"
            self.refused = wanted.code
        elif wanted is not None and wanted.code != self._context.settings.code:
            self._wanted, self.refusal, self.refused = wanted, "", ""
        self._dismiss(reason)

    def _there(self, wanted: co.Settings) -> list[WorkerId]:
        """Who makes up the first layout of the new code; empty while it is better to wait."""
        members, time = self._context.members, self._context.time
        places = min(wanted_by(wanted, self._context.wanted), wanted.slots)
        spares = members.spares(self._context.workers, wanted.code)
        ahead = of_one_release((), spares, places, members.vocabulary)[1][:places]
        if not ahead:
            return []
        since = [members[worker].since for worker in ahead]
        enough = len(ahead) == places or time.due_in(min(since), wanted.gather_us)
        # (!) Read before: while minimal time is held, everybody waits for it.
        warm = not self._context.committed.size or all(members[worker].warm for worker in ahead)
        return ahead if enough and (warm or time.due_in(max(since), wanted.warm_us)) else []

    def _close(self, wanted: co.Settings, chosen: list[WorkerId]) -> None:
        context = self._context
        index = context.committed.index
        if index is not None and self._misfit(wanted, index, context.record):
            return
        if self._epochs.turn(self):
            self._chosen, self._since = chosen, context.time.now

    def _misfit(self, wanted: co.Settings, index: SnapshotIndex, record: JobRecord) -> str:
        """The reason why it is refused; then it is asked for no more."""
        found = msgspec.structs.replace(record, committed=index.epoch, cut=index.cut)
        try:
            check_index(index, found, wanted)
            if gone := leaving(index.inventory, wanted.inventory):
                # (!) It runs up to the cut, and what its journal has above would be in no state.
                raise UserError(
                    f"source {gone[0]!r} goes: stop the job with a drain, and start it without it"
                )
        except UserError as error:
            self._refuse(wanted, str(error))
            self._wanted, self._failed, self._healing.drained = None, "", False
            self._dismiss(f"refused: {error}")
            return self.refusal
        return ""

    def _turn(self, made: co.Settings, before: co.Settings, *, seen: bool = True) -> None:
        """From here on the code of `made` counts. `seen`: this coordinator has seen the code before run."""
        context, goes_back = self._context, self._goes_back(made)
        watch = Watch(context, context.time.now - self._healing.ended_at if seen else None)
        context.settings, context.members.code = made, made.code
        context.wanted = wanted_by(made, context.wanted)
        self._wanted = None if self._wanted is None or self._wanted.code == made.code else self._wanted
        self._watch, self._before, self._failed, self._healing.drained = None, None, "", False
        self._epochs.turn_later()
        if (made.keep_us or made.watch_us) and not goes_back:
            self._before, self._watch = before, watch if made.watch_us else None
        self._dismiss(TURNED)

    def _asked_before(self, code: str) -> co.Settings:
        """The code that ran before that of a tick which another coordinator made, as far as is known here."""
        codes = [*self._asked]
        return self._asked[codes[max(0, codes.index(code) - 1)]]

    def _dismiss(self, reason: str) -> None:
        """Stop workers of code that the job neither has nor may go to."""
        members = self._context.members
        codes = {each.code for each in (self._context.settings, self._wanted, self._before) if each}
        if "" not in codes:
            self._context.instructions.tell(members.dismiss(codes), Stop(reason))


def _no_way_back(failed: co.Settings, before: co.Settings) -> str:
    """The reason why the code before cannot go on from what the one that failed has committed; "" if it can."""
    if gone := only_in(before.inventory, failed.inventory):
        return f"it has dropped the state of {', '.join(gone)}"
    if new := leaving(failed.inventory, before.inventory):
        return f"what it has read of {', '.join(new)} would be lost"
    return ""
