"""A bank as a user runs it: its audit is clean, rows can be asked for, and a batch gives the same."""

import json
from random import Random

from support.runs.scratch import Scratch

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("bank")
accounts = graph.table("accounts", initial=int, check=lambda key, balance: balance >= 0)


def transfer(state, line):
    source, target, amount = line.split()
    state[accounts, source] -= int(amount)
    state[accounts, target] += int(amount)
    return f"{line} {state[accounts, source]}"


lines = graph.source("lines")
lines.filter(lambda line: line.startswith("+")).upsert(accounts, lambda line: line[1], lambda line: int(line[2:]))
moved = lines.filter(lambda line: not line.startswith("+")).transact(transfer)
moved.committed.sink("moved")
moved.aborted.map(lambda a: a.transaction).sink("refused")
lines.reduce(name="seen", key=lambda line: line[0], combine=fs.count()).sink("counts")
"""
SPEC = (
    "sources: {lines: {files: {path: lines.txt, records: lines}}}",
    "sinks: {moved: {files: {path: moved}}, refused: {files: {path: refused}}, counts: {files: {path: counts}}}",
    "guarantee: exactly-once",
    "workers: {replicas: 2}",
    "checkpoint: {interval: 200ms, store: snapshots}",
)


def _lines() -> tuple[list[str], dict[str, int]]:
    """Deposits and transfers, and the balances that a loop over a dict has at the end."""
    rng, balances = Random(7), dict.fromkeys("abcdef", 20)
    lines = [f"+{name}20" for name in balances]
    for _ in range(2000):
        source, target, amount = rng.choice("abcdef"), rng.choice("abcdef"), rng.randrange(15)
        lines.append(f"{source} {target} {amount}")
        after = dict(balances)
        after[source] -= amount
        after[target] += amount
        balances = after if after[source] >= 0 else balances
    return lines, balances


def test_a_bank_is_audited_and_asked(scratch: Scratch) -> None:
    lines, balances = _lines()
    scratch.write("lines.txt", "\n".join(lines) + "\n")
    scratch.job(APPLICATION, *SPEC)
    done = scratch.type("run", "job.yaml", "--no-spark")
    assert done.code == 0, done.text
    verdict = scratch.type("audit", "job.yaml")
    assert (verdict.code, "0 lost, 0 doubled, 0 reordered" in verdict.text) == (0, True), verdict.text
    asked = [f"accounts['{name}']" for name in balances]
    told = json.loads(
        scratch.type("query", "job.yaml", *asked, "seen['+']", "accounts['nobody']", "--json").text
    )
    rows = [{"row": row, "state": balance} for row, balance in zip(asked, balances.values(), strict=True)]
    assert told["rows"] == [*rows, {"row": "seen['+']", "state": 6}, {"row": "accounts['nobody']"}]


def test_what_cannot_be_asked_is_said_with_what_can(scratch: Scratch) -> None:
    scratch.write("lines.txt", "")
    scratch.job(APPLICATION, *SPEC)
    for asked, message in (
        ("account['a']", "keeps nothing named 'account': it has 'accounts', 'seen'"),
        ("accounts[a]", "a text needs quotes"),
        ("accounts['a'", "is no row: write NAME[KEY]"),
        ("account", "keeps nothing named 'account': it has 'accounts', 'seen'"),
    ):
        said = scratch.type("query", "job.yaml", asked)
        assert said.code == 2 and message in said.text
    said = scratch.type("query", "job.yaml", "seen['a']")
    assert (said.code, "job 'job' has not run here" in said.text) == (1, True), said.text


def test_a_cursor_that_no_answer_has_said_is_refused(scratch: Scratch) -> None:
    scratch.write("lines.txt", "+a20\n")
    scratch.job(APPLICATION, *SPEC)
    assert scratch.type("run", "job.yaml", "--no-spark").code == 0
    said = scratch.type("query", "job.yaml", "accounts", "--cursor", "x")
    assert (said.code, "cursor is what an earlier answer said, not 'x'" in said.text) == (2, True), said.text
