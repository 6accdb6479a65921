"""Variants of what keeps minimal time true: acks, ids, promises, questions."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from flamestream.core import message_id
from flamestream.core.acker_role import Acker
from flamestream.core.front import JournalledFront, TimedFront
from flamestream.core.fronts import Fronts
from flamestream.core.messages import Acks
from flamestream.core.outbox import Inbox, Outbox
from flamestream.core.worker import Worker
from flamestream.model.meta import time_of_meta
from flamestream.model.time import END, next_time
from flamestream.testing.faults import Fault
from flamestream.testing.graphs import raises_out_of_order
from sim.variants.variant import BrokenVariant, patch, with_faults


def _send_under_own_time(self: Worker, owner: Any, cause: Any, vertex: int, meta: Any, payload: object, tombstone: bool) -> None:
    self._outbox.send(owner, time_of_meta(meta), vertex, meta, payload, tombstone)


def _admits_all(self: Inbox, peer: Any, sequence: int) -> bool:
    self._sequences[peer] = sequence
    return True


_acks = Outbox.acks


def _late_acks(self: Outbox) -> Acks | None:
    """What this pass should say is said in the next."""
    now, before = _acks(self), getattr(self, "_kept", None)
    self._kept = now  # type: ignore[attr-defined]
    return before  # type: ignore[no-any-return]


_asked = Fronts.asked


def _promise_at_once(self: JournalledFront) -> Any:
    if self.replay:
        return self.replay[0].time
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


def _all_askable(self: Acker, fronts: Any, workers: Any, start: Any) -> None:
    _init(self, dict.fromkeys(fronts, True), workers, start)


def _timed_is_asked() -> Any:
    stack = ExitStack()
    stack.enter_context(patch(Fronts, asked=_asked_timed)())
    stack.enter_context(patch(Acker, __init__=_all_askable)())
    return stack


def _error_at_once(self: Acker) -> str | None:
    first = min(self._holds, default=None)
    return self._holds[first][0] if first is not None else None


REPLAYS = with_faults(Fault.WORKER_CRASH, Fault.LINK_BREAK, Fault.SOURCE_REREAD_SLOW, rate=0.9)

VARIANTS = [
    BrokenVariant("acks counted under the item's time instead of the cause", patch(Worker, send=_send_under_own_time)),
    BrokenVariant("message ids that cancel", patch(message_id, mix=lambda value: value)),
    BrokenVariant("duplicated frame acked twice", patch(Inbox, admits=_admits_all), with_faults(Fault.FRAME_DUPLICATE)),
    BrokenVariant("a front's promise overtaking its ack", patch(Outbox, acks=_late_acks)),
    BrokenVariant("promise before the journal is durable", patch(JournalledFront, promise=_promise_at_once), with_faults(Fault.WORKER_CRASH, Fault.JOURNAL_SLOW, rate=0.8)),
    BrokenVariant("an asked front moves journalled runs", patch(JournalledFront, replayed=_replayed_later), REPLAYS),
    BrokenVariant("a promise past journalled runs", patch(JournalledFront, promise=_promise_past_replay), REPLAYS),
    BrokenVariant("a timed front moved by a question", _timed_is_asked),
    BrokenVariant("errors acted on while speculative", patch(Acker, error=property(_error_at_once)), job=raises_out_of_order),
]
