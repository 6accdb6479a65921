"""Variants of calls: what is asked, when, and what of it is known behind a failure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.events import CallReturned, Entry
from flamestream.core.protocol.messages import Question
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.calls import Calls
from flamestream.core.worker.front import JournalledFront
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.requests import Request, Requests
from flamestream.core.worker.sealing import Sealing
from flamestream.model.calls.call import Answer, Intent, hash_of
from flamestream.model.calls.loops import Rounds
from flamestream.model.ids import Fence, Partition, SourceName
from flamestream.model.time import END, ROOM, START, FrontId, Time, Timestamp
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.jobs.calls import again_job, call_job, loop_job, once_job, timed_call_job
from flamestream.simulation.jobs.productions import production_job
from flamestream.simulation.outside.journals import Journals
from flamestream.simulation.outside.producers import SourceSite
from flamestream.simulation.settings import Adjust, Plan
from sim.variants.variant import BrokenVariant, directed, patch, with_fronts

CRASHES = directed(Fault.WORKER_CRASH, Fault.LINK_BREAK, rate=0.6, times=5, spacing=1_500, journalled=True)
_journal, _entered = Fronts._journal, Fronts._entered
_entered_here, _returned, _resume = Calls.entered, Calls.returned, Calls.resume
_rows, _take = Requests.rows, Requests._take
_end_calls, _questions = Acker._end_calls, Acker.questions
_write, _promise = Journals.write, JournalledFront.promise
_moved, _start, _sealed = JournalledFront._moved, Fronts.start, Sealing.sealed
_pledging = WorkerSettings.__dict__["pledging"].fget


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


def _each_try_answers(self: Calls, event: CallReturned) -> None:
    """What a later try gave enters too."""
    requests = self._calls[event.call]
    known = requests._requests.get(event.request)
    if known is not None and requests.under_way(event.request) is None:
        self._entering[known.front].append(known.answer(event.results, event.error))
    _returned(self, event)


def _promised_at_once(
    self: Fronts, front: JournalledFront, entry: Entry, payloads: Sequence[object], size: int
) -> None:
    """A promise passes answers and intents while they are written."""
    _journal(self, front, entry, payloads, size)
    if front.id in self._of_calls:
        front.durable(entry.time)


def _newer_seal_not_looked_for(self: Journals, front: FrontId, fence: Fence, entry: Entry) -> bool:
    """A writer that has been replaced is told that it has written."""
    return _write(self, front, fence, entry) or fence < self.logs[front].sealed


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


def _beside_timed(one: bool, strikes: Adjust = CRASHES) -> Adjust:
    """Crashes in a job whose sources are timed; `one`: the first of two, so that the other has a clock."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = strikes(rng, drawn, chosen)
        inputs = [
            site for site, front in zip(plan.sites, plan.worker.fronts, strict=True) if not front.of_call
        ]
        timed = {site.front for site in (inputs[:1] if one else inputs)}
        sites = [_timed(site) if site.front in timed else site for site in plan.sites]
        fronts = tuple(
            replace(front, timed=site.timed, run_length=site.run_length, step=site.step)
            for front, site in zip(plan.worker.fronts, sites, strict=True)
        )
        return with_fronts(plan, sites, fronts), faults

    return adjust


def _timed(site: SourceSite) -> SourceSite:
    records = [record for each in site.partitions.values() for record in each]
    records.sort(key=lambda record: record.available)
    return replace(
        site,
        timed=True,
        replayable=True,
        partitions={Partition(""): records},
        run_length=2,
        step=ROOM,
        open=False,
    )


def _by_the_clock(self: JournalledFront, clock: Timestamp) -> Time:
    """Answers are stamped as records are."""
    self._beside_timed = False
    return _moved(self, clock)


def _past_what_is_behind(self: Acker) -> list[Question]:
    """Fronts are asked to move past each run, however far the timed ones have come."""
    timed, self._timed = self._timed, []
    try:
        return _questions(self)
    finally:
        self._timed = timed


def _bound_of_all(self: Fronts, bound: Time, begins: Mapping[FrontId, Time], *, until: Time) -> None:
    """Answers enter above all that any front ever stamped."""
    self.sealing.reached = dict.fromkeys(self._fronts, bound)
    _start(self, bound, begins, until=until)


def _pledges_forgotten(self: Sealing, front: FrontId, entries: Sequence[Entry]) -> None:
    """What the journal says was promised is not looked at."""
    _sealed(self, front, entries)
    self.reached[front] = max([self._cut, *(entry.time for entry in self.entries[front])])


def _up_to_what_is_written(self: JournalledFront) -> Time:
    """What is below an entry is promised while that is written, and may never be."""
    waits = self._undurable and not self.replay
    return self._undurable[0] if waits else _promise(self)


def _only_for_consumers(self: WorkerSettings) -> frozenset[FrontId]:
    """Fronts of answers promise without a word where consumers remember."""
    return frozenset[FrontId]() if self.remembered else _pledging(self)


SLOW_JOURNALS = directed(
    Fault.WORKER_CRASH, Fault.JOURNAL_SLOW, rate=0.8, times=5, spacing=1_500, journalled=True
)
ZOMBIES = directed(
    Fault.LINK_BREAK,
    Fault.WORKER_PAUSE,
    Fault.JOURNAL_SLOW,
    rate=0.6,
    times=5,
    spacing=1_500,
    journalled=True,
)
TIMED, ONE_TIMED = _beside_timed(one=False), _beside_timed(one=True)
SLOW_TIMED = _beside_timed(one=True, strikes=SLOW_JOURNALS)


def _one_run(self: Rounds, front: FrontId, entering: Iterable[Any]) -> Iterator[list[Any]]:
    """Answers of a loop enter together, as others do."""
    yield list(entering)


VARIANTS = [
    BrokenVariant("rounds that nobody counts", patch(Rounds, runs=_one_run), job=loop_job),
    BrokenVariant(
        "a loop that asks as often as it likes",
        patch(Rounds, too_often=lambda self, call, request: None),
        job=loop_job,
    ),
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
        "a second answer to a request",
        patch(Calls, returned=_each_try_answers),
        CRASHES,
        again_job,
    ),
    BrokenVariant(
        "a promise that passes answers before they are durable",
        patch(Fronts, _journal=_promised_at_once),
        SLOW_JOURNALS,
        again_job,
    ),
    BrokenVariant(
        "an intent that counts as durable behind a newer seal",
        patch(Journals, write=_newer_seal_not_looked_for),
        ZOMBIES,
        once_job,
    ),
    BrokenVariant(
        "requests without an answer that hold back no source",
        patch(Requests, settled=property(lambda self: END)),
        job=again_job,
    ),
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
    BrokenVariant(
        "answers that enter by the clock beside a timed source",
        patch(JournalledFront, _moved=_by_the_clock),
        TIMED,
        again_job,
    ),
    BrokenVariant(
        "fronts that are asked past a timed one that is behind",
        patch(Acker, questions=_past_what_is_behind),
        ONE_TIMED,
        again_job,
    ),
    BrokenVariant(
        "answers behind the clocks of a recovery", patch(Fronts, start=_bound_of_all), ONE_TIMED, again_job
    ),
    BrokenVariant(
        "answers below what was promised", patch(Sealing, sealed=_pledges_forgotten), TIMED, again_job
    ),
    BrokenVariant(
        "answers whose front pledges only for consumers",
        patch(WorkerSettings, pledging=property(_only_for_consumers)),
        TIMED,
        again_job,
    ),
    BrokenVariant(
        "a promise up to an entry that is still written",
        patch(JournalledFront, promise=_up_to_what_is_written),
        SLOW_TIMED,
        again_job,
    ),
    BrokenVariant("answers that take credit", patch(Fronts, _entered=_with_credit), job=again_job),
]
