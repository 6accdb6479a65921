"""Leases of several shards, under schedules: requests and answers of all contenders in any order, processes that are
killed, stopped or told to go, and others that divide the jobs by another number.

Time is the schedule's. A failure prints its seed.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream_operator.kube import lease
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object
from flamestream_operator.shards import name_of, shard_of
from support.operator.fake_kubernetes import FakeKubernetes

SECONDS = 4.0
SCHEDULES = 150


class Gone(BaseException):
    """The process ends here: it may not lead any more, or it was killed."""


class Process:
    """A contender, and then a leader."""

    def __init__(self, schedule: "Schedule", name: str, shards: int) -> None:
        self.shards, self.leads, self.over = shards, False, False
        self._gates = Gates(schedule)
        api: Any = self._gates
        self.leadership = lease.Leadership(api, "space", "operator", name, SECONDS, self._lost, shards)
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def acts(self) -> bool:
        """Whether it thinks that it may act, and could."""
        return self.leads and not self.over and self.leadership.valid

    def kill(self) -> None:
        """Nothing is told to anybody."""
        self.over = self._gates.closed = True
        self.task.cancel()

    async def go(self) -> None:
        """As its pod is told."""
        self.over = True
        self.task.cancel()
        await asyncio.wait([self.task])
        with suppress(Gone):
            await self.leadership.release()

    async def _run(self) -> None:
        try:
            await self.leadership.acquire()
            self.leads = True
            await self.leadership.hold()
        except Gone:
            self.over = True
        except asyncio.CancelledError:
            assert self.over, "who is not told to go stays"

    def _lost(self, why: str) -> None:
        raise Gone(why)


class Gates:
    """The API server: a request is done at one moment, and its answer comes at another."""

    def __init__(self, schedule: "Schedule") -> None:
        self._schedule, self.closed = schedule, False

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def asked(*arguments: Any) -> Any:
            if self.closed:
                raise Gone("a dead process asks for nothing")
            await self._schedule.gate()
            answer: Object | ApiProblem
            try:
                answer = await getattr(self._schedule.kubernetes, verb)(*arguments)
            except ApiProblem as problem:
                answer = problem
            await self._schedule.gate()
            if isinstance(answer, ApiProblem):
                raise answer
            return answer

        return asked


class Schedule:
    """What happens next is drawn from a seed."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.draw, self.now, self.kubernetes = random.Random(seed), 100.0, FakeKubernetes()
        self.processes: list[Process] = []
        self.going: list[asyncio.Task[None]] = []
        self._gates: list[asyncio.Future[None]] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

        @asynccontextmanager
        async def timeout(_: float) -> AsyncIterator[None]:
            yield  # an answer that is late is the harder case

        monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(lease, "asyncio", SimpleNamespace(sleep=self._sleep, timeout=timeout))
        monkeypatch.setattr(lease, "secrets", SimpleNamespace(randbelow=self.draw.randrange))

    def start(self, shards: int) -> Process:
        self.processes.append(Process(self, f"pod-{len(self.processes)}", shards))
        return self.processes[-1]

    def alive(self) -> list[Process]:
        return [each for each in self.processes if not each.over]

    def acting(self) -> list[Process]:
        return [each for each in self.processes if each.acts]

    async def gate(self) -> None:
        """Until this request, or this answer, has its turn."""
        self._gates.append(passed := asyncio.get_running_loop().create_future())
        await passed

    async def step(self, patient: float) -> None:
        """One thing: mostly a request or an answer, else time passes."""
        for _ in range(6):
            await asyncio.sleep(0)
        self._gates = [each for each in self._gates if not each.done()]
        self._sleepers = [each for each in self._sleepers if not each[1].done()]
        if self._gates and self.draw.random() < patient:
            self.draw.choice(self._gates).set_result(None)
        elif self._sleepers:
            due = min(self._sleepers, key=lambda each: each[0])
            self.now = max(self.now, due[0]) + self.draw.choice((0, 0, 0.01, 0.3))
            due[1].set_result(None)
        else:
            self.now += 0.1
        await asyncio.sleep(0)
        self.judge()

    def judge(self) -> None:
        """No job is led by two, whatever its name: all who act divide by the same number, each another shard."""
        acting = self.acting()
        assert len({each.shards for each in acting}) <= 1, self.said()
        assert len({each.leadership.shard for each in acting}) == len(acting), self.said()

    def said(self) -> str:
        return str([(each.shards, each.leadership.shard) for each in self.acting()])

    async def calm(self, shards: int, seconds: float = 60.0) -> None:
        """Everybody has time: each shard has its leader."""
        until = self.now + seconds
        while {each.leadership.shard for each in self.acting()} != set(range(shards)):
            assert self.now < until, f"after {seconds} s of calm only these lead: {self.said()}"
            await self.step(0.97)

    async def _sleep(self, seconds: float) -> None:
        self._sleepers.append((self.now + seconds, woken := asyncio.get_running_loop().create_future()))
        await woken


def scheduled(
    seed: int, monkeypatch: pytest.MonkeyPatch, body: Callable[[Schedule], Awaitable[None]]
) -> None:
    async def play() -> None:
        schedule = Schedule(seed, monkeypatch)
        try:
            await body(schedule)
        finally:
            for each in schedule.processes:
                each.kill()
            for task in (*schedule.going, *(each.task for each in schedule.processes)):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_no_job_is_led_by_two_while_the_number_of_shards_changes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(schedule: Schedule) -> None:
        draw = schedule.draw
        numbers = draw.sample((1, 2, 3), 2)
        for _ in range(numbers[0] + 1):
            schedule.start(numbers[0])
        for _ in range(400):
            await schedule.step(draw.choice((0.5, 0.9)))
            chance = draw.random()
            if chance < 0.02 and len(schedule.alive()) < 7:
                schedule.start(draw.choice(numbers))
            elif chance < 0.03 and schedule.alive():
                draw.choice(schedule.alive()).kill()
            elif chance < 0.04 and schedule.alive():
                schedule.going.append(asyncio.create_task(draw.choice(schedule.alive()).go()))
        # a rollout ends with processes of one number
        for each in schedule.alive():
            if each.shards != numbers[1]:
                each.kill()
        while len(schedule.alive()) <= numbers[1]:
            schedule.start(numbers[1])
        await schedule.calm(numbers[1])

    scheduled(seed, monkeypatch, body)


@pytest.mark.parametrize("seed", range(40))
def test_two_numbers_that_contend_at_once_leave_the_lead_to_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody led before: all may let go, and none does for ever."""

    async def body(schedule: Schedule) -> None:
        for shards in (1, 2, 2, 1, 2):
            schedule.start(shards)
        until = schedule.now + 60
        while not schedule.acting():
            assert schedule.now < until, "all let go for ever"
            await schedule.step(0.9)

    scheduled(seed, monkeypatch, body)


def test_a_leader_is_not_disturbed_by_contenders_of_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(schedule: Schedule) -> None:
        first = schedule.start(1)
        while not first.acts:
            await schedule.step(1.0)
        for _ in range(3):
            schedule.start(2)
        until = schedule.now + 30
        while schedule.now < until:
            await schedule.step(0.97)
            assert schedule.acting() == [first]
        assert set(schedule.kubernetes.things) == {("Lease", "space", "operator")}, "who waits writes nothing"

    scheduled(1, monkeypatch, body)


def test_a_spare_takes_the_shard_of_a_dead_leader_and_the_other_shard_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(schedule: Schedule) -> None:
        for _ in range(3):
            schedule.start(2)
        await schedule.calm(2)
        stays, dies = schedule.acting()
        shard, moment = dies.leadership.shard, schedule.now
        dies.kill()
        while len(schedule.acting()) < 2:
            await schedule.step(0.97)
            assert stays.acts
        (spare,) = set(schedule.acting()) - {stays}
        assert spare.leadership.shard == shard
        assert schedule.now - moment < SECONDS + 2

    scheduled(2, monkeypatch, body)


def test_a_lease_of_a_version_that_knew_one_shard_counts_as_one_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(schedule: Schedule) -> None:
        first = schedule.start(1)
        while not first.acts:
            await schedule.step(1.0)
        first.kill()
        old = schedule.kubernetes.things["Lease", "space", "operator"]
        del old["metadata"]["annotations"]
        again, other = schedule.start(1), schedule.start(2)
        until = schedule.now + SECONDS - 1
        while schedule.now < until:
            await schedule.step(1.0)
            assert not again.acts, "its holder may live"
            assert not other.acts, "its holder may live"

    scheduled(3, monkeypatch, body)


def test_each_job_is_in_one_shard_and_another_number_moves_only_what_it_must() -> None:
    jobs = [f"space.job-{number}" for number in range(3000)]
    for shards in (1, 2, 3, 5):
        before, after = [shard_of(job, shards) for job in jobs], [shard_of(job, shards + 1) for job in jobs]
        sizes = [before.count(shard) for shard in range(shards)]
        assert min(sizes) > 0.85 * len(jobs) / shards, "no shard is much smaller than its share"
        moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert {new for _, new in moved} == {shards}
        assert len(moved) < 1.15 * len(jobs) / (shards + 1)


def test_shards_are_the_same_in_every_version() -> None:
    """Leaders of two versions stand beside each other while one is rolled out."""
    assert [shard_of(f"default.job-{number}", 4) for number in range(8)] == PINNED
    assert [name_of("operator", shard) for shard in (0, 1)] == ["operator", "operator-1"]


PINNED = [0, 0, 1, 2, 0, 3, 0, 0]
