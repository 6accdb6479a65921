"""Credit: how much enters ahead of what is delivered, read ahead of a replay, and in one pass of a worker."""

from collections.abc import Sequence

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.room import MARK_BYTES, PASS_BYTES, READ_AHEAD
from flamestream.model.graph import Graph
from flamestream.model.ids import Offset, SourceName, WorkerId
from flamestream.model.time import END, START, Time, Timestamp
from support.core.core_cluster import CoreCluster, P
from support.core.fronts import FENCE, F, actions_of, arrived, fronts_alone, one_source_cluster


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("timed", [[], [0]])
def test_no_more_runs_enter_than_there_is_credit_for(seed: int, timed: list[int]) -> None:
    cluster = one_source_cluster(2, seed, credit_runs=3, timed=timed)
    cluster.held.add(act.Deliver)
    for number in range(40):
        cluster.feed(0, f"a{number}")
        cluster.run()
    owner = cluster.layout.fronts[0]
    entered = cluster.workers[owner]._counters.items_in if timed else len(cluster.journals[F])
    assert entered == 3
    cluster.held.clear()
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete


def test_credit_comes_back_for_runs_without_output() -> None:
    graph = Graph("g")
    graph.source("s0").filter(lambda p: False).sink("out")
    cluster = CoreCluster(graph, 2, 1, credit_runs=2).recover()
    cluster.feed(0, *"abcdefgh")
    cluster.end()
    cluster.run()
    assert cluster.complete


def test_a_replay_takes_credit_too() -> None:
    cluster = one_source_cluster(2, 1, credit_runs=3)
    for number in range(40):
        cluster.feed(0, f"a{number}")
        cluster.run()
    for sink in cluster.sinks.values():  # the consumer forgot: everything has to be delivered again
        sink.last.clear()
        sink.taken.clear()
    cluster.held.add(act.Deliver)
    cluster.recover()
    cluster.run()
    assert len(actions_of(cluster, act.ReadRun)) == 3
    assert cluster.workers[cluster.layout.fronts[0]]._fronts._credit[F].left == (0, 0)
    cluster.held.clear()
    cluster.end()
    cluster.run()
    cluster.check()


def test_no_more_runs_are_read_ahead_than_a_few() -> None:
    cluster = one_source_cluster(2, 1)
    for number in range(3 * READ_AHEAD):
        cluster.feed(0, f"a{number}")
        cluster.run()
    cluster.held.add(act.ReadRun)
    cluster.recover()
    cluster.run()
    assert len(actions_of(cluster, act.ReadRun)) == READ_AHEAD
    followed = [follow for follow in actions_of(cluster, act.Follow) if follow.fence == cluster.fence]
    assert not followed, "new records come behind all old ones"
    cluster.held.clear()
    cluster.end()
    cluster.run()
    cluster.check()


def test_a_pull_says_what_credit_is_left_and_only_when_it_changes() -> None:
    cluster = one_source_cluster(1, 1, credit_runs=2, credit_bytes=100)
    cluster.run()
    assert [(pull.records > 0, pull.size) for pull in actions_of(cluster, act.Pull)] == [(True, 100)]
    assert not [action for action in cluster.step(WorkerId("w0"), ev.Woken()) if isinstance(action, act.Pull)]
    cluster.held.add(act.Deliver)
    for record in ("a1", "a2", "a3"):
        cluster.feed(0, record)
        cluster.run()
    assert [(pull.records > 0, pull.size) for pull in actions_of(cluster, act.Pull)] == [
        (True, 100),
        (True, 90),
        (False, 0),
    ]


def test_it_asks_for_a_pass_when_credit_has_come_back() -> None:
    fronts, entered = fronts_alone(credit_runs=1)
    fronts.records(arrived(0, "a"))
    fronts.records(arrived(1, "b"))
    fronts.advance(Timestamp(5))
    assert len(entered) == 1 and not fronts.waits_for_a_pass
    fronts.settled(Time(entered[0].time + 1))
    assert fronts.waits_for_a_pass
    fronts.advance(Timestamp(6))
    assert len(entered) == 2


def test_a_source_that_has_ended_is_not_at_its_end_while_records_wait_for_credit() -> None:
    fronts, entered = fronts_alone(credit_runs=1)
    fronts.records(arrived(0, "a"))
    fronts.records(arrived(1, "b"))
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    fronts.durable(F, entered[0].time)
    assert not fronts.all_ended and fronts.promises(Timestamp(0))[-1].time < END


@pytest.mark.parametrize("timed", [True, False])
def test_what_enters_in_one_pass_is_bounded_in_bytes(timed: bool) -> None:
    fronts, entered = fronts_alone(timed)
    for number in range(3):
        fronts.records(ev.RecordsArrived(FENCE, F, P, Offset(number), ["a"], PASS_BYTES))
    counts = []
    for now in (5, 6, 7):
        fronts.room.next_pass(None)
        fronts.advance(Timestamp(now))
        counts.append(len(entered))
    assert counts == [1, 2, 3] and not fronts.waits_for_a_pass


@pytest.mark.parametrize("timed", [True, False])
def test_what_enters_in_one_pass_is_bounded_in_marks(timed: bool) -> None:
    """A mark goes to every shard of keys: a backlog of small runs with one each would hold up a worker for
    longer than its watchdog waits."""
    fronts, entered = fronts_alone(timed)
    most = PASS_BYTES // MARK_BYTES
    for number in range(2 * most + 1):
        fronts.records(ev.RecordsArrived(FENCE, F, P, Offset(number), ["mark"], 0))
    counts = []
    for now in (5, 6, 7):
        fronts.room.next_pass(None)
        fronts.advance(Timestamp(now))
        counts.append(len(entered))
    assert counts == [most, 2 * most, 2 * most + 1]


def _of_a_call() -> tuple[Fronts, list[tuple[int, int]]]:
    """The front of a call's answers, and the first offset and count of each run."""
    entered: list[tuple[int, int]] = []

    def enter(_: SourceName, entry: ev.Entry, payloads: Sequence[object]) -> int:
        entered.append((entry.first, len(payloads)))
        return 0

    front = FrontSettings(F, SourceName("asked()"), timed=False, replayable=False, of_call=True)
    fronts = Fronts(FENCE, WorkerSettings("j", 4, (front,)), [F], {}, enter)
    fronts.seal(START, ())
    fronts.sealing.sealed(F, [])
    fronts.start(START)
    return fronts, entered


def test_answers_that_come_together_are_one_run() -> None:
    fronts, entered = _of_a_call()
    fronts.answered(F, ["a", "b", "c"])
    fronts.advance(Timestamp(5))
    assert entered == [(0, 3)]


def test_but_no_entry_of_a_journal_holds_more_than_enters_in_a_pass_unless_it_is_one_answer() -> None:
    fronts, entered = _of_a_call()
    fronts.answered(F, ["x" * (PASS_BYTES // 2 - 100)] * 3 + ["y" * 2 * PASS_BYTES, "z"])
    for now in range(5, 10):
        fronts.room.next_pass(None)
        fronts.advance(Timestamp(now))
    assert entered == [(0, 2), (2, 1), (3, 1), (4, 1)]
    assert not fronts.waits_for_a_pass
