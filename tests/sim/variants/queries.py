"""Broken variants of queries: what makes an answer whole, and what keeps it from lacking what somebody has seen."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from flamestream.core.dataflow.keyed_state import KeyedState
from flamestream.core.dataflow.tables.transactions import Transactions
from flamestream.core.protocol.actions import Action, Append
from flamestream.core.protocol.events import Queried
from flamestream.core.protocol.messages import MinimalTime, Replay
from flamestream.core.protocol.queries import Ask, Peek
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.front import JournalledFront
from flamestream.core.worker.queries.answers import Answers
from flamestream.core.worker.queries.gateway import Queries
from flamestream.core.worker.queries.looks import Looks
from flamestream.core.worker.queries.proofs import Proofs
from flamestream.core.worker.worker import Worker
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.time import END, FrontId, Time, Timestamp
from flamestream.simulation.clients import asked
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import SimJob, concatenation, digest, key_of, source_streams, string_record
from flamestream.simulation.jobs.bank import bank_job, live_job
from flamestream.simulation.settings import MS, Adjust
from sim.variants.variant import BrokenVariant, directed, patch, together


def _to_each_owner(self: Queries, number: int, open_: Any) -> None:
    """At each owner's own minimal time."""
    query = open_.query
    if query.scan is not None:
        _send(self, number, open_)
        return
    open_.missing = {self._owners[lookup.slot] for lookup in query.lookups}
    for owner in sorted(open_.missing):
        self._tell(owner, Peek(number, query.at_least, list(query.lookups)))


def _by_minimal_time(self: Queries, query: Queried) -> bool:
    """Though it may be what fronts have promised in an attempt that is over."""
    if query.at_least > self._cuts.minimal:
        return False
    return not query.strict or (self._bound is not None and self._cuts.minimal > self._bound)


def _at_once_when_due(self: Answers, gateway: WorkerId, message: Peek) -> None:
    self._answer(gateway, message.number, self._read(self._mine(message.lookups)))


def _without_order(self: KeyedState[Any], key: bytes, slot: Slot) -> Any:
    """Keys that come are not put in order: those that have come since it was made are in no page."""
    order, self._order = self._order, None
    try:
        return _bucket(self, key, slot)
    finally:
        self._order = order


def _told_to_all(self: Queries, reason: str) -> None:
    """In the next attempt, which they have not begun."""
    self._bound = None
    for number in list(self._open):
        self._refuse(number, reason)
    self.answers.end()


def _at_once(self: Queries, bound: Time) -> None:
    """Once the attempt runs, wherever minimal time is."""
    self._bound = Time(-1)


def _by_results_alone(self: Worker, message: Replay) -> None:
    """Once minimal time is above what consumers had: of what journals had, too, an answer may have been seen."""
    _replay(self, message)
    self._queries.replays(max(message.released, self._queries._cuts.minimal))


def _unproved(self: Looks, gateway: WorkerId, message: Ask) -> None:
    self._ready.append((gateway, message))


def _by_a_proof_under_way(self: Looks, gateway: WorkerId, message: Ask) -> None:
    """Whose entry may have been taken before the query came."""
    (self._under_way or self._unproved).append((gateway, message))


def _by_an_entry_that_has_left(self: Proofs, now: Timestamp, leaving: Sequence[Action]) -> list[Append]:
    """One that is on its way to the journal serves, though it may have been taken before the query came."""
    waiting: list[tuple[FrontId, int]] = []
    for number, proof in self._asked:
        front = self._fronts[number]
        if isinstance(front, JournalledFront) and front._undurable:
            self._begun.append((number, proof, front._undurable[0]))
        else:
            waiting.append((number, proof))
    self._asked = waiting
    return _begin(self, now, leaving)


def _as_of_promises(self: Acker) -> Any:
    return [MinimalTime(each.time, each.time) if type(each) is MinimalTime else each for each in _told(self)]


def _newest(self: Transactions, key: bytes, cut: Time) -> Any:
    """What was decided last, though something may still come below it."""
    return _state_at(self, key, END)


_state_at, _replay = Transactions.state_at, Worker._replay
_told, _send, _bucket, _begin = Acker.told, Queries._send, KeyedState.bucket, Proofs.begin


def asking(*faults: Fault, spacing: int | None = None, **plan: Any) -> Adjust:
    """Clients ask all the time, in the midst of faults."""
    return directed(*faults, times=5, spacing=spacing, journalled=True, plan={"asks_every": 500, **plan})


BURSTS = asking(Fault.WORKER_CRASH, spacing=300)
"""Many runs are to be replayed behind a crash."""
ZOMBIES = asking(Fault.WORKER_PAUSE, spacing=2_000, workers=1, standbys=2)
"""One worker has all, and goes on behind a pause in which another one took over."""
LATE_ANSWERS = asking(Fault.WORKER_PAUSE, spacing=2_000, workers=1, standbys=2, answers_us=150 * MS)
"""The same, and what it has written before the pause it may hear of behind it."""


def _guessing_bank(rng: Random) -> SimJob:
    """What is measured of its few transfers changes nothing of how they are decided."""
    return replace(bank_job(rng), judged=64)


def unseen_job(rng: Random) -> SimJob:
    """A fold of several sources, of which consumers hear next to nothing: who has seen its states has asked."""
    graph, stream, sources = next(
        made for made in iter(lambda: source_streams(rng, "unseen"), None) if made[2] > 1
    )
    concatenation(rng, stream).filter(lambda payload: digest(payload[1]) < "1").sink("out", key=key_of)
    return SimJob(graph, None, string_record(rng), sources)


VARIANTS = [
    BrokenVariant(
        "an answer of each owner's own time", patch(Queries, _send=_to_each_owner), asking(Fault.WORKER_CRASH)
    ),
    BrokenVariant(
        "strict answers at once behind a recovery",
        patch(Queries, replays=_at_once),
        asking(Fault.WORKER_CRASH),
    ),
    BrokenVariant(
        "strict answers above what consumers had, wherever journals were",
        patch(Worker, _replay=_by_results_alone),
        BURSTS,
        unseen_job,
    ),
    BrokenVariant("strict answers without a proof", patch(Looks, ask=_unproved), ZOMBIES),
    BrokenVariant(
        "strict answers by a proof that was under way", patch(Looks, ask=_by_a_proof_under_way), ZOMBIES
    ),
    BrokenVariant(
        "strict answers by an entry that had left",
        patch(Proofs, begin=_by_an_entry_that_has_left),
        LATE_ANSWERS,
    ),
    BrokenVariant(
        "what an answer must have, by minimal time",
        together(patch(Queries, _is_due=_by_minimal_time), patch(Answers, _peek=_at_once_when_due)),
        asked,
        bank_job,
    ),
    BrokenVariant(
        "the end of a query told in the next attempt",
        patch(Queries, end=_told_to_all),
        asking(Fault.WORKER_CRASH, asks_every=200),
    ),
    BrokenVariant(
        "scans without the keys that came since",
        patch(KeyedState, bucket=_without_order),
        asking(spacing=500),
    ),
    BrokenVariant(
        "answers of rows that may still be taken back", patch(Transactions, state_at=_newest), asked, live_job
    ),
    BrokenVariant(
        "answers as of what fronts have promised",
        patch(Acker, told=_as_of_promises),
        asked,
        _guessing_bank,
    ),
]
