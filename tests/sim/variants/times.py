"""Variants of what keeps minimal time true: acks, ids, promises, questions."""

from dataclasses import replace
from random import Random
from typing import Any

from flamestream.core.dataflow.outbox import Inbox, Outbox
from flamestream.core.protocol import ids as message_id
from flamestream.core.protocol.messages import Acks
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.front import JournalledFront, TimedFront
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.worker import Worker
from flamestream.model.graph import Graph
from flamestream.model.ids import Partition
from flamestream.model.meta import time_of_meta
from flamestream.model.time import END, Instant, next_time
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import SimJob, raises_out_of_order, same, spread
from flamestream.simulation.settings import Plan
from sim.variants.variant import (
    BrokenVariant,
    directed,
    patch,
    several_sources,
    spaced,
    together,
    with_fronts,
)

_step = Worker.step
_acks = Outbox.acks


def _send_under_own_time(
    self: Worker, owner: Any, cause: Any, vertex: int, meta: Any, payload: object, tombstone: bool
) -> None:
    own = time_of_meta(meta)
    if own != cause:
        self._outbox.__dict__.setdefault("elsewhere", set()).add(own)
    self._outbox.send(owner, own, vertex, meta, payload, tombstone)


def _acks_of_two_shards(self: Outbox) -> Acks | None:
    """What is counted under another time goes to another shard of the acker, and gets there a pass later."""
    acks, before = _acks(self), self.__dict__.pop("late", None)
    pairs = dict(zip(acks.causes, acks.ids, strict=True)) if acks is not None else {}
    elsewhere = self.__dict__.pop("elsewhere", set())
    late = {cause: pairs.pop(cause) for cause in elsewhere if cause in pairs}
    if late:
        self.__dict__["late"] = late
    for cause, ids in (before or {}).items():
        pairs[cause] = pairs.get(cause, 0) ^ ids
    return Acks(list(pairs), list(pairs.values())) if pairs else None


_own_time = together(patch(Worker, send=_send_under_own_time), patch(Outbox, acks=_acks_of_two_shards))


def _admits_all(self: Inbox, peer: Any, sequence: int) -> bool:
    self._sequences[peer] = sequence
    return True


def _late_acks(self: Outbox) -> Acks | None:
    """What this pass should say is said in the next."""
    now, before = _acks(self), getattr(self, "_kept", None)
    self._kept = now  # type: ignore[attr-defined]
    return before


_asked = Fronts.asked


def _promise_at_once(self: JournalledFront) -> Any:
    if self.replay:
        return self.replay[0].time
    return END if self.ended else next_time(max(self.last, self._floor), self.id)


def _promise_of_the_floor(self: JournalledFront) -> Any:
    """What it was asked for is promised without a word in the journal."""
    if self.replay or self._undurable:
        return self.replay[0].time if self.replay else self._undurable[0]
    return END if self.ended else next_time(max(self.last, self._floor), self.id)


_replayed = JournalledFront.replayed


def _replayed_later(self: JournalledFront) -> Any:
    """A journalled run gets a new time if the front was asked past its own."""
    entry = _replayed(self)
    if self._floor > entry.time and self.replay:
        self.last = next_time(self._floor, self.id)
        return replace(entry, time=self.last)
    return entry


def _promise_past_replay(self: JournalledFront) -> Any:
    """An asked front answers as if it had nothing to replay."""
    return END if self.ended and not self.replay else next_time(max(self.last, self._floor), self.id)


def _asked_timed(self: Fronts, number: Any, time: Any) -> None:
    front = self._fronts.get(number)
    if isinstance(front, TimedFront):
        front.last = max(front.last, time)
    _asked(self, number, time)


_init = Acker.__init__


def _all_askable(self: Acker, fronts: Any, *others: Any) -> None:
    _init(self, dict.fromkeys(fronts, True), *others)


_timed_is_asked = together(patch(Fronts, asked=_asked_timed), patch(Acker, __init__=_all_askable))


def _error_at_once(self: Acker) -> str | None:
    first = min(self._holds, default=None)
    return self._holds[first][0] if first is not None else None


REPLAYS = directed(Fault.WORKER_CRASH, Fault.LINK_BREAK, Fault.SOURCE_REREAD_SLOW, rate=0.9)
STRAGGLERS = directed(
    Fault.FRAME_DELAY, rate=0.1, spacing=800, coordinator={"workers": 4}, plan={"workers": 4, "delay": 100}
)
"""Now and then an item is late by far, and all that it overturns has been settled but for it."""
BROAD = directed(
    spacing=1_000,
    worker={"credit_bytes": 1 << 20, "slots": 16},
    coordinator={"workers": 6, "slots": 16},
    plan={"workers": 6, "standbys": 0},
)
"""The acker is one of five that each record leads to: the numbers of the other four now and then cancel."""


def broad(rng: Random) -> SimJob:
    """Every record leads to a message to each other worker."""
    graph = Graph("broad")
    many = (
        graph.source("s0")
        .flat_map(lambda p: [(p[0], f"{p[1]}.{i}") for i in range(40)])
        .balance(spread)
        .map(same)
    )
    many.sink("out", key=lambda p: "")
    return SimJob(graph, None, lambda r, number: ("k", str(number)), 1)


def _idle_beside_a_timed_one(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Workers whose clocks stand where clocks begin die, and then the first records of the journalled fronts
    come."""
    crashes = directed(
        Fault.CLOCK_UNSET, Fault.WORKER_CRASH, rate=0.6, spacing=2_000, coordinator={"interval_us": 400_000}
    )
    plan, faults = crashes(rng, drawn, chosen)
    front, *others = plan.worker.fronts
    first, *idle = plan.sites
    timed = replace(
        first,
        timed=True,
        partitions={Partition(""): [record for part in first.partitions.values() for record in part]},
    )
    sites = [timed, *(spaced(replace(site, timed=False), plan.heal_at, 1_000, 1) for site in idle)]
    fronts = (replace(front, timed=True), *(replace(other, timed=False, run_length=1) for other in others))
    return with_fronts(plan, sites, fronts), faults


VARIANTS = [
    BrokenVariant(
        "acks counted under the item's time instead of the cause",
        _own_time,
        STRAGGLERS,
        several_sources,
        seeds=400,
    ),
    BrokenVariant("message ids that cancel", patch(message_id, mix=lambda value: value), BROAD, broad),
    BrokenVariant(
        "duplicated frame acked twice", patch(Inbox, admits=_admits_all), directed(Fault.FRAME_DUPLICATE)
    ),
    BrokenVariant("a front's promise overtaking its ack", patch(Outbox, acks=_late_acks)),
    BrokenVariant(
        "promise before the journal is durable",
        patch(JournalledFront, promise=_promise_at_once),
        directed(Fault.WORKER_CRASH, Fault.JOURNAL_SLOW, rate=0.8),
    ),
    BrokenVariant(
        "a promise that nobody remembers",
        patch(JournalledFront, pledge=lambda self, clock: None, promise=_promise_of_the_floor),
        _idle_beside_a_timed_one,
        several_sources,
        guarantee="at-least-once",
    ),
    BrokenVariant(
        "an asked front moves journalled runs", patch(JournalledFront, replayed=_replayed_later), REPLAYS
    ),
    BrokenVariant(
        "a promise past journalled runs", patch(JournalledFront, promise=_promise_past_replay), REPLAYS
    ),
    BrokenVariant("a timed front moved by a question", _timed_is_asked),
    BrokenVariant(
        "heartbeats by a clock that can be set",
        patch(Worker, step=lambda self, now, instant, events: _step(self, now, Instant(now), events)),
        directed(Fault.CLOCK_SET, times=10, spacing=2_000),
    ),
    BrokenVariant("no question to idle fronts", patch(Acker, questions=lambda self: [])),
    BrokenVariant(
        "errors acted on while speculative",
        patch(Acker, error=property(_error_at_once)),
        directed(Fault.FRAME_DELAY, worker={"heartbeat": 1_000}),
        raises_out_of_order,
    ),
]
