"""A batch worker under the real coordinator: whatever dies and whichever links break, each result is
delivered once, of the state that is right."""

from typing import Any

import msgspec
import pytest

from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.events import FromCoordinator
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.snapshot import FrontPosition, Inventory
from flamestream.core.protocol.stored_rows import Numbers, states_of
from flamestream.core.worker.batch_worker import (
    NOTHING,
    BatchDone,
    BatchWorker,
    ComputeBatch,
    Event,
    InputAhead,
    SinksOpen,
    behind,
)
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, Fence, LayoutVersion, Slot, WorkerId
from flamestream.model.layout import Assignment, Layout
from flamestream.model.time import END, FrontId, Time
from support.core.batch_bench import STEP, BatchBench


def graph_of(*names: str) -> Graph:
    graph = Graph("g")
    stream = graph.source("numbers")
    for name in names:
        stream.reduce(name=name, key=abs, initial=int, combine=max).sink(name)
    return graph.validated()


def hello(inventory: Inventory) -> msg.Hello:
    return msg.Hello(WorkerId("w"), "b:1", NO_FENCE, False, "3.11", "g", inventory=inventory)


def expected(bench: BatchBench) -> list[tuple[int, int]]:
    sums, total = [], 0
    for time in bench.times:
        total += time // STEP
        sums.append((time, total))
    return sums


@pytest.mark.parametrize("seed", range(150))
def test_each_result_is_delivered_once_through_any_schedule(seed: int) -> None:
    bench = BatchBench(seed)
    assert bench.run() == "completed"
    assert bench.consumer.had == expected(bench)


@pytest.mark.parametrize("seed", range(30))
def test_a_drain_ends_at_an_epoch_with_nothing_delivered_above_it(seed: int) -> None:
    bench = BatchBench(seed, faults=False, runs=200)
    for _ in range(100):
        bench.rng.choice(bench._all_steps())()
    bench.drain()
    assert bench.run() == "drained"
    cut = bench.bench.record.cut
    assert bench.consumer.had == [each for each in expected(bench) if each[0] < cut]


def test_a_batch_whose_epoch_was_aborted_has_rows_that_count() -> None:
    """They are of that epoch, and are committed as a later one; the graph has an operation more than before."""
    before, after = graph_of("sums"), graph_of("sums", "counts")
    worker = BatchWorker(hello(inventory_of(after)))
    fence = Fence(Attempt(2), LayoutVersion(1))
    index = msgspec.structs.replace(NOTHING, epoch=Epoch(3), cut=Time(STEP), inventory=inventory_of(before))
    assignment = Assignment(
        fence, Layout(LayoutVersion(1), (WorkerId("w"),), (WorkerId("w"),), WorkerId("w"))
    )
    worker.step([FromCoordinator(msg.Recover(assignment, {}, "", index.cut, index.epoch, index, []))])
    said: list[Event] = [
        SinksOpen(fence, b"", []),
        FromCoordinator(msg.Replay(fence, index.cut)),
        InputAhead(fence, Time(9 * STEP)),
    ]
    worker.step([*said, FromCoordinator(msg.Announce(fence, Epoch(4), []))])
    worker.step(
        [FromCoordinator(msg.Abort(fence, Epoch(4))), BatchDone(fence, Time(5 * STEP), [], [], [], [])]
    )
    worker.step([FromCoordinator(msg.Announce(fence, Epoch(5), []))])
    [asked] = [
        action
        for action in worker.step(
            [
                FromCoordinator(msg.Committed(fence, Epoch(5), Time(5 * STEP))),
                FromCoordinator(msg.Announce(fence, Epoch(6), [])),
            ]
        )
        if isinstance(action, ComputeBatch)
    ]
    fresh = after.operations[1]
    row = Chain(fresh.number, Slot(0), b"key", Epoch(4), True, (b"state",))
    assert states_of([row], Numbers(after).known(asked.committed))


def test_what_all_of_the_input_has_come_to_is_told_before_the_last_acceptance() -> None:
    worker, fence = BatchWorker(hello(inventory_of(graph_of("sums")))), Fence(Attempt(1), LayoutVersion(1))
    layout = Layout(LayoutVersion(1), (WorkerId("w"),), (WorkerId("w"),), WorkerId("w"))
    last = BatchDone(
        fence, END, [], [], [FrontPosition(FrontId(0), Time(STEP), {}, records=7)], [], delivered=5
    )
    told = worker.step(
        [
            FromCoordinator(msg.Recover(Assignment(fence, layout), {}, "", Time(0), Epoch(0), None, [])),
            FromCoordinator(msg.Replay(fence, Time(0))),
            FromCoordinator(msg.Announce(fence, Epoch(1), [])),
            last,
        ]
    )
    assert isinstance(told[-2], ToldCoordinator) and isinstance(told[-2].message, msg.Progress)
    assert isinstance(told[-1], ToldCoordinator) and isinstance(told[-1].message, msg.Accepted)
    assert (told[-2].message.items_in, told[-2].message.items_out) == (7, 5)


class AdvancesWhenItAccepts(BatchWorker):
    """An epoch may abort."""

    def _accept(self, batch: BatchDone) -> None:
        assert self._announced is not None
        self._committed = behind(self._committed, batch, self._announced, None)
        super()._accept(batch)
        self._batch = None


class TakesAnyCommit(BatchWorker):
    """The coordinator tells again what was committed before this batch."""

    def _hear_attempt(self, message: Any) -> None:
        if isinstance(message, msg.Committed):
            self._accepted = message.epoch
        super()._hear_attempt(message)


class ForgetsWhatIsCommitted(BatchWorker):
    """A recovery begins at what is committed, not at the beginning."""

    def _begin(self, index: Any) -> None:
        super()._begin(None)


@pytest.mark.parametrize("kind", [AdvancesWhenItAccepts, TakesAnyCommit, ForgetsWhatIsCommitted])
def test_a_broken_worker_is_caught(kind: type[BatchWorker]) -> None:
    def is_right(seed: int) -> bool:
        bench = BatchBench(seed, kind)
        try:
            return bench.run() == "completed" and bench.consumer.had == expected(bench)
        except (AssertionError, ValueError):
            return False

    assert not all(is_right(seed) for seed in range(150))
