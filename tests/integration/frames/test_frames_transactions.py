"""Transactions in every runner: what a stream has made of them a batch makes again, to the byte, and an audit too.

They are begun by records, folds, windows, calls' answers and outcomes of others, and stand in a subgraph.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from support.runs.scratch import Scratch

pytestmark = pytest.mark.spark

APPLICATION = """\
import os
import flamestream as fs

graph = fs.Graph("shops")
sums = graph.table("sums", initial=int, check=lambda key, total: total < 500)
limits = graph.table("limits", initial=lambda: 8)


def parsed(line):
    shop, amount, second = line.split()
    return shop, int(amount), int(second)


def sell(state, sale):
    shop, amount, _ = sale
    if amount > state[limits, shop]:
        raise fs.Abort("limit")
    state[sums, shop] += amount
    return shop, amount, state[sums, shop]


def raised(state, counted):
    state[limits, counted[0]] = 8 + counted[1] % 5


def closed(state, counted):
    before = state[sums, counted.key]
    state[sums, counted.key] = 0
    return counted.key, counted.value, before


@fs.call
async def drawn(sale: tuple[str, int, int]) -> tuple[str, bytes]:
    return sale[0], os.urandom(4)


def noted(state, draw):
    state["draws", draw[0]] += 1
    return draw[0], state["draws", draw[0]], draw[1], state[sums, draw[0]]


graph.table("draws", initial=int)
sales = graph.source("sales", parsed, at=lambda sale: sale[2], unit="s")
graph.source("deposits", parsed).upsert(sums, lambda sale: sale[0], lambda sale: sale[1])
sold = sales.transact(sell)
sold.committed.sink("sold", key=lambda sale: sale[0])
sold.aborted.map(lambda a: a.transaction).sink("refused", key=lambda sale: sale[0])
sales.transact(lambda state, sale: (*sale, state[sums, sale[0]])).committed.sink("joined")
sales.reduce(
    name="counts", key=lambda sale: sale[0], combine=fs.count(), emit=lambda count, sale: (sale[0], count)
).transact(raised)
windows = sales.window(fs.tumbling("10s"), key=lambda sale: sale[0], name="windows").count()
windows.transact(closed).committed.sink("closed")
sales.filter(lambda sale: sale[1] == 7).call(drawn).transact(noted).committed.sink("drawn")

with graph.transaction() as transaction:
    opened = transaction.open(sold.committed)
    by_amount = opened.reduce(name="by_amount", key=lambda sale: sale[1], combine=fs.count(), check=lambda _, n: n < 20)
    paid = opened.reduce(name="paid", key=lambda sale: sale[0], initial=int, combine=lambda all, sale: all + sale[1])
    booked = transaction.close(by_amount, paid)
booked.committed.sink("booked")
booked.aborted.map(lambda a: a.transaction).sink("unbooked")
sums.changes().map(lambda write: (write.key, write.after)).sink("changes")
sums.keep_changes(2)
"""
SINKS = ("sold", "refused", "joined", "closed", "drawn", "booked", "unbooked", "changes")
SPEC = (
    "sources:",
    "  sales: {files: {path: sales.txt, records: lines}}",
    "  deposits: {files: {path: deposits.txt, records: lines}}",
    "sinks:",
    *(f"  {name}: {{files: {{path: {name}, fsync: false}}}}" for name in SINKS),
    "guarantee: exactly-once",
    "workers: {replicas: 2}",
    "journal: {folder: journal, keep: true}",
    "checkpoint: {interval: 200ms, store: snapshots}",
)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(tmp_path)
    yield made
    made.close()


def test_a_stream_a_batch_and_an_audit_make_the_same_of_transactions(scratch: Scratch) -> None:
    rng = Random(3)
    sales = [f"{rng.choice('abc')} {rng.randrange(14)} {number // 20}" for number in range(400)]
    scratch.write("sales.txt", "\n".join(sales) + "\n")
    scratch.write("deposits.txt", "".join(f"{rng.choice('abc')} {rng.randrange(60)} 0\n" for _ in range(40)))
    scratch.job(APPLICATION, *SPEC)
    done = scratch.type("run", "job.yaml", "--no-spark", "--json")
    assert done.code == 0, done.text
    verdict = scratch.type("audit", "job.yaml")
    assert (verdict.code, "0 lost, 0 doubled, 0 reordered" in verdict.text) == (0, True), verdict.text
    for sink in SINKS:
        assert scratch.type("cat", sink, "job.yaml").text.strip(), sink
    batch = scratch.type("run", "--runner", "batch", "job.yaml", "--json", within=400)
    assert batch.code == 0, batch.text
    told = json.loads(batch.text[batch.text.index("{") :])
    assert (told["outcome"], told["delivered"], told["repeated"] > 1000) == ("completed", 0, True)
