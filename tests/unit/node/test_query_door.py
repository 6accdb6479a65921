"""The door for queries takes a share of its worker's time, and no more."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import flamestream as fs
from flamestream.core.protocol.actions import Answered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.job.manifest_queries import Queries
from flamestream.model.time import Time
from flamestream.net.http_exchange import Request
from flamestream.node.queries.door import CONNECTION_US, PATIENCE, WAIT, QueryDoor

ASK = Request("POST", "/v1/jobs/j/query", "", {}, b"")


@dataclass
class Due:
    """A call that is due later."""

    at: float
    call: Callable[[], None] | None

    def cancel(self) -> None:
        self.call = None


class Reactor:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.time = 0
        self.due: list[Due] = []

    def instant(self) -> int:
        return self.time

    def later(self, seconds: float, call: Callable[[], None]) -> Due:
        self.due.append(made := Due(self.time + seconds * 1e6, call))
        return made

    def go_on(self, microseconds: int) -> None:
        self.time += microseconds
        due, self.due = [each for each in self.due if each.call is not None], []
        for each in due:
            if each.at > self.time:
                self.due.append(each)
            elif each.call is not None:
                each.call()


class Client:
    """Notes how it was answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []

    def answer(self, status: int, body: object, headers: Any = ()) -> None:
        self.answers.append((status, dict(headers)))


class World:
    """A door whose worker answers at once."""

    def __init__(self, share: float, *, answers: bool = True, idle: float | None = None) -> None:
        """`idle`: the part of its time that the stream leaves; None: its worker always has something to do."""
        self.answers, self.left, self._idle = answers, list[int](), idle
        self.queries = list[Queried]()
        graph = fs.Graph("g")
        graph.source("in").reduce(name="seen", key=str, combine=fs.count()).sink("out")
        self.reactor, self.clients, self._most = Reactor(), list[Client](), 0
        self._told = 0
        settings, reactor = Queries("h:1", share=share), self.reactor
        self.door = QueryDoor(graph, "j", 16, settings, None, reactor, self._asked, self._waited)  # type: ignore[arg-type]

    def _waited(self) -> int:
        idle = 0.0 if self._idle is None else self.reactor.time * self._idle - self._told * CONNECTION_US
        self._most = max(self._most, int(idle))
        return self._most

    def _asked(self, event: Any) -> None:
        if isinstance(event, QueryLeft):
            self.left.append(event.number)
            return
        self.queries.append(event)
        if self.answers and event.unlike is None:
            self._told += 1
            self.reactor.later(0, lambda: self.door.told(Answered(event.number, Time(1), [None])))

    def ask(self, **more: Any) -> Client:
        self.clients.append(Client())
        body = json.dumps({"read": [["seen", "a"]], **more}).encode()
        self.door._came(replace(ASK, body=body), self.clients[-1])  # type: ignore[arg-type]
        return self.clients[-1]

    @property
    def answered(self) -> int:
        return sum(client.answers == [(200, {})] for client in self.clients)


def test_clients_that_ask_without_end_have_the_share_of_the_worker_s_time() -> None:
    """A request is worth at least what its connection costs."""
    for share in (0.1, 0.5):
        world = World(share)
        asking = [world.ask() for _ in range(16)]
        for _ in range(20_000):
            world.reactor.go_on(50)
            asking = [client if not client.answers else world.ask() for client in asking]
        assert 0.9 * share < world.answered * CONNECTION_US / world.reactor.time < 1.1 * share


@pytest.mark.parametrize("needed", [0.0, 0.3, 0.6])
def test_of_time_that_the_stream_does_not_need_they_have_the_half_beyond_it(needed: float) -> None:
    """What is idle behind their answers is theirs: so they have as much more than their share as stays idle."""
    world = World(0.25, idle=1 - needed)
    asking = [world.ask() for _ in range(16)]
    for _ in range(20_000):
        world.reactor.go_on(50)
        asking = [client if not client.answers else world.ask() for client in asking]
    answers = world.answered * CONNECTION_US / world.reactor.time
    assert 0.9 < answers / ((1 + 0.25 - needed) / 2) < 1.1
    assert answers + needed < 1


def test_who_is_above_it_waits_and_is_answered_in_turn() -> None:
    world = World(0.25)
    first, second = world.ask(), world.ask()
    world.reactor.go_on(10)
    assert (len(first.answers), second.answers) == (1, [])
    world.reactor.go_on(1_000_000)
    world.reactor.go_on(1)
    assert second.answers == [(200, {})]


def test_who_has_waited_for_too_long_is_told_to_ask_again() -> None:
    world = World(0.25)
    world.ask()
    waits = world.ask()
    world.reactor.go_on(int(PATIENCE * 1e6) + 1)
    assert waits.answers == [(429, {"retry-after": "1"})]


def test_whose_answer_does_not_come_is_told_so_and_the_worker_that_they_have_gone() -> None:
    world = World(1.0, answers=False)
    first, half = world.ask(), int(PATIENCE / 2 * 1e6)
    world.reactor.go_on(half)
    second = world.ask()
    assert first.answers == []
    world.reactor.go_on(half)
    assert (first.answers, second.answers, world.left) == ([(504, {})], [], [1])


def test_who_waits_for_another_state_is_told_the_one_that_there_is_in_the_end() -> None:
    world = World(1.0)
    waits = world.ask(at="stale", unlike=[7])
    world.reactor.go_on(int(WAIT * 1e6) - 1)
    assert waits.answers == []
    world.reactor.go_on(300_000)
    world.reactor.go_on(1)
    assert (waits.answers, world.left) == ([(200, {})], [1])
    first, second = world.queries
    assert (first.unlike, second.unlike, second.lookups) == (b"\x07", None, first.lookups)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"unlike": [7]}, 400),
        ({"unlike": [7, 8], "at": "stale"}, 400),
        ({"unlike": ["x" * 300], "at": "stale"}, 413),
        ({"unlike": 7, "at": "stale"}, 400),
    ],
)
def test_what_cannot_be_waited_for_is_refused(more: dict[str, Any], status: int) -> None:
    world = World(1.0)
    assert world.ask(**more).answers == [(status, {})]
    assert world.queries == []
