"""Transactional subgraphs as a user runs them: through kills all of a transfer or nothing."""

import json
import os
import signal
from pathlib import Path
from random import Random

import pytest

from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import from_json
from support.runs.scratch import Scratch

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("bank")


def halves_of(line):
    source, target, amount = line.split()
    return [(source, -int(amount), line), (target, int(amount), line)]


with graph.transaction() as transaction:
    halves = transaction.open(graph.source("lines")).flat_map(halves_of)
    left = halves.reduce(
        name="balances", key=lambda half: half[0], initial=lambda: 20, combine=lambda balance, half: balance + half[1],
        check=lambda account, balance: balance >= 0, emit=lambda balance, half: half,
    )
    left.reduce(name="moves", key=lambda half: half[0], combine=fs.count())
    moved = transaction.close(left)
moved.committed.map(lambda half: half[2]).sink("moved")
moved.aborted.map(lambda a: a.transaction).sink("refused")

with graph.transaction() as second:
    paid = second.open(moved.committed).filter(lambda half: half[1] < 0)
    limited = paid.reduce(
        name="paid", key=lambda half: half[0], initial=int, combine=lambda sum, half: sum - half[1],
        check=lambda account, sum: sum % 100 != 99,
    )
    booked = second.close(limited)
booked.aborted.map(lambda a: a.transaction[2]).sink("unbooked")
"""
SPEC = (
    "sources: {lines: {files: {path: lines.txt, records: lines}}}",
    "sinks: {moved: {files: {path: moved}}, refused: {files: {path: refused}}, unbooked: {files: {path: unbooked}}}",
    "checkpoint: {interval: 100ms, store: snapshots}",
    "limits: {runs: 16}",
    "guarantee: exactly-once",
    "workers: {replicas: 2, standby: 1}",
)
NAMES = "abcdef"


def _lines(count: int) -> tuple[list[str], dict[str, int]]:
    """Transfers, and what a loop over a dict has at the end, by row."""
    rng, lines = Random(7), []
    balances, moves, paid = dict.fromkeys(NAMES, 20), dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    for _ in range(count):
        source, target, amount = rng.choice(NAMES), rng.choice(NAMES), rng.randrange(15)
        lines.append(f"{source} {target} {amount}")
        if source != target and balances[source] < amount:
            continue
        for name, more in ((source, -amount), (target, amount)):
            balances[name] += more
            moves[name] += 1
        if (paid[source] + amount) % 100 != 99:
            paid[source] += amount
    tables = {"balances": balances, "moves": moves, "paid": paid}
    return lines, {
        f"{table}['{name}']": value for table, rows in tables.items() for name, value in rows.items()
    }


def _asked(scratch: Scratch, rows: dict[str, int]) -> dict[str, int]:
    told = json.loads(scratch.type("query", "job.yaml", *rows, "--json").text)
    return {row["row"]: row["state"] for row in told["rows"]}


def _workers(folder: Path) -> list[int]:
    known = [from_json(file.read_bytes(), ProcessIdentity) for file in folder.glob("workers/*.json")]
    return [each.pid for each in known if each.alive]


@pytest.mark.slow
def test_subgraphs_keep_their_rows_through_kills_and_are_audited(scratch: Scratch) -> None:
    lines, rows = _lines(60_000)
    scratch.write("lines.txt", "\n".join(lines) + "\n")
    scratch.job(APPLICATION, *SPEC)
    running = scratch.begin("run", "job.yaml", "--no-spark")
    for victim in range(2):
        scratch.goes_on()
        pids = _workers(scratch.path / ".flamestream" / "job")
        os.kill(pids[victim % len(pids)], signal.SIGKILL)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 0, said
    verdict = scratch.type("audit", "job.yaml")
    assert (verdict.code, "0 lost, 0 doubled, 0 reordered" in verdict.text) == (0, True), verdict.text
    assert _asked(scratch, rows) == rows
