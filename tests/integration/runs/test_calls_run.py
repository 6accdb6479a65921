"""Calls of a real service over HTTP, faults and all, while everything that makes them is killed: each order has
one price, the one that the service gave, and the service did what it was asked for once."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.calls.asked_service import AskedService, asked_service
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

ORDERS = 4_000
ASKED = """
import http.client, threading
import msgspec
import flamestream as fs

connections = threading.local()

def price_of(item: str, call: fs.Call) -> int:
    connection = getattr(connections, "here", None)
    if connection is None:
        connection = connections.here = http.client.HTTPConnection("127.0.0.1", {port})
    try:
        connection.request("GET", f"/price/{{item}}", headers={{"Idempotency-Key": call.id}})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200 or reply.headers["Idempotency-Key"] != call.id:
            raise OSError(f"status {{reply.status}}, for {{reply.headers['Idempotency-Key']}}")
        return msgspec.json.decode(body, type=int)
    except BaseException:
        connection.close()
        raise

"""
APPLICATION = (
    ASKED
    + """
@fs.call(timeout="5s", concurrency=16, fronts=2, {settings})
def priced(order: int, call: fs.Call) -> tuple[int, int]:
    return order, price_of(str(order), call)

graph = fs.Graph("prices")
orders = graph.source("orders", int)
prices = orders.call(priced, key=lambda order: order % 50, at=lambda pair: pair[0], unit="s", late="2h")
prices.sink("priced", key=lambda pair: pair[0])
windows = prices.window(fs.tumbling("10m"), key=lambda pair: pair[0] % 7).count()
windows.map(lambda window: window.value).sink("counts", key=lambda count: 0)
orders.sink("plain")
"""
)
SPEC = {
    "sources": {"orders": {"files": {"path": "orders.jsonl", "format": "jsonl"}}},
    "onError": {"deadLetter": "dead"},
    "journal": {"folder": "journal", "keep": True},
    "checkpoint": {"interval": "200ms", "store": "store"},
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AskedService]:
    with asked_service(tmp_path) as made:
        yield made


def made(folder: Path, service: AskedService, settings: str) -> CliJob:
    text = APPLICATION.format(port=service.port, settings=settings)
    return made_of(folder, text, ORDERS, "priced", "counts", "plain")


def made_of(folder: Path, text: str, orders: int, *sinks: str) -> CliJob:
    application = folder / "calls_job.py"
    application.write_text(text)
    (folder / "orders.jsonl").write_text("".join(f"{number}\n" for number in range(orders)))
    places = {name: {"files": {"path": name, "fsync": False}} for name in (*sinks, "dead")}
    return CliJob(folder, application, {**SPEC, "sinks": places}, spark=False)


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


TASKS, MOST = 1_000, 4
AGENT = (
    ASKED
    + """
@fs.call(timeout="5s", concurrency=16, fronts=2, retries=20)
def asked(question: tuple[int, int], call: fs.Call) -> tuple[int, int, int, bytes]:
    order, round = question
    # now and then more than enters in a pass otherwise
    return order, round, price_of(f"{{order}}.{{round}}", call), bytes(40_000 if order % 10 == 0 else 0)

graph = fs.Graph("agent")
again = graph.loop("again", max_iterations={most})
questions = graph.source("orders", int).map(lambda order: (order, 0)).merge(again)
answers = questions.call(asked, key=lambda question: question[0] % 50)
answers.map(lambda answer: answer[:3]).sink("answers", key=lambda answer: answer[0])
again.close(answers.filter(lambda answer: answer[2] % 3 > 0).map(lambda answer: (answer[0], answer[1] + 1)))
answers.filter(lambda answer: answer[2] % 3 == 0).map(lambda answer: answer[0]).sink("done")
"""
)


@pytest.mark.slow  # the simulator draws such loops at each push
def test_each_round_is_asked_for_once_and_they_end_where_the_loop_says(
    tmp_path: Path, service: AskedService
) -> None:
    """An agent, which asks, looks at the answer and asks again."""
    text = AGENT.format(port=service.port, most=MOST)
    job = made_of(tmp_path, text, TASKS, "answers", "done")
    killer = Killer(job, [], total=TASKS * 40, seed=9)
    plan = [
        (0.1, Role.WORKER), (0.2, Role.CALLER), (0.3, "service"), (0.4, Role.COORDINATOR), (0.5, Role.WORKER),
        (0.6, Role.CALLER), (0.7, Role.WORKER),
    ]  # fmt: skip
    with explained(job, killer):
        job.start()
        killer.run_with(plan, service.restart)
        assert job.end()[1]["outcome"] == "completed"
        answers = [tuple(answer) for answer in job.delivered("answers")]
        log = service.log()
        assert {f"{order}.{round_}": price for order, round_, price in answers} == log.once
        assert len(answers) == len(log.effects), "one answer a round"
        ended = _ended(answers)
        assert sorted(job.delivered("done")) == sorted(ended)
        dead = job.delivered("dead")
        assert {error.error for error in dead} == {"LoopLimit"}
        assert len(dead) == TASKS - len(ended)
        assert job.audit()["clean"]


def _ended(answers: list[tuple[int, int, int]]) -> list[int]:
    """Orders whose last answer says so. Each has all its rounds, as many as there may be."""
    rounds = defaultdict[int, dict[int, int]](dict)
    for order, round_, price in answers:
        rounds[order][round_] = price
    assert rounds.keys() == set(range(TASKS))
    for of_order in rounds.values():
        assert of_order.keys() == set(range(len(of_order)))
        assert all(of_order[round_] % 3 for round_ in range(len(of_order) - 1)), "it went on behind its end"
        last = len(of_order) - 1
        assert last == MOST or of_order[last] % 3 == 0, "it ended before"
        assert last <= MOST
    return [order for order, of_order in rounds.items() if of_order[len(of_order) - 1] % 3 == 0]


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
