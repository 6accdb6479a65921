"""An agent, which asks, looks at the answer and asks again, while everything is killed: each round is asked for
once, those that are over are not asked for again, and the rounds end where the loop says."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.calls.asked_service import AskedService, asked_service
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

ORDERS, MOST = 1_000, 4
APPLICATION = """
import http.client, threading
import msgspec
import flamestream as fs

connections = threading.local()

@fs.call(timeout="5s", concurrency=16, fronts=2, retries=20)
def asked(question: tuple[int, int], call: fs.Call) -> tuple[int, int, int, bytes]:
    order, round = question
    connection = getattr(connections, "here", None)
    if connection is None:
        connection = connections.here = http.client.HTTPConnection("127.0.0.1", {port})
    try:
        connection.request("GET", f"/price/{{order}}.{{round}}", headers={{"Idempotency-Key": call.id}})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200 or reply.headers["Idempotency-Key"] != call.id:
            raise OSError(f"status {{reply.status}}, for {{reply.headers['Idempotency-Key']}}")
        # now and then more than enters in a pass otherwise
        return order, round, msgspec.json.decode(body, type=int), bytes(40_000 if order % 10 == 0 else 0)
    except BaseException:
        connection.close()
        raise

graph = fs.Graph("agent")
again = graph.loop("again", max_iterations={most})
questions = graph.source("orders", int).map(lambda order: (order, 0)).merge(again)
answers = questions.call(asked, key=lambda question: question[0] % 50)
answers.map(lambda answer: answer[:3]).sink("answers", key=lambda answer: answer[0])
again.close(answers.filter(lambda answer: answer[2] % 3 > 0).map(lambda answer: (answer[0], answer[1] + 1)))
answers.filter(lambda answer: answer[2] % 3 == 0).map(lambda answer: answer[0]).sink("done")
"""
SPEC = {
    "sources": {"orders": {"files": {"path": "orders.jsonl", "format": "jsonl"}}},
    "sinks": {name: {"files": {"path": name, "fsync": False}} for name in ("answers", "done", "dead")},
    "onError": {"deadLetter": "dead"},
    "journal": {"folder": "journal", "keep": True},
    "checkpoint": {"interval": "200ms", "store": "store"},
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AskedService]:
    with asked_service(tmp_path) as made:
        yield made


def test_each_round_is_asked_for_once_and_they_end_where_the_loop_says(
    tmp_path: Path, service: AskedService
) -> None:
    application = tmp_path / "agent_job.py"
    application.write_text(APPLICATION.format(port=service.port, most=MOST))
    (tmp_path / "orders.jsonl").write_text("".join(f"{number}\n" for number in range(ORDERS)))
    job = CliJob(tmp_path, application, SPEC, spark=False)
    killer = Killer(job, [], total=ORDERS * 40, seed=9)
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
        assert len(dead) == ORDERS - len(ended)
        assert job.audit()["clean"]


def _ended(answers: list[tuple[int, int, int]]) -> list[int]:
    """Orders whose last answer says so. Each has all its rounds, as many as there may be."""
    rounds = defaultdict[int, dict[int, int]](dict)
    for order, round_, price in answers:
        rounds[order][round_] = price
    assert rounds.keys() == set(range(ORDERS))
    for of_order in rounds.values():
        assert of_order.keys() == set(range(len(of_order)))
        assert all(of_order[round_] % 3 for round_ in range(len(of_order) - 1)), "it went on behind its end"
        last = len(of_order) - 1
        assert last == MOST or of_order[last] % 3 == 0, "it ended before"
        assert last <= MOST
    return [order for order, of_order in rounds.items() if of_order[len(of_order) - 1] % 3 == 0]
