"""Transactions on a worker: who is decided again, how often, and under which cause that is told."""

from dataclasses import dataclass, field
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.contention import MOST_ROWS, Contended, Contention
from flamestream.core.dataflow.dataflow import Work
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Flow, Holding, Parts
from flamestream.core.protocol.actions import Deliver
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.ids import WorkerId
from flamestream.model.kernel import kernel
from flamestream.model.meta import Meta, meta_of, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import END, START, Time
from support.core.one_worker import OneWorker

ME, OTHER = WorkerId("me"), WorkerId("other")
PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]
HOT = codec.encode(("table", "hot"))
Sent = tuple[Time, Meta, Any, bool]


@dataclass
class Outside:
    """What leaves for the other worker: under which cause, and is it a tombstone."""

    sent: list[Sent] = field(default_factory=list)

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: Any, tombstone: bool
    ) -> None:
        self.sent.append((cause, meta, payload, tombstone))

    def send_gathered(self, owner: WorkerId, cause: Time, items: Any) -> None:
        for meta, payload, gone in zip(
            items.metas, codec.decode_many(items.payloads), items.tombstones, strict=True
        ):
            self.sent.append((cause, Meta(meta), payload, gone))

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        return error

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        raise AssertionError(error)

    def late(self, meta: Meta, number: int, tombstone: bool) -> None:
        raise AssertionError("nothing here has a time of its own")


@dataclass
class Counting:
    """A graph whose transactions all count one row up, on one worker of two."""

    parts: Parts
    elsewhere: bool = False
    """Results go to the other worker."""
    refuses: bool = False
    """Each is aborted."""

    def __post_init__(self) -> None:
        graph = fs.Graph("counting")
        table, self.runs = graph.table("table", initial=int), list[int]()

        def count(state: Any, number: int) -> tuple[int, int]:
            self.runs.append(number)
            state[table, "hot"] += 1
            if self.refuses:
                raise fs.Abort("refused")
            return number, state[table, "hot"]

        source = graph.source("numbers")
        source.transact(count).committed.sink("out")
        self.vertex, self.outside, self.cuts = source.vertex, Outside(), LiveCuts(START)
        settings = WorkerSettings("j", 1, ())
        self.flow: Flow = self.parts.dataflow(graph.validated(), settings, ME, self.cuts, self.outside)
        sink = next(vertex.id for vertex in graph.vertices if vertex.name == "out")
        self.barrier: Holding = self.parts.barrier()
        doors = {sink: [OTHER]} if self.elsewhere else {}
        self.flow.reset([ME], {sink: self.barrier, self.flow.errors: self.parts.barrier()}, doors)

    def come(self, *times: int) -> None:
        """One pass over a transaction at each of these times."""
        self.flow.run([self._work(time) for time in times])

    def contended(self, minimal: int) -> Contended:
        """The counts once minimal time is there."""
        self.cuts.advance(Time(minimal))
        return self.flow.contended()

    def results(self) -> list[tuple[int, int]]:
        """All, once nothing may come any more."""
        return [payload for _, _, payload in self.barrier.release(END)]

    def _work(self, time: int) -> Work:
        return meta_of(Time(time), 0), Time(time), self.vertex, time, False


@pytest.mark.parametrize("parts", PARTS)
def test_those_above_late_ones_are_decided_again_once_a_pass(parts: Parts) -> None:
    counting = Counting(parts)
    counting.come(*range(1, 100, 2))
    counting.come(*range(0, 100, 2))
    assert len(counting.runs) <= 50 + 50 + 50
    assert counting.results() == [(number, number + 1) for number in range(100)]


@pytest.mark.parametrize("parts", PARTS)
def test_what_changes_is_told_under_the_cause_of_what_came_below_it(parts: Parts) -> None:
    counting = Counting(parts, elsewhere=True)
    counting.come(7)
    counting.come(5, 9)
    assert all(cause <= time_of_meta(meta) for cause, meta, _, _ in counting.outside.sent)
    told = sorted((payload, gone) for _, _, payload, gone in counting.outside.sent)
    assert told == [((5, 1), False), ((7, 1), False), ((7, 1), True), ((7, 2), False), ((9, 3), False)]


@pytest.mark.parametrize("parts", PARTS)
def test_it_is_told_how_often_transactions_were_decided_and_for_which_row(parts: Parts) -> None:
    counting = Counting(parts)
    counting.come(7)
    assert counting.contended(5) == Contended()
    counting.come(5, 9)
    assert counting.contended(8) == Contended(2, 3, 0, ((HOT, 1),))
    assert counting.contended(10) == Contended(3, 4, 0, ((HOT, 1),))


@pytest.mark.parametrize("parts", PARTS)
def test_aborted_ones_are_counted(parts: Parts) -> None:
    counting = Counting(parts, refuses=True)
    counting.come(1, 2, 3)
    assert counting.contended(9).aborted == 3


def test_the_row_that_has_most_is_never_missing() -> None:
    contention = Contention()
    for number in range(1000):
        contention.changed(b"%d" % number, 1)
        contention.changed(b"hot", 2)
    (row, count), *others = contention.told().rows
    assert row == b"hot" and count >= 2000
    assert len(others) == MOST_ROWS - 1


@pytest.mark.parametrize("parts", PARTS)
def test_in_debug_mode_a_transaction_touches_the_rows_that_it_names(parts: Parts) -> None:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int)
    by_parity = accounts.index("by_parity", key=lambda balance: balance % 2)

    def put(state: Any, item: tuple[str, str]) -> int:
        state[accounts, item[1]] += 1
        return len(state[by_parity, 1])

    rows = lambda item: [accounts[item[0]]]  # noqa: E731
    graph.source("docs").transact(put, keys=rows).committed.sink("out")
    named, other = [("a", "a")], [("a", "b")]
    for debug, given, refused in ((True, named, False), (True, other, True), (False, other, False)):
        life = OneWorker(graph, parts, debug)
        life.records(0, given)
        texts = [
            repr(codec.decode_items(bundle.items))
            for a in life.done
            if isinstance(a, Deliver)
            for bundle in a.bundles
        ]
        assert any("keys= does not name" in text for text in texts) is refused, texts
