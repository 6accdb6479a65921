"""A worker without sockets: CPU time of a transfer, by the kernel and by the reference parts in Python, of a changed
row in a snapshot, and of transfers that two sources contend for.

    python -m bank.alone 20000      # so many transfers by the kernel, for who counts instructions

Does not: wait, write files, or run a second worker.
"""

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

import bank_graphs
from figures.core import Alone

import flamestream as fs
from bank.workloads import ACCOUNTS, WORKLOADS, lines
from flamestream.core.dataflow.dataflow import Work
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol import actions
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model.ids import WorkerId
from flamestream.model.meta import meta_of
from flamestream.model.tables.ledger import Deciding
from flamestream.model.time import START, Time
from flamestream.store.segment import table_of, written

BATCH: Final = 64
"""Records that enter together, as they do when they wait."""
EPOCH: Final = 20_000
"""Transfers an epoch: those of a second."""


class Worker(Alone):
    """One whose snapshots are written as files would be, to nowhere."""

    def __init__(self, parts: Parts, graph: fs.Graph = bank_graphs.bank) -> None:
        super().__init__(graph, parts, source="lines")
        self.rows = 0
        self.bytes = 0
        self.number = 0

    def _act(self, action: actions.Action) -> None:
        if isinstance(action, actions.Upload) and action.rows:
            self.rows += len(action.rows)
            self.bytes += len(written(table_of(action.rows)))
        super()._act(action)


def composed() -> fs.Graph:
    """The bank as a composition of what any graph has, which is what its transactions mean: one fold over all rows."""
    graph = bank_graphs.bank_graph("bank", mirrored=False)
    for place, vertex in enumerate(graph.vertices):
        if isinstance(deciding := vertex.combine, Deciding):
            # another callable: a worker knows an ordinary fold by it
            graph.vertices[place] = replace(vertex, combine=partial(Deciding.__call__, deciding))
    return graph


def transfers(parts: Parts, count: int, graph: fs.Graph = bank_graphs.bank) -> dict[str, Any]:
    """CPU time of a transfer, with its share of epochs."""
    worker, its = Worker(parts, graph), _texts(count)
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


def contention(
    parts: Parts, workload: str, behind: int, patience: int | None, count: int = 40_000
) -> dict[str, Any]:
    """CPU time of a transfer of two sources, of which one comes so many passes behind the other: by then those of the
    other have been decided, and those that have read what changes are decided again, as far as `patience` lets them.
    With 0 behind each is decided once, which no strategy can do for less."""
    sourced, its = _Sourced(parts, patience), _texts(count, workload)
    gc.collect()
    begin = time.process_time()
    for turn in range(-(-count // BATCH) + behind):
        sourced.take(its, turn, behind)
    spent = time.process_time() - begin
    said = sourced.flow.contended()
    assert said.decided == sourced.released == count, "each is decided"
    return {
        "n": count, "us": round(spent / count * 1e6, 2), "runs": round(said.runs / count, 2),
        "aborted": said.aborted,
    }  # fmt: skip


class _Nowhere:
    """Nothing leaves a worker that is alone."""

    def _left(self, *what: Any) -> Any:
        raise AssertionError(what)

    send = send_gathered = located = error = late = _left


class _Sourced:
    """A dataflow that is given the transfers of two sources, pass by pass."""

    def __init__(self, parts: Parts, patience: int | None) -> None:
        graph, me = bank_graphs.bank.validated(), WorkerId("w")
        self.cuts, self.released = LiveCuts(START), 0
        settings = WorkerSettings("bank", 1, (), patience=patience)
        self.flow = parts.dataflow(graph, settings, me, self.cuts, _Nowhere())
        self._source = graph.sources[0].id
        self._barriers = {vertex.id: parts.barrier() for vertex in graph.sinks}
        self.flow.reset([me], {**self._barriers, self.flow.errors: parts.barrier()})

    def take(self, texts: Sequence[str], turn: int, behind: int) -> None:
        """One pass: what the first source has of this turn, and the second of one before. What is below both is
        final."""
        self.flow.run([*self._half(texts, turn, 0), *self._half(texts, turn - behind, 1)])
        self.cuts.reach(Time(1 + (turn - behind + 1) * BATCH if turn >= behind else 1))
        if self.flow.has_work:  # transactions that were put off
            self.flow.run([])
        self.cuts.advance(min(self.cuts.reached, self.flow.undecided))
        self.released += sum(len(barrier.release(self.cuts.minimal)) for barrier in self._barriers.values())

    def _half(self, texts: Sequence[str], turn: int, source: int) -> list[Work]:
        first = max(0, turn) * BATCH
        numbers = range(first + source, min(first + BATCH, len(texts)) if turn >= 0 else 0, 2)
        return [
            (meta_of(Time(1 + number), 0), Time(1 + number), self._source, texts[number], False)
            for number in numbers
        ]


def _texts(count: int, workload: str = "uniform") -> list[str]:
    return [line.decode() for line in islice(lines(WORKLOADS[workload], count), count)]


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


if __name__ == "__main__":
    print(transfers(FASTEST, int(sys.argv[1])))
