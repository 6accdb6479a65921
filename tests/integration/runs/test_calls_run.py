"""Calls of a real service over HTTP, faults and all, while everything that makes them is killed: each order has
one price, the one that the service gave, and the service did what it was asked for once."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.calls.asked_service import AskedService, asked_service
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

ORDERS = 4_000
APPLICATION = """
import http.client, threading
import msgspec
import flamestream as fs

connections = threading.local()

@fs.call(timeout="5s", concurrency=16, fronts=2, {settings})
def priced(order: int, call: fs.Call) -> tuple[int, int]:
    connection = getattr(connections, "here", None)
    if connection is None:
        connection = connections.here = http.client.HTTPConnection("127.0.0.1", {port})
    try:
        connection.request("GET", f"/price/{{order}}", headers={{"Idempotency-Key": call.id}})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200 or reply.headers["Idempotency-Key"] != call.id:
            raise OSError(f"status {{reply.status}}, for {{reply.headers['Idempotency-Key']}}")
        return order, msgspec.json.decode(body, type=int)
    except BaseException:
        connection.close()
        raise

graph = fs.Graph("prices")
orders = graph.source("orders", int)
prices = orders.call(priced, key=lambda order: order % 50, at=lambda pair: pair[0], unit="s", late="2h")
prices.sink("priced", key=lambda pair: pair[0])
windows = prices.window(fs.tumbling("10m"), key=lambda pair: pair[0] % 7).count()
windows.map(lambda window: window.value).sink("counts", key=lambda count: 0)
orders.sink("plain")
"""
SPEC = {
    "sources": {"orders": {"files": {"path": "orders.jsonl", "format": "jsonl"}}},
    "sinks": {
        name: {"files": {"path": name, "fsync": False}} for name in ("priced", "counts", "plain", "dead")
    },
    "onError": {"deadLetter": "dead"},
    "journal": {"folder": "journal", "keep": True},
    "checkpoint": {"interval": "200ms", "store": "store"},
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AskedService]:
    with asked_service(tmp_path) as made:
        yield made


def made(folder: Path, service: AskedService, settings: str) -> CliJob:
    application = folder / "prices_job.py"
    application.write_text(APPLICATION.format(port=service.port, settings=settings))
    (folder / "orders.jsonl").write_text("".join(f"{number}\n" for number in range(ORDERS)))
    return CliJob(folder, application, SPEC, spark=False)


def priced(job: CliJob) -> dict[int, int]:
    """The price of each order, each of which has one."""
    pairs = [tuple(pair) for pair in job.delivered("priced")]
    assert not [order for order, times in Counter(order for order, _ in pairs).items() if times > 1]
    return dict(pairs)


def test_every_order_gets_the_price_that_the_service_gave_it_once(
    tmp_path: Path, service: AskedService
) -> None:
    job = made(tmp_path, service, "retries=20")
    plan = [
        (0.1, Role.WORKER), (0.2, Role.CALLER), (0.3, "service"), (0.4, Role.COORDINATOR), (0.5, Role.CALLER),
        (0.6, Role.WORKER), (0.7, "service"), (0.8, Role.WORKER),
    ]  # fmt: skip
    killer = Killer(job, [], total=ORDERS * 60, seed=7)
    with explained(job, killer):
        job.start()
        killer.run_with(plan, service.restart)
        assert job.end()[1]["outcome"] == "completed"
        assert not job.delivered("dead")
        asked = service.log()
        assert priced(job) == {int(item): price for item, price in asked.once.items()}
        assert sum(job.delivered("counts")) == ORDERS, "windows of event time behind a call count each answer"
        assert len(asked.effects) == ORDERS == len(job.delivered("plain"))
        assert job.audit()["clean"]
    assert not {*service.faults} - {*asked.faults}, "it was too well"


def test_a_call_that_is_made_once_at_most_is_never_asked_for_twice(
    tmp_path: Path, service: AskedService
) -> None:
    job = made(tmp_path, service, 'doubt="never"')
    killer = Killer(job, [], total=ORDERS * 60, seed=8)
    with explained(job, killer):
        job.start()
        killer.run_with(
            [(0.1, Role.WORKER), (0.3, Role.CALLER), (0.5, Role.COORDINATOR), (0.6, Role.WORKER)],
            lambda: None,
        )
        assert job.end()[1]["outcome"] == "completed"
        found, dead = priced(job), job.delivered("dead")
        asked = service.log()
        assert max(asked.asked.values()) == 1
        assert {error.error for error in dead} >= {"InDoubt"}
        assert len(found) + len(dead) == ORDERS
        assert sum(job.delivered("counts")) == len(found)
        doubted = {int(re.sub(r"\D", "", error.payload)) for error in dead}
        assert found.keys() == set(range(ORDERS)) - doubted
    # what took effect without an answer is among those in doubt, and nowhere else
    assert {int(item) for item in asked.once} - found.keys() <= doubted


BIG = """
import flamestream as fs

@fs.call
def grown(size: int) -> bytes:
    return bytes(size)

graph = fs.Graph("big")
graph.source("sizes", int).call(grown).map(len).sink("out")
"""


def test_an_answer_that_zookeeper_would_not_take_is_an_error_item(tmp_path: Path) -> None:
    file = tmp_path / "big.py"
    file.write_text(BIG)
    (tmp_path / "sizes.jsonl").write_text("1000\n65000\n66000\n")
    spec = {
        "sources": {"sizes": {"files": {"path": "sizes.jsonl", "format": "jsonl"}}},
        "sinks": {name: {"files": {"path": name, "fsync": False}} for name in ("out", "dead")},
        "onError": {"deadLetter": "dead"},
        "journal": {"folder": "zookeeper://"},
        "checkpoint": {"interval": "200ms", "store": "store"},
    }
    job = CliJob(tmp_path, file, spec, spark=False)
    with explained(job):
        job.start()
        assert job.end()[1]["outcome"] == "completed"
        [error] = job.delivered("dead")
        assert (job.delivered("out"), error.error) == ([1000, 65000], "AnswerTooLarge")
