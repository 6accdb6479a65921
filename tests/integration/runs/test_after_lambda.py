"""The two jobs of "After Lambda" (examples/after_lambda): windowed counts with late data beside a lookup, and
a random function and a lookup under retries.

Workers, the processes that make their calls, the coordinator and a service that answers late, twice, wrong
and never are killed while each runs. What comes out is what plain loops say over the input and the service's
log.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.calls.asked_service import FAULTS, AskedService, asked_service
from support.runs.after_lambda import (
    FOLDER,
    ExampleJob,
    Row,
    counted,
    counts_in,
    graph_of,
    hits,
    judged,
    orders,
)
from support.runs.cli_job import explained
from support.runs.kills import Killer, Role

W, C, K, L = Role.WORKER, Role.CALLER, Role.COORDINATOR, Role.LAUNCHER
S = "service"
SHORT = [W, C, S, K]
LONG = [W, C, S, K, C, W, S, L, C, W, K, S, W, C, L, S, C, W]
RATE = 150.0
Victims = Sequence[Role | str]
Make = Callable[..., ExampleJob]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AskedService]:
    with asked_service(tmp_path) as made:
        yield made


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs that end with the test."""
    with ExitStack() as stack:

        def made(example: str, service: AskedService, rows: Sequence[Row]) -> ExampleJob:
            job = ExampleJob(tmp_path, example, service, rows, RATE)
            stack.callback(job.close)
            return job

        yield made


def survive(job: ExampleJob, rows: Sequence[Row], victims: Victims, restart: Callable[[], None]) -> None:
    """All these die, one after the other, while it asks; it ends, its audit is clean, and nothing failed."""
    killer = Killer(job, [], total=len(rows), seed=len(victims))
    parts = [(number + 1) / (len(victims) + 1) for number in range(len(victims))]
    with explained(job, killer):
        job.start()
        killer.run_with(list(zip(parts, victims, strict=True)), restart)
        assert job.end()[1]["outcome"] == "completed"
        assert not job.delivered("dead")
        assert job.audit()["clean"]


def counts_survive(make: Make, service: AskedService, count: int, victims: Victims) -> None:
    rows = hits(count)
    job = make("late_counts", service, rows)
    survive(job, rows, victims, service.restart)
    found, asked = counts_in(job.delivered), service.log()
    assert found == counted(rows, asked.once)
    assert found.late
    assert len(asked.effects) == count
    assert all(len(items) == 1 for items in asked.items.values())


def orders_survive(make: Make, service: AskedService, count: int, victims: Victims) -> None:
    rows = orders(count)
    job = make("retries", service, rows)
    survive(job, rows, victims, service.restart)
    asked = service.log()
    verdict = judged(rows, job.delivered("priced"), asked)
    assert verdict.clean, verdict
    assert asked.asked.total() > count, "nobody was asked again"
    assert not {*service.faults} - {*asked.faults}, "it was too well"


def test_windowed_counts_with_late_data_beside_a_lookup(make: Make, service: AskedService) -> None:
    counts_survive(make, service, 700, SHORT)


def test_a_random_function_and_a_lookup_under_retries(make: Make, service: AskedService) -> None:
    orders_survive(make, service, 700, SHORT)


@pytest.mark.slow
def test_windowed_counts_through_many_kills(make: Make, service: AskedService) -> None:
    counts_survive(make, service, 3_500, LONG)


@pytest.mark.slow
def test_orders_through_many_kills(make: Make, service: AskedService) -> None:
    orders_survive(make, service, 8_000, LONG)


@pytest.mark.slow
def test_a_service_that_forgets_ids_has_effects_twice_and_results_once(make: Make, tmp_path: Path) -> None:
    rows = orders(800)
    with asked_service(tmp_path, {**FAULTS, "again": 0.3}) as service:
        job = make("retries", service, rows)
        survive(job, rows, [W, S, C], service.forget)
        asked = service.log()
    verdict = judged(rows, job.delivered("priced"), asked)
    assert verdict.effects_doubled > 0
    assert (verdict.lost, verdict.doubled, verdict.effects_lost, verdict.wrong, verdict.changed) == (0,) * 5


# --- the examples' own data, by the reference ---------------------------------------------------------------


def lines(name: str) -> list[str]:
    return (FOLDER / "data" / f"{name}.jsonl").read_text().splitlines()


def test_the_hits_of_the_example_are_counted_as_a_loop_does(tmp_path: Path) -> None:
    rows: list[Row] = [json.loads(line) for line in lines("hits")]
    for number, row in enumerate(rows):  # the loop tells the service's answers apart by address
        row["address"] += f"/{number}"
    with asked_service(tmp_path, {}) as service:
        results = graph_of(tmp_path, "late_counts", service).run(hits=list(map(json.dumps, rows)))
        expected = counted(rows, service.log().once)
    assert counts_in(results.__getitem__) == expected
    assert len(expected.late) == 3


def test_the_orders_of_the_example_are_priced_once(tmp_path: Path) -> None:
    with asked_service(tmp_path, {}) as service:
        priced = graph_of(tmp_path, "retries", service).run(orders=lines("orders"))["priced"]
        verdict = judged(list(map(json.loads, lines("orders"))), priced, service.log())
    assert verdict.clean, verdict
