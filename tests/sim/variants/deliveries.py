"""Variants of what makes an output leave exactly once: bundles, fences, acknowledgements, credit."""

from dataclasses import replace
from typing import Any

from flamestream.core.coordinator.recovery import Recovery
from flamestream.core.dataflow.delivery import Delivery
from flamestream.core.dataflow.held_outputs import HeldOutputs
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.worker.rejoin import Rejoin
from flamestream.core.worker.snapshot import PendingSnapshot
from flamestream.core.worker.worker import Worker
from flamestream.model import payload as codec
from flamestream.model.meta import Meta
from flamestream.model.time import START
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import drifting
from flamestream.simulation.outside.consumers import ConsumerPort, ConsumerSite
from sim.variants.variant import BrokenVariant, directed, patch, together

_opened = Delivery.opened


def _one_t_last(self: Delivery, last: Any, compare: bool) -> None:
    """The newest of any slot for each of them."""
    _opened(self, last, compare)
    newest = max((bundle.t_last for bundle in last.values()), default=b"")
    for state in self._slots.values():
        state.delivered = state.t_last = Meta(newest)
        state.expected.clear()


_send = ConsumerPort._send


def _recut(self: ConsumerPort, action: Any) -> None:
    """Sent again, a bundle has only its first half."""
    tried: set[int] = self.__dict__.setdefault("_tried", set())
    if isinstance(action, Deliver) and self._pending is action and action.number in tried:
        halves = tuple(_half(bundle) for bundle in action.bundles)
        action = self._pending = replace(action, bundles=halves)
    if isinstance(action, Deliver):
        tried.add(action.number)
    _send(self, action)


def _half(bundle: Bundle) -> Bundle:
    items = codec.decode_items(bundle.items)
    kept = items[: max(1, len(items) // 2)]
    return Bundle(bundle.slot, bundle.sequence, kept[-1][0], codec.encode_items(kept))


_hear = Worker._hear_message


def _credit_at_the_barrier(self: Worker, message: msg.PeerMessage) -> None:
    _hear(self, message)
    if isinstance(message, msg.MinimalTime):
        self._fronts.settled(message.time)


_prepare, _resume = HeldOutputs.prepare, HeldOutputs.resume


def _at_the_cut(self: HeldOutputs, epoch: Any) -> Any:
    """What is prepared leaves at once."""
    rows = _prepare(self, epoch)
    for number, call in self._prepared:
        self._ready[self.deliveries[number].sink].append(call)
    self._prepared = []
    return rows


def _in_memory_only(self: HeldOutputs, epoch: Any) -> Any:
    """The snapshot does not hold it."""
    _prepare(self, epoch)
    return []


_directed = Worker._directed


def _resume_at_replay(self: Worker, message: Any) -> None:
    running = self._rejoin.running
    _directed(self, message)
    if self._rejoin.running and not running:
        _resume(self._outputs, self._outputs.__dict__.pop("put_off"))  # type: ignore[arg-type]


_resumed_late = together(
    patch(HeldOutputs, resume=lambda self, held: self.__dict__.update(put_off=held)),
    patch(Worker, _directed=_resume_at_replay),
)
_commit = HeldOutputs.commit


def _no_wait(self: HeldOutputs, cut: Any) -> None:
    """Without the assertion that would notice at once."""
    held, self._ready = self._ready, {sink: type(calls)() for sink, calls in self._ready.items()}
    flying, self._in_flight = self._in_flight, {}
    _commit(self, cut)
    self._in_flight = flying
    for sink, calls in held.items():
        self._ready[sink].extendleft(reversed(calls))


def _not_compared(self: Delivery, last: Any, compare: bool) -> None:
    """A replay is filtered by what was delivered, and may differ from it."""
    _opened(self, last, compare)
    for state in self._slots.values():
        state.expected.clear()


_begin = Rejoin.begin


def _opens_new_slots_only(self: Rejoin, message: Any, sinks: Any) -> Any:
    """A survivor goes on delivering to the slots that it had."""
    had, cut = set(self._have), self._cuts.holds(message.cut)
    actions = _begin(self, message, sinks)
    kept = had if cut else set()
    return [
        replace(one, slots=[slot for slot in one.slots if slot not in kept])
        if isinstance(one, OpenSink)
        else one
        for one in actions
    ]


TAKEOVERS = directed(
    Fault.WORKER_CRASH, Fault.CONSUMER_SLOW, rate=0.5, times=6, spacing=1_000, worker={"delivery_items": 1},
    coordinator={"grace_us": 1_000, "workers": 3, "interval_us": 1_000_000},
    plan={"workers": 3, "standbys": 0},
)  # fmt: skip
"""Slots of a lost worker, which was behind, go to survivors, which are ahead."""
LATE_REPLAYS = directed(
    Fault.CONTROL_DELAY, Fault.WORKER_CRASH, rate=0.5, late=["Replay"], coordinator={"interval_us": 5_000},
    plan={"standbys": 1}
)  # fmt: skip
SURVIVORS = directed(
    Fault.WORKER_CRASH,
    Fault.LINK_BREAK,
    spacing=1_000,
    coordinator={"interval_us": 5_000},
    plan={"standbys": 1},
)
OUTSIDE_CHANGES = directed(
    Fault.FUNCTION_CHANGE, Fault.WORKER_CRASH, spacing=2_000, coordinator={"interval_us": 100_000}
)
TWO_PHASES = "exactly-once-2pc"
ZOMBIES = directed(
    Fault.WORKER_PAUSE, Fault.CONSUMER_SLOW, rate=0.2, times=8, spacing=1_000,
    worker={"heartbeat": 5_000, "delivery_items": 1},
    coordinator={"heartbeat_us": 15_000, "grace_us": 1_000, "workers": 2}, plan={"workers": 2, "standbys": 2},
)  # fmt: skip
"""Workers stand still until they are replaced, and then go on with what was in their inbox."""

VARIANTS = [
    BrokenVariant(
        "no wait for the consumers' acks before a commit",
        patch(PendingSnapshot, _all_acknowledged=lambda self, settled: True),
        directed(Fault.CONSUMER_SLOW, Fault.CONSUMER_CRASH, rate=0.5),
    ),
    BrokenVariant("t_last per worker", patch(Delivery, opened=_one_t_last), TAKEOVERS),
    BrokenVariant(
        "no fencing at the consumer", patch(ConsumerSite, refuses=lambda self, fence, slot: False), ZOMBIES
    ),
    BrokenVariant(
        "a survivor opens only the slots that are new to it",
        patch(Rejoin, begin=_opens_new_slots_only),
        SURVIVORS,
    ),
    BrokenVariant(
        "a replay is not compared with what was delivered",
        patch(Delivery, opened=_not_compared),
        OUTSIDE_CHANGES,
        drifting,
    ),
    BrokenVariant(
        "the index's t_last is not compared with the consumers'",
        patch(Recovery, _check_outputs=lambda self: None),
        directed(Fault.CONSUMER_LOSS, Fault.WORKER_CRASH, spacing=2_000, coordinator={"interval_us": 5_000}),
    ),
    BrokenVariant(
        "bundles recut on retry", patch(ConsumerPort, _send=_recut), directed(Fault.CONSUMER_CRASH, rate=0.5)
    ),
    BrokenVariant(
        "two phases: output leaves with the cut",
        patch(HeldOutputs, prepare=_at_the_cut),
        guarantee=TWO_PHASES,
    ),
    BrokenVariant(
        "two phases: held output in memory only",
        patch(HeldOutputs, prepare=_in_memory_only),
        guarantee=TWO_PHASES,
    ),
    BrokenVariant(
        "two phases: held output is not delivered by the next attempt",
        patch(HeldOutputs, resume=lambda self, held: _resume(self, [])),
        directed(
            Fault.WORKER_CRASH,
            Fault.CONSUMER_SLOW,
            Fault.CONSUMER_CRASH,
            spacing=2_000,
            coordinator={"interval_us": 5_000},
        ),
        guarantee=TWO_PHASES,
    ),
    BrokenVariant(
        "two phases: held output resumed at Replay, where peers that heard theirs first were heard before",
        _resumed_late,
        LATE_REPLAYS,
        guarantee=TWO_PHASES,
    ),
    BrokenVariant(
        "two phases: no wait for what the epoch before held",
        patch(HeldOutputs, needed=lambda self, cut: START, commit=_no_wait),
        directed(Fault.CONSUMER_SLOW, Fault.CONSUMER_CRASH, rate=0.5),
        guarantee=TWO_PHASES,
    ),
    BrokenVariant(
        "at least once: no wait for the consumers' acks before a commit",
        patch(PendingSnapshot, _all_acknowledged=lambda self, settled: True),
        directed(Fault.CONSUMER_SLOW, Fault.CONSUMER_CRASH, rate=0.5),
        guarantee="at-least-once",
    ),
    BrokenVariant(
        "credit that returns from the barrier only",
        patch(Worker, _hear_message=_credit_at_the_barrier),
        directed(Fault.CONSUMER_SLOW, Fault.CONSUMER_CRASH, rate=0.9, worker={"credit_runs": 2}),
    ),
]
