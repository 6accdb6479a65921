"""Healing: from what is wrong with an attempt to the next one.

A worker that is lost has its slots taken by whoever is there first (takeover.py); if only its connection to
the coordinator broke, and it comes back running under the same fence with nobody missing it, nothing
happened. A complaint (a broken link between two workers, a time that stays in flight, a worker that cannot go
on for now) is healed by a new attempt of the same workers. A loss or complaint during a recovery begins
another.

Keeps: an attempt is in the record before anybody hears of it; a recovery's messages go out only while all of
its layout are connected. Does not: know a recovery's steps (recovery.py), or give up (failures.py).
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from flamestream.core.coordinator.assignment import next_layout, relaid
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import NO_EPOCH, Settings
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.failures import BY_THE_INPUT, Failures
from flamestream.core.coordinator.recovery import Recovery
from flamestream.core.coordinator.takeover import of_one_release, successors
from flamestream.core.protocol.inventory import timed_by
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront, taking_part, with_new
from flamestream.core.protocol.messages import Opened, Sealed
from flamestream.model.ids import Attempt, WorkerId
from flamestream.model.time import START, FrontId, Instant

JOINED: Final = "joined"
MOVED: Final = "moved"
TICK: Final = "tick"
UNPROVOKED: Final = (JOINED, MOVED, TICK)
"""The kinds of a recovery that no failure has caused."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """The reason why an attempt cannot go on though its workers are connected."""

    kind: str
    message: str
    since: Instant
    act_at: Instant


class Healing:
    """The recovery under way, or what may lead to one."""

    recovery_type: ClassVar[type[Recovery]] = Recovery

    def __init__(self, context: Context, epochs: Epochs) -> None:
        self.recovery: Recovery | None = None
        self.complaint: Complaint | None = None
        self.recoveries = 0
        self.cause = ""
        self.kind = ""
        """The kind of cause in a word: start, lost, link, worker, stuck, drained, joined, moved or tick."""
        self.duration_us = 0
        self.replayed_from = START
        """The cut of the last recovery that came to its Replay."""
        self.steps: dict[str, int] = {}
        """Microseconds of the last recovery's steps: until it was decided on, in the record, opened, sealed and
        replayed."""
        self._step_began = Instant(0)
        self.ended_at = Instant(0)
        self.ran = ""
        """The code of the newest attempt that came to its Replay, as far as is known."""
        self.drained = False
        """Whether attempts give again what has left, and no more: then the code before goes on."""
        self._context, self._epochs = context, epochs
        self._failures = Failures(context.time, context.settings.failures, context.settings.calm_us)

    @property
    def wrong(self) -> bool:
        """Whether somebody of the layout is lost, or there is a complaint."""
        return bool(self.complaint or self._context.members.lost(self._context.workers))

    def complain(self, kind: str, message: str, pause_us: int = 0) -> None:
        """The attempt needs another one after it, in `pause_us`. The first complaint counts."""
        # Before Recover is told nobody knows of the new attempt: what is complained of has ended.
        told = self._context.running or (self.recovery is not None and self.recovery.told)
        if told and self.complaint is None:
            now = self._context.time.now
            self.complaint = Complaint(kind, message, now, Instant(now + pause_us))

    def heal(self) -> bool:
        """Begin a recovery if one is needed and of use. Whether something is wrong."""
        context = self._context
        lost = context.members.lost(context.workers)
        if not lost and not self.complaint:
            return False
        if not context.keeper.idle or not self._failures.may_recover():
            return True
        if not lost and self.complaint and not context.time.due(self.complaint.act_at):
            return True
        since = context.members.lost_since(context.workers, context.time.now)
        # nobody that is lost can come back: its slots go to who is there, now
        vain = context.members.all_gone(context.workers)
        waited = vain or context.time.due_in(since, context.settings.grace_us)
        if chosen := self.successors(waited=waited):
            self._heal_with(chosen, lost, since)
        return True

    def successors(self, *, waited: bool) -> list[WorkerId]:
        """Who would make up the next layout; empty if it is better to wait."""
        context = self._context
        survivors = [worker for worker in context.workers if worker in context.members]
        spares = context.members.spares(context.workers)
        survivors, spares = of_one_release(survivors, spares, self.places, context.members.vocabulary)
        return successors(len(context.workers), survivors, spares, self.places, waited=waited)

    @property
    def places(self) -> int:
        """How many workers may take part."""
        # more would leave some without a slot, and have no room in message ids (ids.py)
        return min(self._context.wanted, self._context.settings.slots)

    def recover(
        self,
        chosen: Sequence[WorkerId],
        cause: str,
        since: Instant,
        kind: str,
        owners: Sequence[WorkerId] = (),
    ) -> None:
        """Begin an attempt of `chosen`, whose slots are `owners`' if that is chosen too. The record comes first
        (!): whoever acts for an older attempt can commit nothing from here on."""
        # what its workers accepted is of an attempt that ends here
        self._epochs.abort(f"a recovery begins: {cause}")
        self._begin(cause, since, kind)
        # (!) Workers hear of it behind this write only.
        keeper = self._context.keeper
        record = self.next_record(keeper.record, chosen, self._context.settings, owners)
        keeper.write(record, self._fenced)

    def turned(self, cause: str, since: Instant, kind: str) -> None:
        """An epoch's commit has begun the attempt."""
        self._begin(cause, since, kind)
        self._fenced()

    def next_record(
        self, old: JobRecord | None, chosen: Sequence[WorkerId], settings: Settings,
        owners: Sequence[WorkerId] = (),
    ) -> JobRecord:  # fmt: skip
        """The record of the next attempt, of `chosen` under `settings`."""
        fronts = _next_fronts(old, settings)
        away = {FrontId(n) for n in range(len(fronts))} - _part(fronts, settings)
        count = len(fronts) or settings.fronts
        if owners and old:
            layout = relaid(old.layout, owners, count, away)
        else:
            layout = next_layout(old.layout if old else None, chosen, settings.slots, count, away)
        if old:
            # the rest stays: what is committed, and `announced`, so that no attempt uses a number again
            attempt = self._next_attempt(old)
            return msgspec.structs.replace(
                old, attempt=attempt, layout=layout, code=settings.code, writer=self._context.nonce,
                fronts=fronts, outcome="",
            )  # fmt: skip
        return JobRecord(
            attempt=Attempt(1), layout=layout, announced=NO_EPOCH, committed=NO_EPOCH, cut=START, index="",
            index_hash="", job=settings.job, code=settings.code, writer=self._context.nonce,
            fronts=fronts,
        )  # fmt: skip

    def go_on(self) -> bool:
        """Tell the workers of the layout, all of which are connected, to recover, once the index is known; and
        to replay, once all are ready. Whether that was told."""
        context, recovery = self._context, self.recovery
        if recovery is None or not context.keeper.idle:
            return False
        if recovery.told:
            return recovery.may_replay and self._replay(recovery)
        context.committed.raise_if_corrupt()
        record = context.record
        if context.committed.known(record):
            context.committed.check(record)
            # nobody is missing: `heal` has just looked
            addresses = {worker: context.members[worker].hello.address for worker in context.workers}
            self._step_ends("record")
            key = self._key(record.attempt)
            context.instructions.tell(
                context.workers,
                recovery.begin(record, context.committed.index, addresses, key, [*context.reached.values()]),
            )
            context.members.expect(context.workers, context.time.now)
        return False

    def hear(self, worker: WorkerId, message: Opened | Sealed) -> bool:
        """An answer under the current fence. Whether it was the last one: all were told to replay."""
        context, recovery = self._context, self.recovery
        # somebody is lost again: the next recovery asks anew
        if recovery is None or not recovery.told or self.wrong:
            return False
        if isinstance(message, Sealed):
            recovery.sealed(worker, message)
        elif seal := recovery.opened(worker, message):
            self._step_ends("open")
            context.instructions.tell(context.workers, seal)
        return self.go_on()

    def runs(self) -> None:
        """The stream runs: Replay was sent, or the workers were adopted."""
        self.recovery, self.ended_at = None, self._context.time.now
        self.ran = self._context.settings.code
        self._failures.running()

    def replayed(self, took_us: int) -> None:
        """All that was stamped before the attempt that runs is through once more, so long behind its Replay."""
        if self.steps:  # of an attempt that was adopted the others are not known here
            self.steps.setdefault("replay", took_us)

    def explain(self, died_of: str) -> None:
        """A worker's next life tells why it was lost."""
        self._failures.explain(died_of)

    def given_up(self) -> None:
        """The first recovery's attempt did not get into the record."""
        self.recovery = self.complaint = None

    # --- inside ---

    def _replay(self, recovery: Recovery) -> bool:
        """Tell all to replay; False while the record is still to say where new fronts begin."""
        context, fronts = self._context, self._context.record.fronts
        if context.settings.durable:
            fronts = recovery.begun(_part(fronts, context.settings), context.settings.drop)
        if fronts != context.record.fronts:
            record = msgspec.structs.replace(context.record, fronts=fronts, writer=context.nonce)
            context.keeper.write(record, lambda: None)
            return False
        self._step_ends("seal")
        replay = recovery.replay(fronts, drained=self.drained)
        replay = msgspec.structs.replace(
            replay, kind=self.kind, cause=self.cause[:1024], steps=dict(self.steps)
        )
        context.instructions.tell(context.workers, replay)
        self.duration_us = context.time.now - recovery.since
        self.replayed_from = recovery.cut
        return True

    def _begin(self, cause: str, since: Instant, kind: str) -> None:
        context = self._context
        context.running = context.idle = False
        self.complaint = None
        if kind in UNPROVOKED:  # nothing is skipped
            context.reached.clear()
        self.recovery = self.recovery_type(cause, since)
        self._failures.recover()
        self.recoveries, self.cause, self.kind, self.duration_us = self.recoveries + 1, cause, kind, 0
        self.steps, self._step_began = {}, since
        self._step_ends("decide")

    def _heal_with(self, chosen: Sequence[WorkerId], lost: Sequence[WorkerId], since: Instant) -> None:
        if lost:
            kind, message = "lost", f"lost {', '.join(lost)}"
        else:
            assert self.complaint, "a recovery without a cause"
            kind, message, since = self.complaint.kind, self.complaint.message, self.complaint.since
        self._context.deaths += kind in BY_THE_INPUT
        if self._context.running:
            self._failures.count(kind, message, self._context.minimal, since, idle=self._context.idle)
        self.recover(chosen, message, since, kind)

    def _step_ends(self, name: str) -> None:
        now = self._context.time.now
        self.steps[name], self._step_began = now - self._step_began, now

    def _fenced(self) -> None:
        """The attempt is in the record, and so this coordinator's."""
        context = self._context
        context.members.expect(context.workers, context.time.now)
        context.members.forget_all_but(context.workers)
        context.committed.corrupt = False  # a new attempt asks again: the object may have been restored

    def _next_attempt(self, record: JobRecord) -> Attempt:
        return Attempt(record.attempt + 1)

    def _key(self, attempt: Attempt) -> str:
        # derived, not drawn: the next coordinator makes the same, and a zombie's key opens no link
        context = self._context
        return hmac.new(
            context.secret.encode(), f"{context.settings.job}/{attempt}".encode(), hashlib.sha256
        ).hexdigest()


def _names(settings: Settings) -> tuple[str, ...]:
    """The source of each front of the graph; none: nobody said."""
    return settings.inventory.fronts if settings.inventory is not None else ()


def _next_fronts(old: JobRecord | None, settings: Settings) -> tuple[KnownFront, ...]:
    """The fronts of the next attempt, those of new sources behind all that ever were."""
    names = _names(settings)
    if old is None or not (old.fronts or old.index):
        return timed_by(settings.inventory, map(KnownFront, names))
    # Without names the order of the graph that wrote its snapshot counts, until that is committed with names.
    added = with_new(old.sources, names)[len(old.fronts) :] if old.fronts else ()
    fronts = (*old.fronts, *(KnownFront(name, begins=None) for name in added))
    return timed_by(settings.inventory, fronts, kept=settings.gives_again)


def _part(fronts: Sequence[KnownFront], settings: Settings) -> frozenset[FrontId]:
    """The numbers of the fronts that take part."""
    names = _names(settings) or [front.name for front in fronts]
    return taking_part(names, fronts) if fronts else frozenset()
