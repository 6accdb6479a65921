"""The door for queries takes a share of its worker's time, and no more."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import flamestream as fs
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.job.manifest_queries import Queries
from flamestream.model.payloads.codec import encode
from flamestream.model.time import Time
from flamestream.net.http_exchange import Request
from flamestream.node.queries.door import CONNECTION_US, QueryDoor
from flamestream.node.queries.under_way import PATIENCE, WAIT

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
        self.calls: list[Callable[[], None]] = []

    def instant(self) -> int:
        return self.time

    def later(self, seconds: float, call: Callable[[], None]) -> Due:
        self.due.append(made := Due(self.time + seconds * 1e6, call))
        return made

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()

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

        self.bodies: list[Any] = []

    def answer(self, status: int, body: object, headers: Any = ()) -> None:
        self.answers.append((status, dict(headers)))
        self.bodies.append(json.loads(body) if isinstance(body, bytes) else body)


class World:
    """A door whose worker answers at once."""

    def __init__(
        self,
        share: float,
        *,
        answers: bool = True,
        idle: float | None = None,
        tables: list[str] | None = None,
    ) -> None:
        """`idle`: the part of its time that the stream leaves; None: its worker always has something to do."""
        self.answers, self.left, self._idle = answers, list[int](), idle
        self.queries = list[Queried]()
        graph = fs.Graph("g")
        graph.source("in").reduce(name="seen", key=str, combine=fs.count()).sink("out")
        self.reactor, self.clients, self._most = Reactor(), list[Client](), 0
        self._told = 0
        settings, reactor = Queries("h:1", share=share, tables=tables or []), self.reactor
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
            self._told += len(event.lookups)
            none = [None] * len(event.lookups)
            self.reactor.later(0, lambda: self.door.told(Answered(event.number, Time(1), none)))

    def ask(self, *, together: bool = False, **more: Any) -> Client:
        """`together`: with those that come behind it in this turn."""
        self.clients.append(Client())
        body = json.dumps({"read": [["seen", "a"]]} | more).encode()
        self.door._came(replace(ASK, body=body), self.clients[-1])  # type: ignore[arg-type]
        if not together:
            self.reactor.turn()
        return self.clients[-1]

    def came(self, request: Request) -> Client:
        """Another request."""
        self.door._came(request, client := Client())  # type: ignore[arg-type]
        self.reactor.turn()
        return client

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


def _asking_together(keys: list[list[str]], **more: Any) -> tuple[World, list[Client]]:
    """A world whose worker has not answered yet, and clients that came in one turn."""
    world = World(1.0, answers=False, idle=1.0)
    world.reactor.time = 1_000_000
    clients = [world.ask(together=True, read=[["seen", key] for key in some], **more) for some in keys]
    world.reactor.turn()
    return world, clients


def test_strict_questions_that_come_together_are_one_query_and_each_is_told_its_own_states() -> None:
    world, (first, second) = _asking_together([["a", "b"], ["c"]])
    (query,) = world.queries
    assert [each.key for each in query.lookups] == [encode(key) for key in "abc"]
    world.door.told(Answered(query.number, Time(9), [encode(1), None, encode(3)]))
    rows = [{"name": "seen", "key": "a", "state": 1}, {"name": "seen", "key": "b"}]
    assert first.bodies == [{"time": "9", "rows": rows}]
    assert second.bodies == [{"time": "9", "rows": [{"name": "seen", "key": "c", "state": 3}]}]


def test_of_those_that_come_together_only_who_asks_for_too_much_is_refused() -> None:
    world, (first, second) = _asking_together([["a"], ["b"]])
    world.door.told(NotAnswered(world.queries[0].number, "too much", again=False))
    assert first.answers == second.answers == []
    (_, alone, other) = world.queries
    world.door.told(NotAnswered(alone.number, "too much", again=False))
    world.door.told(Answered(other.number, Time(9), [None]))
    assert (first.answers, second.answers) == ([(409, {})], [(200, {})])


def test_as_many_are_asked_together_as_one_query_may_have_keys() -> None:
    world, _ = _asking_together([[str(key) for key in range(100)]] * 5)
    assert [len(query.lookups) for query in world.queries] == [200, 200, 100]


@pytest.mark.parametrize("more", [{"at": "stale"}, {"at_least": "7"}])
def test_a_question_that_others_would_have_to_wait_for_is_asked_alone(more: dict[str, Any]) -> None:
    """A stale one may be one hop away, and a later time may take its time to come."""
    world, _ = _asking_together([["a"], ["b"]], **more)
    assert [len(query.lookups) for query in world.queries] == [1, 1]


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/v1/jobs/j/tables/seen/a", "", {}, b""),
        Request("GET", "/v1/jobs/j/tables/seen", "", {}, b""),
        Request("POST", "/v1/jobs/j/query", "", {}, b'{"read": [["seen", "a"]]}'),
        Request("POST", "/v1/jobs/j/query", "", {}, b'{"scan": "seen"}'),
    ],
    ids=["a key", "a page", "a query", "a query for a page"],
)
def test_what_the_manifest_does_not_list_is_asked_for_in_no_way(request_: Request) -> None:
    world = World(1.0, tables=["other"], idle=1.0)
    world.reactor.time = 1_000_000
    assert world.came(request_).answers == [(403, {})]
    assert world.queries == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_nothing_can_be_written(method: str) -> None:
    world = World(1.0)
    assert world.came(Request(method, "/v1/jobs/j/tables/seen/a", "", {}, b"1")).answers == [(405, {})]
    assert world.queries == []
