"""The fronts of one worker in one attempt: credit, journal, replay, questions and promises.

    records -> stamp -> run enters the dataflow (at once) ; entry -> journal -> durable -> the promise may
    pass the run

The journal write overlaps processing: only the promise waits for it, and so does everything that the run
leads to (!). After a recovery the journalled runs above the cut are read again, a few ahead, and enter in
order at their own times; new records are asked for only behind them.

Keeps: a promise never passes a run that is not durable; stamping only within credit (invariants 1, 3 and 8).
Does not: talk to producers or journals; it gathers actions.

It is longer than other modules: what a front may do next hangs on all of this at once, in each pass.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from flamestream.core.protocol.actions import (
    Action,
    Append,
    Follow,
    Pull,
    ReadRun,
    Saved,
    TrimJournal,
    WakeAt,
)
from flamestream.core.protocol.events import Entry, RecordsArrived
from flamestream.core.protocol.messages import Promise
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.beginning import NOWHERE, fronts_at, pledging_of, saved_at
from flamestream.core.worker.credit import Credit
from flamestream.core.worker.front import Front, JournalledFront, TimedFront
from flamestream.core.worker.queries.proofs import Proofs
from flamestream.core.worker.room import MARK_BYTES, READ_AHEAD, RECORDS_A_RUN, Room, runs_of, size_of
from flamestream.core.worker.sealing import Sealing
from flamestream.core.worker.silence import Markers
from flamestream.core.worker.skipping import delivered_above
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.event_time import ENDED, Marker, Timing
from flamestream.model.ids import Fence, Offset, Partition, SourceName
from flamestream.model.time import END, START, FrontId, Time, Timestamp, front_of

Enter = Callable[[SourceName, Entry, Sequence[object]], int]
"""Takes a run; how many marks of event time it tells."""
NOTHING_NEW: Final[Mapping[FrontId, Time]] = {}
NO_TIMINGS: Final[Mapping[SourceName, Timing]] = {}


class Fronts:
    """All fronts of one worker. `actions` gathers what must be done; `enter` takes each run."""

    def __init__(
        self, fence: Fence, settings: WorkerSettings, mine: Iterable[FrontId],
        positions: Mapping[FrontId, FrontPosition], enter: Enter,
        timings: Mapping[SourceName, Timing] = NO_TIMINGS, reached: Mapping[FrontId, FrontPosition] = NOWHERE,
        settles: Time = START,
    ) -> None:  # fmt: skip
        """`positions`: at the cut. `timings`: of the sources with event time. `reached`: how far fronts had
        come above it, where that is skipped. `settles`: nothing new is read until all below it is settled."""
        self.actions: list[Action] = []
        self.stalled: dict[FrontId, str] = {}
        """Fronts whose journal fails, and why."""
        self.replayed = 0
        """Items of journalled runs that have entered again."""
        self._fence = fence
        self._skips, self._journals = settings.skips, settings.durable and not settings.skips
        self._enter = enter
        mine = frozenset(mine)
        its = {front.front: front for front in settings.fronts if front.front in mine}
        told = {number: timings[front.source] for number, front in its.items() if front.source in timings}
        self._settings = its
        self._of_calls = {number for number, front in its.items() if front.of_call}
        self._beside_timed = settings.beside_timed
        self._fronts = fronts_at(settings, its, positions, reached, told)
        self._pledging = pledging_of(settings, self._fronts)
        self.proofs = Proofs(fence, self._fronts)
        self._saved = saved_at(settings, its, positions)
        self._markers = {number: Markers(timing) for number, timing in told.items()}
        self._alarm: Timestamp | None = None
        """When a pass has been asked for."""
        self._credit = {front: Credit(settings.credit_runs, settings.credit_bytes) for front in self._fronts}
        self._pulled: dict[FrontId, tuple[int, int]] = {}
        self._to_read: dict[FrontId, list[Entry]] = {}
        self._held: dict[FrontId, deque[RecordsArrived]] = {front: deque() for front in self._fronts}
        self._waiting_bytes = dict.fromkeys(self._fronts, 0)
        self.room = Room()
        """The room of this worker's passes, which outlives the attempt."""
        self._ending: set[FrontId] = set()
        self._telling: set[FrontId] = set()
        """Fronts of calls that are to tell the end of their event time."""
        self._told: dict[FrontId, Promise] = {}
        self._away = mine.difference(its) if self._journals else frozenset[FrontId]()
        """Fronts whose source is gone; who knows whether they had a journal."""
        self.sealing = Sealing(
            fence,
            {number: front.source for number, front in self._settings.items() if self._journalled(number)},
            self._away,
        )
        self._following: set[FrontId] = set()
        self._settles, self._cut = settles, START
        self._until = END
        """Nothing above is taken."""
        self.drained = False
        self.paused = False
        """Nothing new may enter for now."""
        self.started = False

    # --- recovery -------------------------------------------------------------------------------------------

    def seal(self, cut: Time, released: Iterable[Time]) -> None:
        """Fix what counts of the journals. Consumers have results of the runs at `released`. Raises UserError
        if nobody could give these again."""
        self._cut, released = cut, set(released)
        if self._skips and released:
            raise UserError(delivered_above(len(released), min(released)))
        self.actions += self.sealing.begin(cut, released)

    def start(self, bound: Time, begins: Mapping[FrontId, Time] = NOTHING_NEW, *, until: Time = END) -> None:
        """Every worker is ready: replay, then go on. `begins`: behind which times fronts begin that are new;
        `until`: let nothing enter above, and take nothing new."""
        self.started, self._until, self.drained = True, until, until < END
        for number, front in self._fronts.items():
            if begins.get(number, START) > front.last:
                front.begin_behind(begins[number])
            if bound == END:  # all input was through at the cut: only what the snapshot holds is left to do
                self._over(number, front)
                continue
            if isinstance(front, JournalledFront):
                entries = self.sealing.entries.get(number, ())
                # (!) Others' clocks are in the bound: answers above these would wait for a timed front's end.
                front.start(
                    entries,
                    self.sealing.reached.get(number, START) if number in self._beside_timed else bound,
                )
                self._to_read[number] = list(reversed(entries))
            else:
                front.until = until
            self._read_on(number)

    def _over(self, number: FrontId, front: Front) -> None:
        if isinstance(front, TimedFront):
            front.end(told=True)
        else:
            self._ending.add(number)
            front.ended = True

    # --- records --------------------------------------------------------------------------------------------

    def records(self, event: RecordsArrived) -> None:
        """New records; they are stamped in `advance`, as far as credit allows."""
        front = self._fronts.get(event.front)
        if front is None or event.front not in self._following:
            return
        self._pulled.pop(event.front, None)
        if isinstance(front, TimedFront):
            front.take(event.first, event.payloads)
            self._waiting_bytes[event.front] += event.size
        else:
            self._held[event.front].append(event)

    def answered(self, number: FrontId, payloads: Sequence[object], whole: bool = False) -> None:
        """Answers of a call, or intents: they enter in this pass or the next, whatever credit there is;
        `whole`: as one run, whatever their bytes."""
        front, held = self._fronts[number], self._held[number]
        assert isinstance(front, JournalledFront), "a call's front is journalled"
        next_one = (
            Offset(held[-1].first + len(held[-1].payloads))
            if held
            else front.offsets.get(Partition(""), Offset(0))
        )
        for run, size in [(payloads, size_of(payloads))] if whole else runs_of(payloads):
            held.append(RecordsArrived(self._fence, number, Partition(""), next_one, run, size))
            next_one = Offset(next_one + len(run))

    def read_again(self, number: FrontId, entry: Entry, payloads: Sequence[object]) -> None:
        """The records of a journalled run: it enters at its own time."""
        front = self._fronts.get(number)
        if not isinstance(front, JournalledFront) or not front.replay or front.replay[0] != entry:
            return
        assert len(payloads) == entry.count, f"front {number} read {len(payloads)} records for {entry}"
        self.replayed += entry.count
        self._entered(front, front.replayed(), payloads, 0)
        self._read_on(number)

    def ended(self, number: FrontId) -> None:
        """A bounded source has no more."""
        front = self._fronts.get(number)
        if number not in self._following:
            return
        if isinstance(front, TimedFront):
            front.end()
        else:
            self._ending.add(number)

    def durable(self, number: FrontId, time: Time) -> None:
        """The journal holds every entry up to `time`."""
        front = self._fronts[number]
        assert isinstance(front, JournalledFront)
        front.durable(time)
        self.stalled.pop(number, None)
        self.proofs.durable(number, time)

    def _journal(self, front: JournalledFront, entry: Entry, payloads: Sequence[object], size: int) -> None:
        if self._journals:
            replayable = self._settings[front.id].replayable
            stored = (
                entry
                if replayable or not entry.moves
                else replace(entry, payloads=codec.encode_many(payloads))
            )
            self.actions.append(Append(self._fence, front.id, stored))
        else:
            front.durable(entry.time)
        # at once, beside the write: only the promise waits for that
        self._entered(front, entry, payloads, size)

    def _entered(self, front: Front, entry: Entry, payloads: Sequence[object], size: int) -> None:
        if front.id not in self._of_calls:
            # (!) An answer's request was let in already: to wait for credit, which waits for answers, would
            # be for ever.
            self._credit[front.id].take(entry.time, size, len(payloads))
        if (markers := self._markers.get(front.id)) is not None:
            markers.entered(entry.time)
        marks = self._enter(self._settings[front.id].source, entry, payloads)
        self.room.enter(size + marks * MARK_BYTES)

    def advance(self, now: Timestamp) -> None:
        """Let enter what credit and the room of this pass allow: journalled runs first, then new records. Comes
        before the pass processes, for runs enter here."""
        for number, front in self._fronts.items():
            if self._to_read.get(number):
                self._read_on(number)
            elif isinstance(front, JournalledFront):
                self._stamp_journalled(front, now)
        self._stamp_timed([front for front in self._fronts.values() if isinstance(front, TimedFront)])
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Ask for a pass when the next step of the clock is to be told, once."""
        told = (
            markers.next
            for number, markers in self._markers.items()
            if self._tells(self._fronts[number]) and not self.drained
        )
        alarm = min((time for time in told if time is not None), default=None)
        if alarm is not None and alarm != self._alarm:
            self.actions.append(WakeAt(alarm))
        self._alarm = alarm

    def _tells(self, front: Front) -> bool:
        """Whether it says what becomes so while nothing comes."""
        return self._tells_end(front) and front.id in self._following

    def _tells_end(self, front: Front) -> bool:
        return isinstance(front, JournalledFront) and front.tells_end

    @property
    def waits_for_a_pass(self) -> bool:
        """Whether something could enter in the next pass."""
        return any(self._could_enter(number, front) for number, front in self._fronts.items())

    def _could_enter(self, number: FrontId, front: Front) -> bool:
        runs = self._credit[number].left[0]
        if left := self._to_read.get(number):
            assert isinstance(front, JournalledFront)
            return left[-1].time <= self._until and len(front.replay) - len(left) < min(READ_AHEAD, runs)
        waits = front.ready if isinstance(front, TimedFront) else bool(self._held[number])
        return bool(runs) and waits and not self.paused

    def _stamp_timed(self, fronts: Sequence[TimedFront]) -> None:
        """Runs enter by their times as far as they are here: one that is far behind another's would be late
        for all that this one led to."""
        while ready := [front for front in fronts if front.ready and self._may_enter(front.id)]:
            front = min(ready, key=TimedFront.promise)
            entry, payloads = front.stamp()
            if entry.time < self._cut:  # what is below is committed (!)
                raise UserError(_grown(self._settings[front.id].source, entry.first))
            size = self._waiting_bytes[front.id] * len(payloads) // (len(payloads) + front.waiting)
            self._waiting_bytes[front.id] -= size
            self._entered(front, entry, payloads, size)

    def _may_enter(self, number: FrontId) -> bool:
        return self.room.left > 0 and self._credit[number].left[0] > 0 and not self.paused

    def _stamp_journalled(self, front: JournalledFront, now: Timestamp) -> None:
        held, markers = self._held[front.id], self._markers.get(front.id)
        while held and self._may_enter(front.id):
            event = held.popleft()
            if markers is not None:
                markers.heard(event.partition, now)
            if event.end is not None:
                entry = front.stamp(now, event.partition, event.first, len(event.payloads), event.end)
                self._journal(front, entry, event.payloads, event.size)
                continue
            have = front.offsets.get(event.partition, Offset(0))
            assert event.first <= have, (
                f"front {front.id} got offset {event.first} of {event.partition!r} and waits for {have}"
            )
            # a reader that began anew repeats what has entered
            if payloads := event.payloads[have - event.first :]:
                self._journal(
                    front, front.stamp(now, event.partition, have, len(payloads)), payloads, event.size
                )
        if front.tells_end and not held and (front.id in self._ending or front.id in self._telling):
            self._mark(front, now, [(Partition(""), ENDED)])
        front.ended = front.id in self._ending and not held
        if markers is not None and self._tells(front) and self._may_enter(front.id):
            self._mark(front, now, markers.due(now, front.offsets, drained=self.drained))

    def _mark(self, front: JournalledFront, now: Timestamp, told: Iterable[tuple[Partition, Marker]]) -> None:
        """A run without records for each of these, which says what is so of its partition."""
        for partition, marker in told:
            self._journal(front, front.mark(now, partition, marker), [marker], 0)

    def _read_on(self, number: FrontId) -> None:
        """Keep a few journalled runs ahead in reading, within credit; behind the last one, follow the
        source."""
        front = self._fronts[number]
        if isinstance(front, JournalledFront) and front.replay:
            self._replay_on(front, self._to_read[number])
        elif self._takes(front) and number not in self._following and self._may_follow(number):
            offsets = front.offsets if isinstance(front, JournalledFront) else front.positions.at(END).offsets
            self._following.add(number)
            if number not in self._of_calls:
                follow = Follow(self._fence, number, dict(offsets), self._saved.get(number))
                self.actions.append(follow)

    def _takes(self, front: Front) -> bool:
        """Whether it takes new records. (!) Those of a timed front are all that it has to replay."""
        return front.promise() <= self._until if isinstance(front, TimedFront) else not self.drained

    def _may_follow(self, number: FrontId) -> bool:
        """(!) A call may have more requests from below the cut than may wait, of which no credit knows."""
        return self._settles == START or number in self._of_calls

    def _replay_on(self, front: JournalledFront, left: list[Entry]) -> None:
        """Runs whose payloads are in the journal itself enter at once; the others are asked for."""
        while (
            left
            and left[-1].time <= self._until
            and self.room.left > 0
            and len(front.replay) - len(left) < min(READ_AHEAD, self._credit[front.id].left[0])
        ):
            entry = left.pop()
            if entry.payloads:
                if entry is not front.replay[0]:  # a marker behind runs that are being read
                    left.append(entry)
                    return
                self.replayed += entry.count
                self._entered(front, front.replayed(), codec.decode_many(entry.payloads), len(entry.payloads))
            else:
                self.actions.append(ReadRun(self._fence, front.id, entry))
        if not front.replay:
            self._read_on(front.id)

    # --- time and credit ------------------------------------------------------------------------------------

    def asked(self, number: FrontId, time: Time) -> None:
        """The acker asks a front to move past `time`. A timed front is moved by nothing but its input (!).
        END: a call's front is to tell the end of its event time."""
        front = self._fronts.get(number)
        if time == END:
            self._telling.add(number)
        elif isinstance(front, JournalledFront):
            front.asked(time)

    def promises(self, now: Timestamp, idle: Time = START) -> list[Promise]:
        """The promises of fronts that have moved since the last call. `idle`: the minimal time at which no
        request waited for an answer."""
        if not self.started:
            return []
        for pledging in self._pledging:
            if (entry := pledging.pledge(now)) is not None:
                self.actions.append(Append(self._fence, pledging.id, entry))
        self.actions += self.proofs.begin(now, self.actions)
        # Asked behind the pass, whose acks leave first: a promise that overtook them would hide what is in
        # flight (!).
        if self._of_calls and not self._inputs_ended:
            idle = START  # of no use before, and news each time
        promises = [
            Promise(number, front.entered, front.promise(), idle, self._tells_end(front), front.written)
            if number in self._of_calls
            else Promise(number, front.entered, front.promise(), written=front.written)
            for number, front in self._fronts.items()
        ]
        news = [promise for promise in promises if promise != self._told.get(promise.front)]
        self._told.update((promise.front, promise) for promise in news)
        return news

    def settled(self, time: Time) -> None:
        """All output below `time` is with its consumers."""
        for credit in self._credit.values():
            credit.settled(time)
        if START < self._settles <= time:
            self._settles = START
            for number, front in self._fronts.items():
                if self.started and not front.ended:
                    self._read_on(number)

    @property
    def in_flight(self) -> int:
        """Items that have entered here and whose results are not all with their consumers."""
        return sum(credit.items for credit in self._credit.values())

    def pull(self) -> None:
        """Tell producers how much may come, where that changed."""
        for number in self._following - self._of_calls:
            front, (runs, size) = self._fronts[number], self._credit[number].left
            records = (
                runs * self._settings[number].run_length if isinstance(front, TimedFront) else RECORDS_A_RUN
            )
            # what is here enters first
            full = front.ready if isinstance(front, TimedFront) else bool(self._held[number])
            grant = (
                (0, 0) if full or not runs or not self._takes(front) else (records, min(size, self.room.size))
            )
            if self._pulled.get(number) != grant:
                self._pulled[number] = grant
                self.actions.append(Pull(self._fence, number, *grant))

    def drain(self) -> None:
        """Take nothing more."""
        self.drained, self._until = True, START

    def end_calls(self) -> None:
        """No request can come any more."""
        for number in self._of_calls:
            self._over(number, self._fronts[number])

    @property
    def _inputs_ended(self) -> bool:
        """Whether nothing comes any more but answers."""
        return all(self._fronts[number].promise() == END for number in self._fronts.keys() - self._of_calls)

    @property
    def all_ended(self) -> bool:
        return all(front.promise() == END for front in self._fronts.values())

    # --- cuts -----------------------------------------------------------------------------------------------

    def positions(self, cut: Time) -> list[FrontPosition]:
        """The place of each front at `cut`."""
        return [front.positions.at(cut) for front in self._fronts.values()]

    @property
    def reached(self) -> list[FrontPosition]:
        """How far each front has come, where the next attempt skips that; else nobody asks."""
        return self.positions(END) if self._skips else []

    @property
    def skipped(self) -> dict[SourceName, int]:
        """Records that recoveries have skipped, by source; of none that does not skip."""
        found = Counter[SourceName]()
        for number, front in self._fronts.items() if self._skips else ():
            found[self._settings[number].source] += front.positions.skipped
        return dict(found)

    def place_of(self, time: Time, index: int) -> str:
        """The `index`-th record of the run at `time`, for people: by its offset if the front is here, else by
        its place in the run."""
        found = self.record(time, index)
        if found is None or found[1] < 0:
            return f"record {index} of the run at time {time}" + (
                f" of partition {found[0]!r}" if found and found[0] else ""
            )
        return f"record {found[1]}" + (f" of partition {found[0]!r}" if found[0] else "")

    def record(self, time: Time, index: int) -> tuple[Partition, int] | None:
        """Partition and offset (-1: not known) of the `index`-th record of the run at `time`, if its front is
        here."""
        front = self._fronts.get(front_of(time))
        return front.positions.record(time, index) if front is not None else None

    def committed(self, cut: Time) -> None:
        """Nothing below `cut` is ever replayed again."""
        for number, front in self._fronts.items():
            front.positions.forget(cut)
            if self._journalled(number):
                self.actions.append(TrimJournal(self._fence, number, cut))
            elif number in self._saved:
                self._saved[number] = front.positions.at(cut).offsets
                self.actions.append(Saved(self._fence, number, cut, self._saved[number]))
        self.actions += [TrimJournal(self._fence, number, cut) for number in sorted(self._away)]

    def _journalled(self, number: FrontId) -> bool:
        return self._journals and not self._settings[number].timed


def _grown(source: SourceName, first: Offset) -> str:
    return (
        f"source {source!r} has records behind its end of before, from record {first} on, whose times would lie below "
        "what is committed: it had ended, and others went on. Put it back as it was, or begin anew with `flamestream "
        "reset`; a source that grows is read with `follow: true`"
    )
