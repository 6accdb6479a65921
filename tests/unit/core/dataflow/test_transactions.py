"""Transactions on a worker: who is decided again, how often, and under which cause that is told."""

import doctest
from dataclasses import dataclass, field
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.dataflow import Work
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Flow, Holding, Parts
from flamestream.core.dataflow.tables import patience
from flamestream.core.dataflow.tables.contention import MOST_ROWS, Contended, Contention
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
    patience: int | None = None
    adds: bool = False
    """They add what they are, not 1."""

    def __post_init__(self) -> None:
        graph = fs.Graph("counting")
        table, self.runs = graph.table("table", initial=int), list[int]()

        def count(state: Any, number: int) -> tuple[int, int]:
            self.runs.append(number)
            state[table, "hot"] += number if self.adds else 1
            if self.refuses:
                raise fs.Abort("refused")
            return number, state[table, "hot"]

        source = graph.source("numbers")
        source.transact(count).committed.sink("out")
        self.vertex, self.outside, self.cuts = source.vertex, Outside(), LiveCuts(START)
        settings = WorkerSettings("j", 1, (), patience=self.patience)
        self.flow: Flow = self.parts.dataflow(graph.validated(), settings, ME, self.cuts, self.outside)
        sink = next(vertex.id for vertex in graph.vertices if vertex.name == "out")
        self.barrier: Holding = self.parts.barrier()
        doors = {sink: [OTHER]} if self.elsewhere else {}
        self.flow.reset([ME], {sink: self.barrier, self.flow.errors: self.parts.barrier()}, doors)

    def come(self, *times: int) -> None:
        """One pass over a transaction at each of these times."""
        self.flow.run([self._work(time) for time in times])

    def go(self, *times: int) -> None:
        """One pass over tombstones of those."""
        self.flow.run([(*self._work(time)[:4], True) for time in times])

    def version(self, time: int, number: int, *, gone: bool = False) -> None:
        """One pass over another version of the item at a time; or over its tombstone."""
        meta, cause, vertex, *_ = self._work(time)
        self.flow.run([(meta, cause, vertex, number, gone)])

    def reached(self, time: int) -> None:
        """Nothing below it comes any more but of what is put off; then a pass, if there is something to do."""
        self.cuts.reach(Time(time))
        if self.flow.has_work:
            self.flow.run([])

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


@pytest.mark.parametrize("parts", PARTS)
def test_without_patience_each_is_decided_once_when_nothing_can_come_below_it(parts: Parts) -> None:
    counting = Counting(parts, patience=0)
    counting.come(7, 9)
    counting.come(5)
    assert (counting.runs, counting.flow.undecided, counting.flow.has_work) == ([], 5, False)
    counting.reached(8)
    assert (counting.runs, counting.flow.undecided) == ([5, 7], 9)
    counting.reached(10)
    assert (counting.runs, counting.flow.undecided) == ([5, 7, 9], END)
    assert counting.results() == [(5, 1), (7, 2), (9, 3)]


@pytest.mark.parametrize("parts", PARTS)
def test_one_that_is_put_off_and_goes_was_never_there(parts: Parts) -> None:
    counting = Counting(parts, patience=0, elsewhere=True)
    counting.come(5, 7)
    counting.go(5)
    counting.reached(9)
    assert (counting.runs, [payload for _, _, payload, _ in counting.outside.sent]) == ([7], [(7, 1)])


@pytest.mark.parametrize("parts", PARTS)
def test_a_version_that_goes_again_is_undone_above_the_one_that_stays(parts: Parts) -> None:
    """They come by several ways, so the one that stays may have come before."""
    counting = Counting(parts, adds=True)
    counting.version(5, 9)
    counting.version(5, 3)
    counting.version(7, 1)
    counting.version(5, 3, gone=True)
    assert counting.results() == [(9, 9), (1, 10)]


@pytest.mark.parametrize("parts", PARTS)
def test_a_late_one_is_read_by_all_versions_of_the_next(parts: Parts) -> None:
    """Whichever of them goes, the other has read it."""
    counting = Counting(parts, adds=True)
    counting.version(7, 3)
    counting.version(7, 9)
    counting.version(5, 1)
    counting.version(7, 3, gone=True)
    assert counting.results() == [(1, 1), (9, 10)]


@pytest.mark.parametrize("parts", PARTS)
def test_of_one_that_comes_twice_and_goes_once_the_other_is_decided(parts: Parts) -> None:
    """A fold that goes back to what it gave before: that comes again before it has gone."""
    counting = Counting(parts, patience=0, adds=True)
    counting.version(5, 9)
    counting.version(5, 9)
    counting.version(5, 9, gone=True)
    counting.reached(6)
    assert counting.results() == [(9, 9)]


@pytest.mark.parametrize("parts", PARTS)
def test_what_was_put_off_is_told_under_its_own_time(parts: Parts) -> None:
    counting = Counting(parts, patience=0, elsewhere=True)
    counting.flow.run([(meta_of(Time(9), 0), Time(3), counting.vertex, 9, False)])
    counting.reached(10)
    assert [cause for cause, _, _, _ in counting.outside.sent] == [9]


@pytest.mark.parametrize("parts", PARTS)
def test_who_was_decided_as_often_as_patience_lets_waits(parts: Parts) -> None:
    counting = Counting(parts, patience=2)
    for time in (9, 8, 7, 6):
        counting.come(time)
    assert counting.runs.count(9) == counting.runs.count(8) == 2
    counting.reached(10)
    assert counting.runs.count(9) == 3
    assert counting.results() == [(6, 1), (7, 2), (8, 3), (9, 4)]


@pytest.mark.parametrize("parts", PARTS)
def test_guessing_ends_where_guesses_are_wrong_and_begins_again_where_they_would_be_right(
    parts: Parts,
) -> None:
    counting, half = Counting(parts), WorkerSettings("", 1, ()).judged // 2
    waits = list[bool]()
    for turn in range(12):
        first = turn * 1000
        contended, late = range(first + 1, first + 2 * half, 2), range(first, first + 2 * half, 2)
        counting.come(*contended)
        if turn < 4:  # those of another source come in the next passes, between them
            counting.come(*late[::2])
            counting.come(*late[1::2])
        counting.reached(first + 1000)
        waits.append(counting.contended(first + 1000).waits)
    assert (waits[3], waits[11]) == (True, False), waits


@pytest.mark.parametrize("parts", PARTS)
def test_a_recovery_forgets_what_was_put_off(parts: Parts) -> None:
    counting = Counting(parts, patience=0)
    counting.come(5)
    for state in counting.flow.states.values():
        state.go_back(START)
    assert counting.flow.undecided == END


def test_the_example_of_patience_holds() -> None:
    assert doctest.testmod(patience).failed == 0


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
