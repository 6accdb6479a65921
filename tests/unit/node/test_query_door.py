"""The door for queries takes a share of its worker's time, and no more."""

import json
from collections.abc import Callable
from typing import Any

import flamestream as fs
from flamestream.core.protocol.actions import Answered
from flamestream.core.protocol.events import Queried
from flamestream.job.manifest_queries import Queries
from flamestream.model.time import Time
from flamestream.net.http_exchange import Request
from flamestream.node.queries.door import CONNECTION_US, QueryDoor

BODY = json.dumps({"read": [["seen", "a"]]}).encode()
ASK = Request("POST", "/v1/jobs/j/query", "", {}, BODY)


class Reactor:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.time = 0

    def instant(self) -> int:
        return self.time

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        pass


class Client:
    """Notes how it was answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []

    def answer(self, status: int, body: object, headers: Any = ()) -> None:
        self.answers.append((status, dict(headers)))


class World:
    """A door whose worker answers at once."""

    def __init__(self, share: float) -> None:
        graph = fs.Graph("g")
        graph.source("in").reduce(name="seen", key=str, combine=fs.count()).sink("out")
        self.reactor, self.asked = Reactor(), list[Queried]()
        settings, reactor = Queries("h:1", share=share), self.reactor
        self.door = QueryDoor(graph, "j", 16, settings, None, reactor, self.asked.append)  # type: ignore[arg-type]

    def ask(self) -> tuple[int, Any]:
        """Status and headers of the answer."""
        client, before = Client(), len(self.asked)
        self.door._came(ASK, client)  # type: ignore[arg-type]
        for query in self.asked[before:]:
            self.door.told(Answered(query.number, Time(1), [None]))
        (answer,) = client.answers
        return answer


def test_who_asks_without_end_has_the_share_of_the_worker_s_time() -> None:
    """A request is worth at least what its connection costs."""
    for share in (0.1, 0.5):
        world, answered = World(share), 0
        for _ in range(20_000):
            world.reactor.time += 50
            answered += world.ask()[0] == 200
        assert 0.9 * share < answered * CONNECTION_US / world.reactor.time < 1.1 * share


def test_who_is_above_it_is_told_to_ask_again_and_the_worker_hears_nothing_of_it() -> None:
    world = World(0.25)
    while (answer := world.ask())[0] == 200:
        pass
    before = len(world.asked)
    assert answer == (429, {"retry-after": "1"})
    assert (world.ask()[0], len(world.asked)) == (429, before)
    world.reactor.time += 1_000_000
    assert world.ask()[0] == 200
