"""Variants of calls: what is asked, when, and what of it is known behind a failure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.events import CallReturned
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.calls import Calls
from flamestream.core.worker.front import JournalledFront
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.requests import Request, Requests
from flamestream.model.calls.call import Answer, Intent, hash_of
from flamestream.model.ids import SourceName
from flamestream.model.time import END, START, Time
from flamestream.simulation.call_jobs import again_job, call_job, once_job, timed_call_job
from flamestream.simulation.faults import Fault
from flamestream.simulation.production_jobs import production_job
from sim.variants.variant import BrokenVariant, directed, patch

CRASHES = directed(Fault.WORKER_CRASH, Fault.LINK_BREAK, rate=0.6, times=5, spacing=1_500, journalled=True)
_journal, _entered = Fronts._journal, Fronts._entered
_entered_here, _returned, _resume = Calls.entered, Calls.returned, Calls.resume
_rows, _take = Requests.rows, Requests._take
_end_calls = Acker._end_calls


def _not_final(self: Calls, minimal: Time) -> None:
    """A request leaves as soon as it is there."""
    for number, barrier in self.barriers.items():
        self._by_vertex[number].put(barrier.release(END))


def _not_journalled(self: Fronts, front: JournalledFront, entry: Any, payloads: Any, size: int) -> None:
    """Answers enter, and nobody could know them again."""
    if front.id in self._of_calls:
        front.durable(entry.time)
        self._entered(front, entry, payloads, size)
    else:
        _journal(self, front, entry, payloads, size)


def _asked_again(self: Requests, time: Time, entered: Answer | Intent) -> None:
    """What the journal has is not looked at."""


def _in_their_order(self: Requests, request: Request) -> None:
    """The oldest answer is the next request's, whatever it names."""
    if self._answers:
        oldest = min(self._answers)
        named = self._answers.pop(oldest)
        self._answers[request.meta] = replace(named, hash=hash_of(request.payload))
        self._times[request.meta] = self._times.pop(oldest)
    _take(self, request)


def _errors_are_none(self: Calls, event: CallReturned) -> None:
    """A call that fails says nothing."""
    if event.error is None:
        _returned(self, event)


def _one_by_one(self: Calls, requests: Requests, request: Request, answer: Answer) -> None:
    """Each result is an answer of its own."""
    for whole in requests.returned(request, answer):
        parts = [replace(whole, results=(each,)) for each in whole.results]
        self._entering[request.front] += parts or [whole]


def _before_it_is_durable(self: Calls, source: SourceName, time: Time, payloads: Sequence[object]) -> None:
    """A call is made when its intent has entered."""
    _entered_here(self, source, time, payloads)
    if (requests := self._calls.get(source)) is not None:
        for waiting in requests._intending.values():
            while waiting:
                self._make(requests, waiting.popleft())


def _without_intents(self: Requests, epoch: Any, cut: Time) -> list[Any]:
    """A snapshot says nothing of what was begun."""
    return [row._replace(state=b"\x00" + row.state[1:]) for row in _rows(self, epoch, cut)]


def _only_unanswered(self: Requests, epoch: Any, cut: Time) -> list[Any]:
    """A snapshot forgets a request whose answer has entered, at whatever time."""
    return [row for row in _rows(self, epoch, cut) if self._requests[row.key].answered is None]


def _half_of_them(self: Calls, requests: Sequence[Chain]) -> None:
    """Nobody loads the requests of odd slots."""
    _resume(self, [chain for chain in requests if not chain.slot % 2])


def _end_with_the_sources(self: Acker) -> None:
    """No front waits for answers."""
    fronts = (front for front in self.table.fronts if front not in self._idle)
    if self._idle and all(self.table.promised(front) == END for front in fronts):
        for front in self._idle:
            self.table.promise(front, END)


def _idle_at_any_time(self: Acker) -> None:
    """Idle once is idle."""
    entered, self._entered = self._entered, START
    _end_calls(self)
    self._entered = entered


def _all_ends_at_once(self: Acker) -> None:
    """What an end leads to is not waited for."""
    _end_calls(self)
    if self._ends:
        self._ends = [front for front in self._idle if front in self._tell_end]


def _no_ends(self: Acker) -> None:
    """Event time behind a call never ends."""
    self._tell_end.clear()
    _end_calls(self)


def _with_credit(self: Fronts, front: Any, entry: Any, payloads: Any, size: int) -> None:
    """Answers take credit, as records do."""
    of_calls, self._of_calls = self._of_calls, set()
    try:
        _entered(self, front, entry, payloads, size)
    finally:
        self._of_calls = of_calls


VARIANTS = [
    BrokenVariant("a call for what is not final", patch(Calls, release=_not_final), CRASHES, call_job),
    BrokenVariant(
        "answers that are in no journal", patch(Fronts, _journal=_not_journalled), CRASHES, again_job
    ),
    BrokenVariant(
        "a call that is made again though it was answered",
        patch(Requests, sealed=_asked_again),
        CRASHES,
        again_job,
    ),
    BrokenVariant(
        "an answer that is known by its place", patch(Requests, _take=_in_their_order), CRASHES, again_job
    ),
    BrokenVariant("an error that is no answer", patch(Calls, returned=_errors_are_none), job=again_job),
    BrokenVariant(
        "a call before its intent is durable", patch(Calls, entered=_before_it_is_durable), CRASHES, once_job
    ),
    BrokenVariant("a snapshot without intents", patch(Requests, rows=_without_intents), CRASHES, once_job),
    BrokenVariant(
        "a snapshot without requests", patch(Requests, rows=lambda self, epoch, cut: []), CRASHES, again_job
    ),
    BrokenVariant(
        "a snapshot that forgets what was answered above its cut",
        patch(Requests, rows=_only_unanswered),
        CRASHES,
        again_job,
    ),
    BrokenVariant("held requests that nobody loads", patch(Calls, resume=_half_of_them), CRASHES, again_job),
    BrokenVariant(
        "answers that end with the sources", patch(Acker, _end_calls=_end_with_the_sources), job=again_job
    ),
    BrokenVariant(
        "an end at a time when answers were not waited for",
        patch(Acker, _end_calls=_idle_at_any_time),
        job=again_job,
    ),
    BrokenVariant(
        "calls that are all told of their end at once",
        patch(Acker, _end_calls=_all_ends_at_once),
        job=timed_call_job,
    ),
    BrokenVariant(
        "event time behind a call that never ends", patch(Acker, _end_calls=_no_ends), job=timed_call_job
    ),
    BrokenVariant(
        "results of an input that are journalled one by one",
        patch(Calls, _answer=_one_by_one),
        CRASHES,
        production_job,
    ),
    BrokenVariant("answers that take credit", patch(Fronts, _entered=_with_credit), job=again_job),
]
