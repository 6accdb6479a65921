"""Broken variants of transactions: what repairs those that were decided in another order, and what a recovery has to
forget."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from flamestream.core.dataflow.accumulators import Accumulation, Accumulators
from flamestream.core.dataflow.dataflow import Dataflow
from flamestream.core.dataflow.grouping import Change
from flamestream.core.dataflow.keyed_state import KeyedState
from flamestream.core.dataflow.tables.transactions import _NONE, Transaction, Transactions, _same, unfolded
from flamestream.core.dataflow.tables.waiting import Waiting
from flamestream.core.protocol.chain import DELETED, Chain, Row
from flamestream.core.protocol.messages import PeerMessage, Undecided
from flamestream.core.worker.acker import AckTable
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.rejoin import Rejoin
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.meta import Meta
from flamestream.model.time import Time
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.jobs.bank import bank_job, indexed_job, retracted_job, retracted_row_job, row_job
from flamestream.simulation.jobs.ticks import ticking
from sim.variants.states import LOST_WORKERS
from sim.variants.variant import BrokenVariant, directed, patch


def _nobody(self: Transactions, key: bytes, one: Transaction) -> Iterable[Transaction]:
    return ()


def _past_what_is_missing(self: Transactions) -> list[Change]:
    """Who read a row that nobody had written is left alone, though somebody has since."""
    found = self._next()
    assert found is not None and found.lowest is not None
    one = found.lowest
    below = ((value, self._below(key, one.meta)) for key, value in one.read.items())
    if one.runs and all(value is _NONE or _same(value, now) for value, now in below):
        found.pop()
        return []
    return _look(self)


def _by_the_first_values(self: Transactions, one: Transaction) -> None:
    """Its last run is taken for one of what an earlier one has read."""
    before = one.read
    _run(self, one)
    one.read = {key: before.get(key, value) for key, value in one.read.items()}


def _versions_too(self: Transactions, key: bytes, one: Transaction) -> Iterable[Transaction]:
    """Another version of the same item, which has written the row, ends it as any writer does."""
    its = self._touching.get(key, [])
    at = next(place for place, other in enumerate([*its, one]) if other.place >= one.place)
    for other in its[at:]:
        if other is not one:
            yield other
            if key in other.wrote:
                return


def _any_version(self: Transactions, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
    """A tombstone takes the first of its item's versions."""
    first = next((one for one in self._all if one.meta == meta), None)
    return _remove(self, slot, meta, payload if first is None else first.item)


def _of_all_alike(self: Waiting[Transaction], one: Transaction) -> None:
    """With it all that have its place."""
    self._all = {other for other in self._all if other.place != one.place}


def _up_to_any(self: Transactions, key: bytes, one: Transaction) -> Iterable[Transaction]:
    """Up to and including the next that has touched the row, be it to read."""
    return list(_above(self, key, one))[:1]


def _up_to_one_version(self: Transactions, key: bytes, one: Transaction) -> Iterable[Transaction]:
    """Up to the next that has written the row, and not to another version of the same, which has read it too."""
    for other in _above(self, key, one):
        yield other
        if key in other.wrote:
            return


def _up_to_writers(self: Transactions, key: bytes, one: Transaction) -> Iterable[Transaction]:
    """Not the next writer itself, which has read what it wrote upon."""
    return [other for other in _above(self, key, one) if key not in other.wrote]


def _with_an_abort_forgotten(self: Transactions, one: Transaction, now: Any) -> Any:
    """Who was aborted is not looked at again."""
    dirty = _written(self, one, now)
    return [other for other in dirty if other.wrote]


def _told_at_hand(self: Dataflow, limit: Meta | None = None) -> bool:
    """What has changed is told under the cause of the item that is being worked on."""
    if self._ledger is None or not self._ledger[0].waits(limit):
        return False
    state, tell = self._ledger
    while state.waits(limit):
        for change in state.look():
            tell(*change)
    return True


def _told_behind(self: Acker) -> list[PeerMessage]:
    """What is put off counts behind the time that is told now."""
    later = self.__dict__.setdefault("later", [])
    told = _told_to_all(self)
    for sender, message in later:
        self.table.put_off(sender, message.time)
    later.clear()
    return told


def _later(self: Acker, sender: WorkerId, message: PeerMessage) -> None:
    if isinstance(message, Undecided):
        self.__dict__.setdefault("later", []).append((sender, message))
    else:
        _take(self, sender, message)


def _decided_for_itself(self: Transactions) -> list[Change]:
    """One that was put off is decided as if nothing above it had been: no other is, while all are put off."""
    waiting = self._next()
    assert waiting is not None and waiting.lowest is not None
    first, repairs = not waiting.lowest.runs, self._repairs
    if first:
        self._repairs = Waiting()
    found = _look(self)
    self._repairs = repairs
    return found


def _below_items_alone(self: Dataflow, limit: Meta | None = None) -> bool:
    """Who waits at the end of a pass waits for the next."""
    return limit is not None and _look_again(self, limit)


def _without_deletions(self: Transactions, bucket: Accumulation, *of: Any) -> Row | None:
    found = _row(self, bucket, *of)
    return None if found is None or found.state == DELETED else found


def _with_what_was_deleted(self: Transactions, chains: Iterable[Chain]) -> None:
    Accumulators.load(self, unfolded(chains, self._reading)[1])


def _made_of_nothing(self: Transactions, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
    """Its rows are those that are set from then on."""
    return iter(())


def _made_as_loaded(self: Transactions, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
    """As if the snapshot had what was made of it."""
    yield from _complete(self, fresh, slots)
    for bucket in self._dirty:
        bucket.dirty = bucket.unstored = False
    self._dirty = []


def _made_as_changed(self: Transactions, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
    """Stored if it changes before the first epoch, and as a change of what is there."""
    yield from _complete(self, fresh, slots)
    for bucket in self._dirty:
        bucket.unstored = False


def _whole_at_once(self: Rejoin, *loaded: Any) -> None:
    """Who has loaded all rows is ready, and what is made of them comes beside the replay."""
    _loaded(self, *loaded)
    self._waits_for_load = False


def _back_to_what_is_stored(self: KeyedState[Any], cut: Time) -> None:
    """What was made of the snapshot is below the cut, and not noted as unstored any more."""
    _go_back(self, cut)
    self._dirty = []


def _guessing(rng: Random) -> SimJob:
    return replace(bank_job(rng), patience=None, judged=64)


def _by_measure(rng: Random) -> SimJob:
    """Of those that one row chains, so that they are put off; and again not."""
    return replace(row_job(rng), judged=2)


def _put_off(rng: Random) -> SimJob:
    return replace(retracted_row_job(rng), patience=0)


_take, _told_to_all = Acker.take, Acker.told
_above, _written, _look_again = Transactions._above, Transactions._written, Dataflow._look_again
_go_back, _loaded = KeyedState.go_back, Rejoin.loaded
_row, _complete, _look = Transactions.row, Transactions.complete, Transactions.look
_remove, _run = Transactions.remove, Transactions._run

DELAYS = directed(Fault.FRAME_DELAY, Fault.CONTROL_DELAY, rate=0.02, spacing=2000, clump=4)

VARIANTS = [
    BrokenVariant(
        "transactions told apart by meta alone", patch(Transactions, remove=_any_version), job=retracted_job
    ),
    BrokenVariant(
        "repair that ends at another version of the same",
        patch(Transactions, _above=_versions_too),
        DELAYS,
        retracted_row_job,
    ),
    BrokenVariant(
        "of two that are the same one waits",
        patch(Waiting, discard=_of_all_alike),
        DELAYS,
        _put_off,
    ),
    BrokenVariant("late transactions that repair nothing", patch(Transactions, _above=_nobody), job=bank_job),
    BrokenVariant("repair that ends at a reader", patch(Transactions, _above=_up_to_any), job=bank_job),
    BrokenVariant(
        "repair that ends at one of two versions",
        patch(Transactions, _above=_up_to_one_version),
        DELAYS,
        retracted_row_job,
    ),
    BrokenVariant("repair before the next writer", patch(Transactions, _above=_up_to_writers), job=bank_job),
    BrokenVariant(
        "a run that stands though a row has come that it has missed",
        patch(Transactions, look=_past_what_is_missing),
        job=row_job,
    ),
    BrokenVariant(
        "a run that stands for what an earlier one has read",
        patch(Transactions, _run=_by_the_first_values),
        DELAYS,
        bank_job,
    ),
    BrokenVariant(
        "repair that leaves aborts alone",
        patch(Transactions, _written=_with_an_abort_forgotten),
        job=bank_job,
    ),
    BrokenVariant(
        "repair under the cause at hand",
        patch(Dataflow, _look_again=_told_at_hand),
        DELAYS,
        row_job,
    ),
    BrokenVariant(
        "repair that a pass leaves to the next", patch(Dataflow, _look_again=_below_items_alone), job=bank_job
    ),
    BrokenVariant(
        "minimal time that passes what is put off",
        patch(AckTable, minimal_time=property(lambda table: table.reached)),
        job=bank_job,
    ),
    BrokenVariant(
        "transactions that are put off until minimal time, which waits for them",
        patch(AckTable, stuck=lambda table: []),
        job=bank_job,
    ),
    BrokenVariant(
        "the last that were put off, which repair nobody who was guessed meanwhile",
        patch(Transactions, look=_decided_for_itself),
        DELAYS,
        _by_measure,
    ),
    BrokenVariant(
        "what is put off told behind its acks", patch(Acker, take=_later, told=_told_behind), job=bank_job
    ),
    BrokenVariant(
        "transactions that survive a recovery",
        patch(Transactions, go_back=Accumulators.go_back),
        LOST_WORKERS,
        bank_job,
    ),
    BrokenVariant(
        "deletions that no snapshot has", patch(Transactions, row=_without_deletions), job=bank_job
    ),
    BrokenVariant(
        "an index of nothing that was there",
        patch(Transactions, complete=_made_of_nothing),
        ticking(),
        indexed_job,
    ),
    BrokenVariant(
        "an index that no epoch stores", patch(Transactions, complete=_made_as_loaded), ticking(), indexed_job
    ),
    BrokenVariant(
        "an index that is stored where it changes",
        patch(Transactions, complete=_made_as_changed),
        ticking(),
        indexed_job,
    ),
    BrokenVariant(
        "an index that a recovery before its first epoch forgets",
        patch(KeyedState, go_back=_back_to_what_is_stored),
        ticking(LOST_WORKERS),
        indexed_job,
    ),
    BrokenVariant(
        "an index that is made while others replay",
        patch(Rejoin, loaded=_whole_at_once),
        ticking(),
        indexed_job,
        seeds=400,
    ),
    BrokenVariant(
        "a standby that keeps what was deleted",
        patch(Transactions, load=_with_what_was_deleted),
        LOST_WORKERS,
        _guessing,
    ),
]
