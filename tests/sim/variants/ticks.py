"""Variants of how other code takes over: where a tick is cut, what is held, and what is one write."""

from collections.abc import Collection, Mapping
from functools import partial

from flamestream.core.coordinator.changes.hand_over import HandOver
from flamestream.core.coordinator.changes.upgrade import Upgrade
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.membership import Membership
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Abort, Committed
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.fronts import NOTHING_NEW, Fronts
from flamestream.model.ids import Epoch, WorkerId
from flamestream.model.time import END, FrontId, Time
from flamestream.simulation.changes.hand_overs import handing_over
from flamestream.simulation.faults import Fault
from flamestream.simulation.jobs.ticks import edited_job, failing, fatal_job, ticking
from sim.variants.variant import BrokenVariant, directed, patch

_spares = Membership.spares
_cut, _decided, _go_on = Acker.cut, Acker.decided, Epochs.go_on
_start, _turned, _made = Fronts.start, HandOver.turned, HandOver.made
UPGRADES = ticking()
RECOVERIES = ticking(directed(Fault.WORKER_CRASH, Fault.STORE_FULL, times=6, spacing=1_000, journalled=True))
"""Attempts end above the committed cut, with results that have left."""
LATE_WRITES = directed(
    Fault.COORDINATOR_CRASH, Fault.RECORD_UNKNOWN, Fault.STORE_SLOW, rate=0.4, times=8, spacing=1_000
)
LOST_COORDINATORS = ticking(
    directed(
        Fault.COORDINATOR_CRASH,
        Fault.COORDINATOR_PAUSE_AT_WRITE,
        Fault.STORE_SLOW,
        Fault.SECOND_COORDINATOR,
        rate=0.4,
        times=8,
        spacing=1_000,
    )
)
BROKEN_LINKS = ticking(
    directed(Fault.CONTROL_BREAK, Fault.STORE_SLOW, Fault.RECORD_UNKNOWN, rate=0.5, times=20, spacing=1_000)
)
"""Workers come back to their coordinator, which tells them where it is, while a tick is written."""


def _all_spares(self: Membership, layout: Collection[WorkerId], code: str | None = None) -> list[WorkerId]:
    """Whoever is connected takes over, whatever code it has loaded."""
    return _spares(self, layout, code or "")


def _unheld(self: Acker, epoch: Epoch, *, hold: bool = False, pause: bool = False) -> None:
    _cut(self, epoch, pause=pause)


def _let_go_in_the_commit(self: Epochs) -> None:
    """Whoever has waited long enough lets go, whatever may come of the write."""
    epoch = self.pending
    if epoch and epoch.turn and self.is_committing:
        self._instructions.tell(epoch.workers, Abort(epoch.fence, epoch.number))
    else:
        _go_on(self)


def _any_word(self: Acker, epoch: Epoch) -> None:
    """The end of any epoch lets go."""
    _decided(self, epoch)
    self._held = None


def _committed_first(self: Upgrade, record: JobRecord) -> JobRecord:
    return record


def _then_an_attempt(self: Upgrade) -> None:
    record, chosen = self._context.record, self._chosen
    assert self._wanted is not None
    before = self._context.workers
    self._context.instructions.tell(before, Committed(record.fence, record.committed, record.cut))
    self._turn(self._wanted, self._context.settings)
    self._healing.recover(chosen, "the tick was committed", self._context.time.now, "tick")


def _ended_later(self: HandOver) -> None:
    """Committed first, like any epoch; that the job has ended is written when that is known."""
    record, epochs = self._context.record, self._epochs
    self._context.instructions.tell(
        self._context.workers, Committed(record.fence, record.committed, record.cut)
    )
    epochs._keeper.write(_turned(self, record), partial(_made, self))


def _read_on(
    self: Fronts, bound: Time, begins: Mapping[FrontId, Time] = NOTHING_NEW, *, until: Time = END
) -> None:
    """What has killed its worker is read again."""
    _start(self, bound, begins)


VARIANTS = [
    BrokenVariant(
        "a hand-over in two writes", patch(HandOver, turned=lambda self, record: record, made=_ended_later),
        handing_over(LATE_WRITES), edited_job,
    ),
    BrokenVariant(
        "a hand-over whose cut is not held", patch(Acker, cut=_unheld), handing_over(), edited_job,
    ),
    BrokenVariant("a tick's cut that is not held", patch(Acker, cut=_unheld), UPGRADES, edited_job),
    BrokenVariant(
        "a worker of other code that takes over before the tick", patch(Membership, spares=_all_spares),
        RECOVERIES, edited_job,
    ),
    BrokenVariant(
        "a hold that is let go while its tick is written", patch(Epochs, go_on=_let_go_in_the_commit),
        LOST_COORDINATORS, edited_job,
    ),
    BrokenVariant(
        "a tick below what attempts before have released", patch(Acker, replays=lambda self, released: None),
        RECOVERIES, edited_job, seeds=400,
    ),
    BrokenVariant(
        "a tick in two writes",
        patch(Upgrade, turned=_committed_first, made=_then_an_attempt),
        LOST_COORDINATORS, edited_job, seeds=300,
    ),
    BrokenVariant(
        "a hold without its epoch's number", patch(Acker, decided=_any_word), BROKEN_LINKS, edited_job,
        seeds=400,
    ),
    BrokenVariant(
        "a way back that begins at the tick, though the new code has given results",
        patch(Upgrade, _ran=False), failing(), fatal_job,
    ),
    BrokenVariant(
        "a way back that reads on above what has left", patch(Fronts, start=_read_on), failing(), fatal_job,
    ),
]  # fmt: skip
