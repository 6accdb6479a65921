"""The graphs that are measured mean what the serial loops give, written apart from them; so does the floor."""

import sys
from pathlib import Path

import bank_graphs
import msgspec
import pytest
from bank import serial
from bank.judge import Faults, inconsistent, judged, mirrored, money, overdrawn
from bank.runs import outcome_of
from bank.serial import INITIAL, Outcome
from bank.workloads import BASKETS, WORKLOADS, lines

from flamestream.testing import outputs

sys.path.append(str(Path(__file__).parents[4] / "benchmarks" / "peers"))

import bank_loop


def given(name: str) -> list[bytes]:
    return list(lines(WORKLOADS[name], 600))


def outcomes(graph: str, its: list[bytes]) -> list[Outcome]:
    found = outputs(getattr(bank_graphs, graph), *(("lines", line.decode()) for line in its))
    return [outcome_of(each) for name in ("done", "refused") for each in found.get(name, [])]


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "orders"])
def test_a_graph_gives_what_the_loop_gives(name: str) -> None:
    its, graph = given(name), WORKLOADS[name].graph
    assert judged(outcomes(graph, its), serial.run(graph, its)) == Faults(0, 0, 0)


def test_orders_give_what_the_loop_gives() -> None:
    its = list(lines(WORKLOADS["orders"], BASKETS + 300))
    used = {msgspec.json.decode(line)["basket"] for line in its[BASKETS:]}
    few = [line for line in its if msgspec.json.decode(line)["basket"] in used]
    again = [msgspec.json.encode(msgspec.json.decode(line) | {"id": n}) for n, line in enumerate(few)]
    found = serial.run("orders", again)
    assert judged(outcomes("orders", again), found) == Faults(0, 0, 0)
    assert 10 < sum(outcome[1] == "a check" for outcome in found.outcomes) < 60


def test_refused_transactions_leave_every_row_as_it_was() -> None:
    its = given("aborts 50%")
    found = serial.run("bank", its)
    kept = [line for line, outcome in zip(its, found.outcomes, strict=True) if outcome[1] != "a check"]
    assert 200 < len(kept) < 400 and serial.run("bank", kept).rows == found.rows
    assert money(found.rows, INITIAL) == overdrawn(found.rows) == 0


def test_the_changes_of_the_rows_lead_to_the_loops_and_keep_the_conditions() -> None:
    its = given("tpcc mirrored")
    changes = outputs(bank_graphs.tpcc_mirrored, *(("lines", line.decode()) for line in its))["changes"]
    rows, torn = mirrored((each.table, each.key, each.before, each.after) for each in changes)
    assert rows == serial.run("tpcc", its).rows and torn == 0
    assert set(inconsistent(rows).values()) == {0}


def test_the_floor_gives_what_the_loop_gives() -> None:
    its = given("aborts 10%")
    found = [tuple(msgspec.json.decode(line)) for line in bank_loop.outcomes(its)]
    assert found == serial.run("bank", its).outcomes
