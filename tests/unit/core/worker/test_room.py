"""As much enters in a pass as is done in the time that a pass may take, and nothing in a pause, which lets through what
has entered and ends whatever happens."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.room import PASS_BYTES, PASS_US, Pause, Room
from flamestream.core.worker.worker import PAUSE_HEARTBEATS
from flamestream.model.ids import Epoch, Offset, Partition, WorkerId
from flamestream.model.time import START, FrontId, Instant, Time, Timestamp
from support.core.core_cluster import CoreCluster
from support.core.fronts import one_source_cluster
from support.core.one_worker import FENCE, OneWorker

RUN = 50
"""Bytes of a run."""


def lived(costs: Iterable[float]) -> list[int]:
    """Microseconds of each pass over an endless backlog, when a byte takes so many."""
    room, took = Room(), list[int]()
    for cost in costs:
        us = 0
        while room.left > 0:
            room.enter(RUN)
            us += int(RUN * cost)
        took.append(us)
        room.next_pass(us)
    return took


@given(st.floats(0.1, 5_000))
def test_a_pass_takes_no_longer_than_twice_what_it_may_or_than_a_run(cost: float) -> None:
    took = lived([cost] * 10)
    assert max(took[1:]) <= 2 * PASS_US + 2 * RUN * cost


def test_what_becomes_dear_makes_passes_short_again_and_cheap_long() -> None:
    took = lived([1.0] * 10 + [500.0] * 10 + [1.0] * 20)
    assert max(took[12:20]) <= 2 * PASS_US
    assert took[-1] >= 0.6 * PASS_BYTES, "the whole of it"


def test_a_run_enters_however_long_it_takes() -> None:
    assert lived([1e6] * 5)[1:] == [RUN * 1_000_000] * 4


def test_what_is_fast_enters_as_far_as_a_pass_holds_and_where_nobody_measures_too() -> None:
    room = Room()
    room.enter(RUN)
    room.next_pass(1)
    assert room.left == PASS_BYTES
    room.next_pass(None)
    assert room.left == PASS_BYTES


def passes(cluster: CoreCluster, owner: WorkerId, took: int) -> list[int]:
    """The bytes that its worker asks for behind each pass, if each takes so long."""
    worker, asked = cluster.workers[owner], list[int]()
    step = worker.step

    def measured(now: Timestamp, instant: Instant, events: list[ev.Event]) -> list[act.Action]:
        actions = step(now, instant, events, took)
        asked.extend(each.size for each in actions if isinstance(each, act.Pull) and each.size)
        return actions

    worker.step = measured  # type: ignore[method-assign, assignment]
    for number in range(30):
        cluster.feed(0, f"a{number}")
        cluster.run()
    return asked


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_whose_passes_are_long_asks_for_little_at_once(workers: int) -> None:
    cluster = one_source_cluster(workers, 1)
    asked = passes(cluster, cluster.layout.fronts[0], 5 * PASS_US)
    assert asked[-1] <= 10, "a record has ten bytes"
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete


FRONT, W, V = FrontId(0), WorkerId("w"), WorkerId("v")
HEARTBEAT = 10
PAUSED = messages.Announce(FENCE, Epoch(1), [], pause=True)


def _worker() -> OneWorker:
    graph = fs.Graph("g")
    graph.source("docs").map(str.upper).sink("out", key=lambda word: word)
    return OneWorker(graph, REFERENCE, debug=False, heartbeat=HEARTBEAT)


def _entered(one: OneWorker) -> int:
    return sum(isinstance(action, act.Append) for action in one.done)


def _cut(one: OneWorker) -> bool:
    told = [action.message for action in one.done if isinstance(action, act.ToldCoordinator)]
    return any(isinstance(message, messages.CutTaken) for message in told)


def test_nothing_enters_from_the_announcement_to_the_decision() -> None:
    one = _worker()
    _hear(one, PAUSED)
    _give(one, "a")
    assert _entered(one) == 0 and _cut(one)
    _hear(one, messages.Abort(FENCE, Epoch(1)))
    assert _entered(one) == 1


def test_a_word_that_comes_behind_the_end_of_its_epoch_begins_no_pause() -> None:
    one = _worker()
    _hear(one, messages.Abort(FENCE, Epoch(1)))
    _hear(one, PAUSED)
    _give(one, "a")
    assert _entered(one) == 1


def test_it_ends_by_itself_and_the_epoch_is_cut_then() -> None:
    one = _worker()
    assert one.worker._acker is not None
    one.worker._acker._paused[V] = Epoch(0)  # another worker, which says nothing
    _hear(one, PAUSED)
    _give(one, "a")
    assert (_entered(one), _cut(one)) == (0, False)
    one._now += PAUSE_HEARTBEATS * HEARTBEAT
    one.turn()
    assert (_entered(one), _cut(one)) == (1, True)


def test_the_cut_waits_for_all_workers_and_for_all_that_has_entered() -> None:
    acker = Acker({FRONT: True}, [W, V], START)
    acker.cut(Epoch(1), pause=True)
    acker.take(W, messages.Promise(FRONT, Time(5), Time(5)))
    acker.take(W, messages.Paused(Epoch(1)))
    assert _cuts(acker) == []
    acker.take(V, messages.Paused(Epoch(1)))
    assert _cuts(acker) == [], "the run at 5 is not through"
    acker.take(W, messages.Promise(FRONT, Time(5), Time(6)))
    assert _cuts(acker) == [messages.Cut(Epoch(1), Time(6))]


def test_what_waits_for_a_timed_front_is_not_waited_for() -> None:
    acker = Acker({FRONT: True, FrontId(1): False}, [W], START)
    acker.take(W, messages.Promise(FRONT, Time(50), Time(51)))
    acker.take(W, messages.Promise(FrontId(1), Time(9), Time(10)))
    acker.cut(Epoch(1), pause=True)
    acker.take(W, messages.Paused(Epoch(1)))
    assert _cuts(acker) == [messages.Cut(Epoch(1), Time(10))]


@pytest.mark.parametrize(("newer", "lasts"), [(1, False), (0, True)])
def test_the_end_of_an_older_epoch_ends_nothing(newer: int, lasts: bool) -> None:
    pause = Pause(limit=100)
    pause.begin(Epoch(7), Instant(0))
    pause.decided(Epoch(6 + newer))
    assert pause.lasts(Instant(1)) == lasts


def _hear(one: OneWorker, message: messages.ToWorker) -> None:
    """What the pass asks for is not answered: no epoch comes to its commit."""
    one.turn(ev.FromCoordinator(message))
    one._answers.clear()


def _give(one: OneWorker, record: str) -> None:
    one.turn(ev.RecordsArrived(FENCE, FRONT, Partition(""), Offset(0), [record], 1))
    one._answers.clear()


def _cuts(acker: Acker) -> list[messages.PeerMessage]:
    return [message for message in acker.told() if isinstance(message, messages.Cut)]
