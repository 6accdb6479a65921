"""Coordinators that die anywhere, two at once, lost workers, and writes with unknown outcome: what must hold
all the time.

A small world with workers that answer as they should. A coordinator can die before any of its actions; the
outcome of a write can be unknown, and the write can still be under way and land later. After the storm, the
job must get on.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from flamestream.core.coordinator.coordination import (
    Action,
    DeleteObjects,
    Disconnect,
    Event,
    Finish,
    FromWorker,
    IndexFailed,
    ReadRecord,
    RecordUnknown,
    Tell,
    WorkerConnected,
    WorkerDisconnected,
    WriteIndex,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import NO_FENCE, Epoch, Fence, WorkerId
from flamestream.model.time import END, START, Time
from support.core.coordinating import MS, SECOND, Bench, Outside


@dataclass
class Scripted:
    """A worker that does what it is told."""

    id: WorkerId
    fence: Fence = NO_FENCE
    ready: bool = False
    acker: bool = False
    boss: int | None = None
    minimal: Time = START

    def hello(self) -> msg.Hello:
        return msg.Hello(self.id, f"{self.id}:1", self.fence, self.ready, "3.11", "g")


@dataclass
class Storm:
    """The world; `boss` numbers coordinators."""

    dice: random.Random
    outside: Outside = field(default_factory=Outside)
    workers: dict[WorkerId, Scripted] = field(default_factory=dict)
    coordinators: dict[int, Bench] = field(default_factory=dict)
    inbox: dict[int, list[Event]] = field(default_factory=dict)
    late: list[WriteRecord] = field(default_factory=list)
    """Writes of which nobody knows the outcome: they may land at any time."""
    history: list[JobRecord] = field(default_factory=list)
    answered: set[tuple[str, Fence, WorkerId]] = field(default_factory=set)
    cuts: dict[tuple[Fence, Epoch], Time] = field(default_factory=dict)
    accepted: set[tuple[Fence, Epoch, WorkerId]] = field(default_factory=set)
    aborted: set[Epoch] = field(default_factory=set)
    calm: bool = False
    names: int = 0

    def chance(self, probability: float) -> bool:
        return not self.calm and self.dice.random() < probability

    # --- who lives ---

    def hire(self) -> None:
        self.names += 1
        worker = WorkerId(f"w{self.names}")
        self.workers[worker] = Scripted(worker)

    def elect(self) -> int:
        self.names += 1
        changes: dict[str, Any] = {
            "discovery_us": SECOND,
            "gather_us": 2 * SECOND,
            "interval_us": 300 * MS,
            "warm_us": SECOND,
        }
        self.coordinators[self.names] = Bench(self.outside, f"n{self.names}", **changes)
        self.inbox[self.names] = []
        return self.names

    def bury(self, boss: int) -> None:
        del self.coordinators[boss], self.inbox[boss]
        for worker in self.workers.values():
            if worker.boss == boss:
                worker.boss = None

    def dismiss(self, worker: Scripted) -> None:
        if worker.boss is not None:
            self.inbox[worker.boss].append(WorkerDisconnected(worker.id))
            worker.boss = None

    # --- one round ---

    def round(self) -> None:
        self.outside.now = type(self.outside.now)(self.outside.now + 50 * MS)
        if self.chance(0.03) and len(self.workers) > 1:
            victim = self.dice.choice(sorted(self.workers))
            self.dismiss(self.workers.pop(victim))
        if self.workers and self.chance(0.03):
            self.dismiss(self.workers[self.dice.choice(sorted(self.workers))])
        while len(self.workers) < 3:
            self.hire()
        if not self.coordinators or (self.chance(0.02) and len(self.coordinators) < 2):
            self.elect()
        if self.calm and len(self.coordinators) > 1:
            self.bury(min(self.coordinators))
        self.land_some()
        for worker in list(self.workers.values()):
            self.live(worker)
        for boss in list(self.coordinators):
            if boss in self.coordinators:
                self.step(boss)

    def land_some(self) -> None:
        for write in [write for write in self.late if self.calm or self.chance(0.2)]:
            self.late.remove(write)
            self.put(write)

    def live(self, worker: Scripted) -> None:
        if worker.boss is None:
            worker.boss = self.dice.choice(sorted(self.coordinators))
            self.inbox[worker.boss].append(WorkerConnected(worker.hello()))
        if worker.fence != NO_FENCE:
            if worker.ready:
                worker.minimal = Time(worker.minimal + 1)
            report = msg.Progress(worker.fence, worker.minimal, worker.minimal, END, 0, 0)
            self.inbox[worker.boss].append(FromWorker(worker.id, report))

    def step(self, boss: int) -> None:
        bench = self.coordinators[boss]
        events, self.inbox[boss] = self.inbox[boss], []
        actions = bench.coordinator.step(self.outside.now, events)
        for action in actions:
            if self.chance(0.01):
                self.bury(boss)
                return
            answer = self.carry_out(boss, action)
            if boss not in self.coordinators:
                return
            if answer is not None:
                self.inbox[boss].append(answer)

    def carry_out(self, boss: int, action: Action) -> Event | None:
        bench = self.coordinators[boss]
        match action:
            case WriteRecord():
                return self.write(boss, action)
            case ReadRecord() if self.chance(0.1):
                return RecordUnknown("no answer")
            case WriteIndex(name) if self.chance(0.1):
                return IndexFailed(name, "away")
            case Tell(worker, message):
                if worker in self.workers and self.workers[worker].boss == boss:
                    self.tell(boss, self.workers[worker], message)
            case Disconnect(worker):
                if worker in self.workers and self.workers[worker].boss == boss:
                    self.workers[worker].boss = None
            case Finish(outcome):
                assert outcome == "fenced", action
                self.bury(boss)
            case DeleteObjects(names):
                kept = self.outside.record
                assert kept is not None
                assert kept.index not in names
            case _:
                return bench.carry_out(action)
        return None

    def write(self, boss: int, write: WriteRecord) -> Event | None:
        if self.chance(0.1):
            self.late.append(write)
            return RecordUnknown("timeout")
        answer = self.put(write)
        return RecordUnknown("timeout") if self.chance(0.1) else answer

    def put(self, write: WriteRecord) -> Event | None:
        before = self.outside.record
        answer = self.coordinators[min(self.coordinators)].carry_out(write) if self.coordinators else None
        if self.outside.record is not before:
            self.check_record(before, write.record)
            self.history.append(write.record)
        return answer

    # --- what workers do, and what must hold ---

    def tell(self, boss: int, worker: Scripted, message: msg.ToWorker) -> None:
        say = self.inbox[boss].append
        fence = (
            message.assignment.fence
            if isinstance(message, msg.Recover)
            else getattr(message, "fence", NO_FENCE)
        )
        if fence < worker.fence:
            return
        match message:
            case msg.Recover():
                assert any(record.fence == fence for record in self.history), (
                    "an attempt that is not in the record"
                )
                worker.fence, worker.ready, worker.minimal = fence, False, message.cut
                worker.acker = message.assignment.layout.acker == worker.id
                self.answered.add(("opened", fence, worker.id))
                say(FromWorker(worker.id, msg.Opened(fence, b"", [])))
            case msg.Seal():
                self.check_all("opened", fence)
                self.answered.add(("sealed", fence, worker.id))
                say(FromWorker(worker.id, msg.Sealed(fence, START)))
            case msg.Replay():
                self.check_all("sealed", fence)
                worker.ready = True
            case msg.Announce():
                self.accept(boss, worker, message.epoch)
            case msg.Committed():
                assert any((r.committed, r.cut) == (message.epoch, message.cut) for r in self.history), (
                    "told, but not committed"
                )
                assert message.epoch not in self.aborted
            case msg.Abort():
                assert all(record.committed != message.epoch for record in self.history), (
                    "aborted, but committed"
                )
                self.aborted.add(message.epoch)

    def accept(self, boss: int, worker: Scripted, epoch: Epoch) -> None:
        say = self.inbox[boss].append
        members = [each for each in self.workers.values() if each.fence == worker.fence]
        cut = self.cuts.setdefault((worker.fence, epoch), min(each.minimal for each in members))
        if worker.acker:
            say(FromWorker(worker.id, msg.CutTaken(worker.fence, epoch, cut)))
        if not self.chance(0.05):
            segment = SegmentRef(f"{epoch}-{worker.id}", 1, "", 1, ())
            self.accepted.add((worker.fence, epoch, worker.id))
            say(FromWorker(worker.id, msg.Accepted(worker.fence, epoch, cut, [segment], [], [], [])))
        else:
            say(FromWorker(worker.id, msg.Refused(worker.fence, epoch, "no")))

    def check_all(self, what: str, fence: Fence) -> None:
        record = next(record for record in self.history if record.fence == fence)
        missing = [worker for worker in record.layout.workers if (what, fence, worker) not in self.answered]
        assert not missing, f"{missing} have not {what} yet"

    def check_record(self, before: JobRecord | None, after: JobRecord) -> None:
        if before is None:
            return
        assert after.attempt - before.attempt in (0, 1)
        assert after.announced - before.announced in (0, 1)
        assert (after.attempt == before.attempt) <= (after.layout == before.layout)
        if after.committed != before.committed:
            assert after.committed > before.committed
            assert after.cut >= before.cut
            assert after.committed not in self.aborted
            # the commit may be the next attempt's
            for worker in before.layout.workers:
                assert (before.fence, after.committed, worker) in self.accepted


@pytest.mark.parametrize("seed", range(25))
def test_whatever_dies_the_record_stays_the_one_truth_and_the_job_gets_on(seed: int) -> None:
    storm = Storm(random.Random(seed))
    for _ in range(300):
        storm.round()
    storm.calm = True
    for _ in range(200):
        storm.round()
    before = storm.outside.record
    for _ in range(60):
        storm.round()
    after = storm.outside.record
    assert before is not None
    assert after is not None
    assert after.attempt == before.attempt, f"seed {seed}: recoveries without a fault"
    assert after.committed > before.committed, f"seed {seed}: no epoch commits after the storm"
