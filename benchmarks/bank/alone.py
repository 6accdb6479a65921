"""A worker without sockets: CPU time of a transfer, by the kernel and by the reference parts in Python, and of a
changed row in a snapshot.

Does not: wait, write files, or run a second worker.
"""

import gc
import time
from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any, Final

import bank_graphs
from figures.core import Alone

from bank.workloads import ACCOUNTS, WORKLOADS, lines
from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol import actions
from flamestream.store.segment import table_of, written

BATCH: Final = 64
"""Records that enter together, as they do when they wait."""
EPOCH: Final = 20_000
"""Transfers an epoch: those of a second."""


class Worker(Alone):
    """One whose snapshots are written as files would be, to nowhere."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(bank_graphs.bank, parts, source="lines")
        self.rows = 0
        self.bytes = 0
        self.number = 0

    def _act(self, action: actions.Action) -> None:
        if isinstance(action, actions.Upload) and action.rows:
            self.rows += len(action.rows)
            self.bytes += len(written(table_of(action.rows)))
        super()._act(action)


def transfers(parts: Parts, count: int) -> dict[str, Any]:
    """CPU time of a transfer, with its share of epochs."""
    worker, its = Worker(parts), _texts(count)
    spent = _spent(worker, its)
    assert worker.rows, "its epochs have rows"
    return {"n": count, "us": round(spent / count * 1e6, 2), "per_s": round(count / spent)}


def snapshots(parts: Parts, changed: int = ACCOUNTS) -> dict[str, Any]:
    """CPU time of a row that has changed since the last epoch: gathered, encoded, written as a segment, and forgotten
    once it is committed. Half of the accounts pay the other half, so that each changes once."""
    worker, found = Worker(parts), list[tuple[float, int]]()
    accounts = Random(1).sample(range(changed), changed)
    pairs = list(zip(accounts[::2], accounts[1::2], strict=True))
    for _ in range(3):
        text = [f'{{"id":{n},"source":{a},"target":{b},"amount":1}}' for n, (a, b) in enumerate(pairs)]
        _enter(worker, text)
        before, begin = worker.rows, time.process_time()
        worker.epoch()
        found.append((time.process_time() - begin, worker.rows - before))
    spent, rows = min(found[1:])
    return {
        "keys": changed,
        "rows": rows,
        "us": round(spent / changed * 1e6, 2),
        "bytes": round(worker.bytes / worker.rows),
    }


def _texts(count: int) -> list[str]:
    return [line.decode() for line in islice(lines(WORKLOADS["uniform"], count), count)]


def _spent(worker: Worker, texts: Sequence[str]) -> float:
    gc.collect()
    gc.disable()
    begin = time.process_time()
    try:
        for at in range(0, len(texts), EPOCH):
            _enter(worker, texts[at : at + EPOCH])
            worker.epoch()
    finally:
        gc.enable()
    return time.process_time() - begin


def _enter(worker: Worker, texts: Sequence[str]) -> None:
    number = worker.number
    for at in range(0, len(texts), BATCH):
        worker.documents(number + at, texts[at : at + BATCH])
    worker.number = number + len(texts)
