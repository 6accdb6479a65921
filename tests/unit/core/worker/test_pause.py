"""A pause keeps runs out while slots are about to move, lets through what has entered, and ends whatever happens."""

import doctest

import pytest

import flamestream as fs
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol import actions, events, messages
from flamestream.core.worker import pause
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.pause import Pause
from flamestream.core.worker.worker import PAUSE_HEARTBEATS
from flamestream.model.ids import Epoch, Offset, Partition, WorkerId
from flamestream.model.time import START, FrontId, Instant, Time
from support.core.one_worker import FENCE, OneWorker

FRONT, W, V = FrontId(0), WorkerId("w"), WorkerId("v")
HEARTBEAT = 10
PAUSED = messages.Announce(FENCE, Epoch(1), [], pause=True)


def _worker() -> OneWorker:
    graph = fs.Graph("g")
    graph.source("docs").map(str.upper).sink("out", key=lambda word: word)
    return OneWorker(graph, REFERENCE, debug=False, heartbeat=HEARTBEAT)


def _entered(one: OneWorker) -> int:
    return sum(isinstance(action, actions.Append) for action in one.done)


def _cut(one: OneWorker) -> bool:
    told = [action.message for action in one.done if isinstance(action, actions.ToldCoordinator)]
    return any(isinstance(message, messages.CutTaken) for message in told)


def test_the_example_in_the_docstring_holds() -> None:
    assert doctest.testmod(pause).failed == 0


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
    one.turn(events.FromCoordinator(message))
    one._answers.clear()


def _give(one: OneWorker, record: str) -> None:
    one.turn(events.RecordsArrived(FENCE, FRONT, Partition(""), Offset(0), [record], 1))
    one._answers.clear()


def _cuts(acker: Acker) -> list[messages.PeerMessage]:
    return [message for message in acker.told() if isinstance(message, messages.Cut)]
