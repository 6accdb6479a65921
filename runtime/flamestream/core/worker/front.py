"""Fronts: where records become runs, and where time comes from.

A timed front stamps by the place of its input alone: runs are cut at multiples of `run_length`, a stamp is
`step` after the last, its promise is `step` after that, and nothing but input moves it (!). It needs no
journal and holds others back while idle.

A journalled front stamps whatever has arrived as one run, above its clock, everything it stamped, promised or
was asked for, and the bound of the last recovery. Every run is in the journal before any promise above it
counts (!); a run found in the journal keeps its time whatever was asked, and until all such runs are replayed
the front promises only the next of them (!).

A recovery learns how far results had gone from consumers and journals. The runs of timed fronts are in no
journal: beside them, where a consumer does not remember what it was given, a journalled front pledges. What
it was asked for is in its journal before it is promised (!), or the next attempt, on a machine whose clock is
behind, would stamp below what was delivered.

A front of answers beside a timed one stamps right above what it was asked for, whatever its clock says: that
is above all that a timed front ever stamps, and answers would wait for its end (!). Then its stamps may be
below what was delivered, or asked, before a failure, so it always pledges, and its own journal is its bound.
That of all journals is of others' clocks.

>>> front = JournalledFront(FrontPosition(front=0, last=START, offsets={}))
>>> front.start(entries=[], bound=START)
>>> run = front.stamp(Timestamp(7), Partition("p"), Offset(0), 2)
>>> front.promise() == run.time                                  # entered, but not durable yet
True
>>> front.durable(run.time); front.promise() > run.time
True

Keeps: strictly growing stamps, none below a promise (invariant 1); the same times at every replay (invariant
2). Does not: read records or clocks, or write the journal (worker.py asks the shell to). Credit is credit.py.
Source: EDBT 2018, section 3.1; journalled fronts are the design's "Time and order" 2 and 3.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.event_time import ENDED, Marker
from flamestream.model.ids import Offset, Partition
from flamestream.model.payloads.codec import decode_many, encode_many
from flamestream.model.time import (
    CLOCKS_BEGIN,
    END,
    START,
    Time,
    Timestamp,
    next_time,
    step_after,
    time_of,
    timestamp_of,
)


def offset_in(first: Offset, count: int, end: Offset, index: int) -> int:
    """The offset of the `index`-th of `count` records from `first` to before `end`; -1 if offsets were
    skipped and it may be any."""
    if end - first == count:
        return first + index
    return end - 1 if index == count - 1 else -1


class RunRecords(list[Any]):
    """The records of a run that is interpreted again, and where they stand."""

    def __init__(self, records: Iterable[Any], run: Entry) -> None:
        super().__init__(records)
        self.run = run

    def record(self, index: int) -> tuple[Partition, int]:
        """Partition and offset (-1: not known) of one of them."""
        run = self.run
        return run.partition, offset_in(run.first, run.count, run.next, index)


class Positions:
    """The places of a front after each of its runs, so that a cut anywhere above the committed one can be
    answered."""

    def __init__(self, begin: FrontPosition) -> None:
        self._front, self._last, self._offsets = begin.front, begin.last, dict(begin.offsets)
        self._records, self.skipped, self._begins = begin.records, begin.skipped, begin.begins
        # START: at whatever cut it is asked, the end was told before
        self._ended = START if begin.ended else END
        """The time at which the end was told; END: it was not."""
        self._runs: deque[Entry] = deque()

    def add(self, run: Entry) -> None:
        """The run `run` has entered."""
        # payloads are no part of a place, and would stay here until the next commit
        self._runs.append(replace(run, payloads=b"") if run.payloads and run.moves else run)

    def begin_behind(self, time: Time) -> None:
        """All of its own runs to come are behind `time`."""
        self._last = self._begins = time

    def end(self, time: Time) -> None:
        """The run at `time` has told the end."""
        self._ended = time

    def record(self, time: Time, index: int) -> tuple[Partition, int] | None:
        """Partition and offset of a record of the run at `time`, if that is above the committed cut. The
        offset is -1 where it is not known: of a run whose offsets have gaps only the last one's is."""
        for run in reversed(self._runs):
            if run.time == time and run.moves:
                return run.partition, offset_in(run.first, run.count, run.next, index)
        return None

    def at(self, cut: Time) -> FrontPosition:
        """The last stamp below `cut`, and each partition's first offset not below it."""
        last, offsets, records = self._last, dict(self._offsets), self._records
        for run in self._runs:
            if run.time >= cut:
                break
            last = run.time
            records += run.count
            if run.moves:
                offsets[run.partition] = run.next
        return FrontPosition(
            self._front, last, offsets, self._ended < cut, records, self.skipped, self._begins
        )

    def forget(self, cut: Time) -> None:
        """No cut below `cut` will be asked for."""
        while self._runs and self._runs[0].time < cut:
            run = self._runs.popleft()
            self._last = run.time
            self._records += run.count
            if run.moves:
                self._offsets[run.partition] = run.next


class TimedFront:
    """Stamps one partition in a fixed order, the same at every replay."""

    def __init__(
        self, begin: FrontPosition, run_length: int, *, step: int = 1, tells_time: bool = False
    ) -> None:
        """`tells_time`: its source has event time, so that its end is a run of its own."""
        self.id, self.last, offsets = begin.front, begin.last, begin.offsets
        self.positions = Positions(begin)
        self._no_more = False
        self._tells_end = tells_time and not begin.ended
        self._run_length, self._step = run_length, step
        self._partition = next(iter(offsets), Partition(""))
        self._next = offsets.get(self._partition, Offset(0))
        self._waiting: list[object] = []
        self.until = END
        """It stamps nothing above."""

    def begin_behind(self, time: Time) -> None:
        """Stamp above `time`, in a stream that has come so far without it."""
        self.last = time
        self.positions.begin_behind(time)

    def take(self, first: Offset, payloads: Sequence[object]) -> None:
        """Records that wait to be stamped. Those that were there already are dropped; a gap is a bug of the
        producer."""
        have = self._next + len(self._waiting)
        assert first <= have, f"front {self.id} got offset {first} and waits for {have}"
        self._waiting.extend(payloads[have - first :])  # a reader that began anew repeats what is there

    def end(self, *, told: bool = False) -> None:
        """There are no more records than those taken. `told`: a run has said so before the cut."""
        self._no_more = True
        self._tells_end &= not told

    @property
    def ready(self) -> bool:
        """A run is complete that may be stamped."""
        if self.promise() > self.until:
            return False
        complete = len(self._waiting) >= self._run_length - self._next % self._run_length
        return complete or (self._no_more and (bool(self._waiting) or self._tells_end))

    def stamp(self) -> tuple[Entry, Sequence[object]]:
        """The next complete run."""
        assert self.ready, f"front {self.id} has no complete run"
        # to the next multiple: a replay cuts alike
        length = min(self._run_length - self._next % self._run_length, len(self._waiting))
        payloads, self._waiting = self._waiting[:length], self._waiting[length:]
        first, self._next = self._next, Offset(self._next + length)
        self.last = step_after(self.last, self.id, self._step)
        entry = Entry(self.last, self._partition, first, length)
        self.positions.add(entry)
        # The end: an empty run, stamped like any other, so that a replay tells it at the same time.
        if not length:
            self._tells_end, payloads = False, [ENDED]
            self.positions.end(self.last)
        return entry, payloads

    @property
    def entered(self) -> Time:
        """The time of its newest run."""
        return self.last

    @property
    def written(self) -> Time:
        """The same: what it has stamped follows from its input alone."""
        return self.last

    @property
    def ended(self) -> bool:
        """Everything there will ever be is stamped."""
        return self._no_more and not self._waiting and not self._tells_end

    def promise(self) -> Time:
        """The time below which it will stamp nothing."""
        return END if self.ended else step_after(self.last, self.id, self._step)

    @property
    def waiting(self) -> int:
        """Records of a run that is not complete yet."""
        return len(self._waiting)


class JournalledFront:
    """Stamps whatever arrives, from any number of partitions, and remembers through the journal."""

    def __init__(
        self,
        begin: FrontPosition,
        *,
        pledges: bool = False,
        beside_timed: bool = False,
        tells_time: bool = False,
    ) -> None:
        """`beside_timed`: a timed front is beside it, so the clock moves it only once that has ended."""
        self.id, self.last, self.offsets = begin.front, begin.last, dict(begin.offsets)
        self.entered = begin.last
        """The time of its newest run: unlike `last`, no pledge's. Others need not move past a pledge: asked
        to, they would pledge in turn, without end (!)."""
        self.ended = False
        self.tells_end = tells_time and not begin.ended
        """Its end is to be told as a run of its own."""
        self._pledges, self._beside_timed = pledges, beside_timed
        self.positions = Positions(begin)
        self.replay: deque[Entry] = deque()
        self._floor = START
        """Promised, asked for, or the bound: new stamps are above it."""
        self._undurable: deque[Time] = deque()
        self.written = begin.last
        """The newest entry that is in the journal."""

    def begin_behind(self, time: Time) -> None:
        """Stamp above `time`, in a stream that has come so far without it; before `start`."""
        self.last = self.entered = self.written = time
        self.positions.begin_behind(time)

    def start(self, entries: Sequence[Entry], bound: Time) -> None:
        """Begin with the journalled runs above the cut; stamp nothing new at or below `bound`."""
        self.replay.extend(entries)
        # `max`: the acker may have asked before this worker heard its Replay
        self._floor = max(self._floor, bound)
        # new records follow all of the journal, though its runs have not entered yet
        for entry in (entry for entry in entries if entry.moves):
            self.offsets[entry.partition] = Offset(max(self.offsets.get(entry.partition, 0), entry.next))

    def replayed(self) -> Entry:
        """The oldest journalled run has been read again and enters now, at its own time."""
        entry = self.replay.popleft()
        assert entry.time > self.last, f"front {self.id} replays {entry.time} after {self.last}"
        self.last = self.entered = self.written = entry.time
        # what moves nothing has a marker: pledges were left out (fronts.py)
        self._marked(entry, None if entry.moves else decode_many(entry.payloads)[0])
        return entry

    def stamp(
        self, clock: Timestamp, partition: Partition, first: Offset, count: int, end: Offset | None = None
    ) -> Entry:
        """A new run of `count` records of `partition` from `first` on. It is not durable yet. Only a source
        that names `end` may skip."""
        assert not self.replay, f"front {self.id} stamps before its journal is replayed"
        have = self.offsets.get(partition, 0)
        follows = first == have if end is None else have <= first <= first + count <= end
        assert follows, (
            f"front {self.id} got offsets {first} to {end} of {partition!r}, waits for {self.offsets}"
        )
        entry = Entry(self._moved(clock), partition, first, count, end=end)
        self.offsets[partition], self.entered = entry.next, entry.time
        self.positions.add(entry)
        return entry

    def mark(self, clock: Timestamp, partition: Partition, marker: Marker) -> Entry:
        """A new run without records, which tells how far a partition is in event time; of none, all of the
        front's."""
        assert not self.replay, f"front {self.id} marks before its journal is replayed"
        entry = Entry(
            self._moved(clock), partition, self.offsets.get(partition, Offset(0)), 0, encode_many([marker])
        )
        self._marked(entry, marker)
        return entry

    def _moved(self, clock: Timestamp) -> Time:
        """The time of a new entry, which is not durable yet: above all that was stamped, promised or asked
        for; the clock only moves it further, so a clock set back does no harm (!)."""
        behind = max(self.last, self._floor)
        if self._beside_timed and timestamp_of(behind) < CLOCKS_BEGIN:
            clock = Timestamp(0)  # the timed front would have to come past it (!)
        self.last = max(next_time(behind, self.id), time_of(clock, self.id))
        self._undurable.append(self.last)
        return self.last

    def _marked(self, entry: Entry, marker: object) -> None:
        self.entered = entry.time
        self.positions.add(entry)
        if marker == ENDED:
            self.tells_end = False
            self.positions.end(entry.time)

    def pledge(self, clock: Timestamp) -> Entry | None:
        """The entry that must be durable before the front can promise what it was asked for, unless one is
        under way already. It goes as far as the clock, so that questions for older times need no other."""
        if self._undurable or self.ended or self.last >= self._floor:
            return None
        return self.prove(clock)

    def prove(self, clock: Timestamp) -> Entry | None:
        """An entry that says nothing else than that this attempt may write. None: not while the journal is being
        replayed."""
        return None if self.replay else Entry(self._moved(clock), Partition(""), Offset(0), 0)

    def durable(self, time: Time) -> None:
        """Every entry up to `time` is in the journal."""
        while self._undurable and self._undurable[0] <= time:
            self.written = self._undurable.popleft()

    def asked(self, time: Time) -> None:
        """Move past `time`: at once if idle, else as soon as what is under way allows it."""
        self._floor = max(self._floor, time)

    def promise(self) -> Time:
        """The time below which it will stamp nothing, and has stamped nothing that is not in the journal."""
        if self.replay:
            return self.replay[0].time  # journalled times are fixed: whatever was asked, they come first (!)
        if self._undurable:
            # A promise above it would let results leave that a replay could not repeat (!). One that pledges does not
            # even go up to it: nobody would remember that, if it never gets into the journal.
            return next_time(self.written, self.id) if self._pledges else self._undurable[0]
        if self.ended:
            return END
        # One that pledges promises no further than its journal goes, whatever it was asked for (!).
        return next_time(self.last if self._pledges else max(self.last, self._floor), self.id)


Front = TimedFront | JournalledFront
