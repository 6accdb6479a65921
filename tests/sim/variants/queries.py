"""Broken variants of queries: what makes an answer whole, and what keeps it from lacking what somebody has seen."""

from dataclasses import replace
from random import Random
from typing import Any

from flamestream.core.protocol.messages import MinimalTime
from flamestream.core.protocol.queries import Ask, Peek
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.looks import Looks
from flamestream.core.worker.queries import Queries
from flamestream.model.ids import WorkerId
from flamestream.model.time import Time
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.settings import Adjust, Plan
from sim.variants.variant import BrokenVariant, directed, patch, several_sources


def _to_each_owner(self: Queries, number: int, query: Any) -> None:
    """At each owner's own minimal time."""
    query.missing = {self._owners[lookup.slot] for lookup in query.lookups}
    for owner in list(query.missing):
        self._tell(owner, Peek(number, query.floor, query.lookups))


def _at_once(self: Queries, bound: Time) -> None:
    """Once the attempt runs, wherever minimal time is."""
    self._bound = Time(-1)


def _unproved(self: Looks, gateway: WorkerId, message: Ask) -> None:
    self._ready.append((gateway, message))


def _by_a_proof_under_way(self: Looks, gateway: WorkerId, message: Ask) -> None:
    """Whose entry may have been taken before the query came."""
    (self._under_way or self._unproved).append((gateway, message))


def _as_of_promises(self: Acker) -> Any:
    return [MinimalTime(each.time, each.time) if type(each) is MinimalTime else each for each in _told(self)]


_told = Acker.told


def asking(*faults: Fault, spacing: int | None = None, **plan: Any) -> Adjust:
    """Clients ask all the time, in the midst of faults."""
    return directed(*faults, times=5, spacing=spacing, journalled=True, plan={"asks_every": 500, **plan})


def asked(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Clients ask now and then, in a run as it is drawn."""
    return replace(drawn, asks_every=3_000), chosen


ZOMBIES = asking(Fault.WORKER_PAUSE, spacing=2_000, workers=1, standbys=2)
"""One worker has all, and goes on behind a pause in which another one took over."""


VARIANTS = [
    BrokenVariant(
        "an answer of each owner's own time", patch(Queries, _send=_to_each_owner), asking(Fault.WORKER_CRASH)
    ),
    BrokenVariant(
        "strict answers at once behind a recovery",
        patch(Queries, replays=_at_once),
        asking(Fault.WORKER_CRASH),
    ),
    BrokenVariant("strict answers without a proof", patch(Looks, ask=_unproved), ZOMBIES),
    BrokenVariant(
        "strict answers by a proof that was under way", patch(Looks, ask=_by_a_proof_under_way), ZOMBIES
    ),
    BrokenVariant(
        "answers as of what fronts have promised",
        patch(Acker, told=_as_of_promises),
        asked,
        several_sources,
        seeds=200,
    ),
]
