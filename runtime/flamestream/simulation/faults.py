"""The faults of a simulated run, and how often each happens.

Swarm testing: each seed draws a random subset of the faults and a rate for each, so that one seed is all
about the store and another about pauses and partitions. A run that enables everything at once finds less,
because one fault hides another.

Inline faults are asked for where they happen (`plan.hits(Fault.FRAME_LOSS)`), scheduled ones have a moment
and are carried out by the simulator. After `heal()` nothing goes wrong any more: the liveness phase.

Source: Groce et al., "Swarm testing", ISSTA 2012; TigerBeetle's simulator for the two phases.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import get_args

from flamestream.core.protocol.messages import ToCoordinator, ToWorker
from flamestream.simulation.trace import Trace

WORDS = tuple(kind.__name__ for kind in (*get_args(ToCoordinator), *get_args(ToWorker)))
"""Names of the messages between workers and coordinators."""


class Fault(enum.Enum):
    """Every kind of fault. The value is its name in coverage counters and in
    docs/explanation/reliability.md."""

    FRAME_LOSS = "a frame between workers is lost, later ones arrive"
    FRAME_DUPLICATE = "a frame between workers arrives twice"
    FRAME_DELAY = "a frame is late by far more than usual"
    LINK_BREAK = "a link between workers breaks"
    PARTITION = "two workers cannot reach each other"
    PARTITION_ONE_WAY = "one direction between two workers is silent"
    CONTROL_BREAK = "a link between worker and coordinator breaks"
    CONTROL_SILENCE = "one direction between worker and coordinator is silent"
    WORKER_CRASH = "a worker is killed"
    WORKER_CRASH_IN_STEP = "a worker is killed between two actions of one step"
    WORKER_PAUSE = "a worker stands still longer than the heartbeat timeout, then goes on"
    COORDINATOR_CRASH = "the coordinator is killed"
    COORDINATOR_CRASH_IN_STEP = "the coordinator is killed between two actions of one step"
    COORDINATOR_PAUSE = "the coordinator stands still, then goes on"
    COORDINATOR_PAUSE_AT_WRITE = (
        "the coordinator stands still between asking for a write of the job record and the answer"
    )
    SECOND_COORDINATOR = "two coordinators at once"
    SPLIT_BRAIN = "two halves of the cluster cannot reach each other, each with a coordinator and workers"
    CLOCK_JUMP = "a worker's clock jumps"
    CLOCK_SKEW = "workers' clocks differ"
    CLOCK_SET = "the clock of a worker or coordinator is set, hours forward or back"
    CLOCK_UNSET = "a worker's clock stands where clocks begin"
    JOURNAL_SLOW = "a journal takes long"
    JOURNAL_ANSWER_LOST = "a journal does what it is asked for, and the answer is lost"
    JOURNAL_DAMAGE = "an entry of a journal changes"
    JOURNAL_FULL = "a journal's disk is full for a while"
    STORE_ERROR_AFTER_SUCCESS = "the store stores and answers with an error"
    STORE_TIMEOUT = "the store does not answer, and does nothing"
    STORE_LATE_WRITE = "the store does not answer, and writes much later"
    STORE_TORN_UPLOAD = "an upload stops in the middle"
    STORE_STALE_LISTING = "a listing lacks new objects"
    STORE_DELETE_LATE = "an object is deleted much later"
    STORE_DELETE_FAILED = "an object that should go stays"
    STORE_DAMAGE = "an object's bytes change"
    STORE_SLOW = "the store is slow"
    STORE_FULL = "the store is full for a while"
    RECORD_UNKNOWN = "the job record is written but the answer is lost"
    RECORD_STALE = "a read of the job record gives an older one"
    RECORD_AWAY = "the cluster state does not answer"
    SESSION_LOSS = "the coordinator's session is lost"
    CONSUMER_SLOW = "a consumer is slow"
    CONSUMER_CRASH = "a consumer dies between taking a delivery and acknowledging it"
    CONSUMER_DUPLICATE = "a delivery reaches the consumer twice"
    CONSUMER_LOSS = "a consumer loses the last bundles of a slot"
    FUNCTION_CHANGE = "what a user's function depends on changes"
    SOURCE_REREAD_SLOW = "reading a run again takes long"
    CONTROL_DELAY = "a message between worker and coordinator is late, and all behind it on that connection"
    WORKER_STALL_IN_STEP = "a worker stands still between two actions of one step, then goes on"
    COORDINATOR_STALL_IN_STEP = "the coordinator stands still between two actions of one step, then goes on"


SCHEDULED: tuple[Fault, ...] = (
    Fault.LINK_BREAK, Fault.PARTITION, Fault.PARTITION_ONE_WAY, Fault.CONTROL_BREAK, Fault.CONTROL_SILENCE,
    Fault.WORKER_CRASH, Fault.WORKER_PAUSE, Fault.COORDINATOR_CRASH, Fault.COORDINATOR_PAUSE,
    Fault.SECOND_COORDINATOR, Fault.SPLIT_BRAIN, Fault.CLOCK_JUMP, Fault.JOURNAL_FULL, Fault.JOURNAL_DAMAGE,
    Fault.STORE_FULL, Fault.STORE_DAMAGE, Fault.SESSION_LOSS, Fault.CONSUMER_LOSS, Fault.FUNCTION_CHANGE,
    Fault.CLOCK_SET,
)  # fmt: skip
"""Those with a moment of their own; the rest are drawn where they can happen."""

_WEIGHT: Mapping[Fault, float] = {
    Fault.WORKER_CRASH: 0.55, Fault.WORKER_PAUSE: 0.35, Fault.COORDINATOR_CRASH: 0.3,
    Fault.STORE_DAMAGE: 0.05, Fault.CLOCK_SKEW: 0.5, Fault.CONTROL_DELAY: 0.4,
    Fault.JOURNAL_DAMAGE: 0.05, Fault.CONSUMER_LOSS: 0.05, Fault.FUNCTION_CHANGE: 0.5,
}  # fmt: skip
"""How likely a seed enables a fault; 0.2 if not named."""

_RATE: Mapping[Fault, float] = {
    Fault.FRAME_LOSS: 0.01, Fault.FRAME_DUPLICATE: 0.1, Fault.FRAME_DELAY: 0.03,
    Fault.WORKER_CRASH_IN_STEP: 0.006, Fault.COORDINATOR_CRASH_IN_STEP: 0.02,
    Fault.COORDINATOR_PAUSE_AT_WRITE: 0.1, Fault.JOURNAL_SLOW: 0.1, Fault.STORE_ERROR_AFTER_SUCCESS: 0.2,
    Fault.STORE_TIMEOUT: 0.15, Fault.STORE_LATE_WRITE: 0.15, Fault.STORE_TORN_UPLOAD: 0.15,
    Fault.STORE_STALE_LISTING: 0.5, Fault.STORE_SLOW: 0.3, Fault.STORE_DELETE_LATE: 0.5,
    Fault.STORE_DELETE_FAILED: 0.5, Fault.RECORD_STALE: 0.3, Fault.JOURNAL_ANSWER_LOST: 0.1,
    Fault.RECORD_UNKNOWN: 0.15, Fault.RECORD_AWAY: 0.15, Fault.CONSUMER_SLOW: 0.15, Fault.CONSUMER_CRASH: 0.1,
    Fault.CONSUMER_DUPLICATE: 0.15, Fault.SOURCE_REREAD_SLOW: 0.2, Fault.CLOCK_SKEW: 1.0,
    Fault.CLOCK_UNSET: 1.0, Fault.CONTROL_DELAY: 0.7, Fault.WORKER_STALL_IN_STEP: 0.01,
    Fault.COORDINATOR_STALL_IN_STEP: 0.05,
}  # fmt: skip
"""The greatest rate a seed draws for an inline fault."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A scheduled fault."""

    at: int
    """Microseconds of virtual time."""
    fault: Fault


class FaultPlan:
    """The faults of one run."""

    def __init__(
        self, rng: Random, trace: Trace, rates: Mapping[Fault, float], moments: list[Moment]
    ) -> None:
        self.rates = dict(rates)
        self.moments = moments
        self.late = 20
        """Times the usual delay: how late a late frame is."""
        self.late_words: frozenset[str] = frozenset(WORDS)
        """Which of them CONTROL_DELAY holds back: a seed draws a few, for one late Replay shows what a
        hundred late heartbeats hide."""
        self._rng = rng
        self._trace = trace

    @property
    def enabled(self) -> list[str]:
        """Names, for people."""
        return sorted({f.name for f in self.rates} | {m.fault.name for m in self.moments})

    def hits(self, fault: Fault) -> bool:
        """Whether `fault` happens here and now."""
        rate = self.rates.get(fault)
        if rate is None or self._rng.random() >= rate:
            return False
        self.happened(fault)
        return True

    def happened(self, fault: Fault) -> None:
        """Count a fault that really took place."""
        self._trace.cover(f"fault.{fault.name}")

    def heal(self) -> None:
        """Let nothing go wrong from now on."""
        self.rates.clear()
        self.moments.clear()


def drawn_faults(rng: Random, trace: Trace, start: int, heal_at: int) -> FaultPlan:
    """A random subset of all faults, each with a random rate or random moments between `start` and
    `heal_at`."""
    if rng.random() < 0.05:
        return FaultPlan(rng, trace, {}, [])  # a run in which nothing goes wrong
    chosen = [fault for fault in Fault if rng.random() < _WEIGHT.get(fault, 0.2)]
    rates = {fault: _RATE[fault] * rng.uniform(0.1, 1.0) for fault in chosen if fault not in SCHEDULED}
    if Fault.CLOCK_SKEW in rates:
        # Each life draws a skew of its own (cluster.py): a hit only counts it.
        rates[Fault.CLOCK_SKEW] = 1.0
    bursts = [rng.randrange(start, heal_at) for _ in range(2)]
    moments = [
        Moment(_moment(rng, start, heal_at, bursts), fault)
        for fault in chosen
        if fault in SCHEDULED
        for _ in range(rng.randint(1, 3))
    ]
    plan = FaultPlan(rng, trace, rates, sorted(moments, key=lambda m: m.at))
    plan.late_words = frozenset(rng.sample(WORDS, rng.randint(1, 3)))
    return plan


def _moment(rng: Random, start: int, heal_at: int, bursts: list[int]) -> int:
    """Anywhere, or close to a burst: faults that meet (a crash during a recovery) find more than faults
    alone."""
    if rng.random() < 0.5:
        return rng.randrange(start, heal_at)
    return min(heal_at - 1, rng.choice(bursts) + rng.randrange(30_000))
