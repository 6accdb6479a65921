"""A report that says nothing new waits for those of other workers; whatever else comes takes it along."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.core.coordinator.coordination import Settings, Status
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import END, START
from flamestream.node.coordinator_host import CoordinatorHost
from flamestream.node.inbox import TOGETHER_US
from support.records import Records

A, B = WorkerId("a"), WorkerId("b")
REPORT = msg.Progress(NO_FENCE, START, START, END, 1, 1)


class Alarm:
    """A timer that rings when a test says so."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call = seconds, call

    def cancel(self) -> None:
        self.call = lambda: None


class Reactor:
    """Time stands still."""

    def __init__(self) -> None:
        self.alarms = list[Alarm]()

    def instant(self) -> int:
        return 1_000_000

    now = instant

    def later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        self.alarms.append(made := Alarm(seconds, call))
        return made

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Nobody answers."""


class World:
    """A coordinator of a job that runs, to which both workers have reported before."""

    def __init__(self, interval_us: int = 1_000_000) -> None:
        self.due, self.reactor = 0, Reactor()
        settings = Settings(job="j", graph="g", python="3.11", workers=2, fronts=1, interval_us=interval_us)
        places: Any = (self.reactor, Records(), None, None)
        self.host = CoordinatorHost(settings, "token", *places, changed=lambda: None)
        self.host.due = self._called
        for worker in (A, B):
            self.host.from_worker(worker, REPORT)
        self.host.turn()
        self.host._status = Status(phase="running", workers=(A, B))
        self.due, self.heard = 0, list[int]()
        self.reactor.alarms.clear()
        step = self.host._coordinator.step

        def counted(now: Any, events: Any) -> Any:
            self.heard.append(len(events))
            return step(now, events)

        self.host._coordinator.step = counted  # type: ignore[method-assign]

    def _called(self) -> None:
        self.due += 1


def test_reports_of_several_workers_are_heard_in_one_turn() -> None:
    world = World()
    for worker in (A, B):
        world.host.from_worker(worker, REPORT)
    assert world.due == 0
    (alarm,) = world.reactor.alarms
    alarm.call()
    assert world.due == 1
    world.host.turn()
    assert world.heard == [2]


@pytest.mark.parametrize(("interval", "waits"), [(30_000_000, TOGETHER_US), (40_000, 10_000)])
def test_they_wait_for_a_part_of_an_epoch_at_most(interval: int, waits: int) -> None:
    world = World(interval)
    world.host.from_worker(A, REPORT)
    assert [alarm.seconds * 1e6 for alarm in world.reactor.alarms] == [waits]


def test_anything_else_takes_them_along_at_once() -> None:
    world = World()
    world.host.from_worker(A, REPORT)
    world.host.gone([B])
    assert world.due == 1
    world.host.turn()
    assert world.heard == [2]
    assert world.reactor.alarms[0].call() is None
    assert world.due == 1


@pytest.mark.parametrize("news", [{"ended": True}, {"drained": True}, {"problem": "full"}, {"warm": True}])
def test_a_report_that_somebody_waits_for_is_heard_at_once(news: dict[str, Any]) -> None:
    world = World()
    world.host.from_worker(A, replace(REPORT, **news))
    assert world.due == 1


def test_in_a_recovery_each_report_is_heard_at_once() -> None:
    world = World()
    world.host._status = Status(phase="recovering", workers=(A, B))
    world.host.from_worker(A, REPORT)
    assert world.due == 1
