"""Fronts in a worker: credit, journal, replay, promises."""

from collections.abc import Sequence
from typing import Any

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.fronts import MARK_BYTES, PASS_BYTES, READ_AHEAD, Fronts
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Fence, Offset, SinkName, SourceName, WorkerId
from flamestream.model.time import END, START, FrontId, Time, Timestamp
from support.core.core_cluster import CoreCluster, P

F = FrontId(0)
FENCE = Fence(*NO_FENCE)


def _graph() -> Graph:
    graph = Graph("g")
    graph.source("s0").reduce(
        key=lambda p: p[0], initial=str, combine=lambda a, p: a + p[1:], emit=lambda a, p: (p[0], a)
    ).sink("out", key=lambda p: p[0])
    return graph


def _cluster(workers: int = 2, seed: int = 1, **changes: Any) -> CoreCluster:
    return CoreCluster(_graph(), workers, seed, **changes).recover()


def _actions(cluster: CoreCluster, kind: type, since: int = 0) -> list[Any]:
    return [action for _, action in cluster.done[since:] if isinstance(action, kind)]


# --- credit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("timed", [[], [0]])
def test_no_more_runs_enter_than_there_is_credit_for(seed: int, timed: list[int]) -> None:
    cluster = _cluster(2, seed, credit_runs=3, timed=timed)
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
    cluster = _cluster(2, 1, credit_runs=3)
    for number in range(40):
        cluster.feed(0, f"a{number}")
        cluster.run()
    for sink in cluster.sinks.values():  # the consumer forgot: everything has to be delivered again
        sink.last.clear()
        sink.taken.clear()
    cluster.held.add(act.Deliver)
    cluster.recover()
    cluster.run()
    assert len(_actions(cluster, act.ReadRun)) == 3
    assert cluster.workers[cluster.layout.fronts[0]]._fronts._credit[F].left == (0, 0)
    cluster.held.clear()
    cluster.end()
    cluster.run()
    cluster.check()


def test_no_more_runs_are_read_ahead_than_a_few() -> None:
    cluster = _cluster(2, 1)
    for number in range(3 * READ_AHEAD):
        cluster.feed(0, f"a{number}")
        cluster.run()
    cluster.held.add(act.ReadRun)
    cluster.recover()
    cluster.run()
    assert len(_actions(cluster, act.ReadRun)) == READ_AHEAD
    followed = [follow for follow in _actions(cluster, act.Follow) if follow.fence == cluster.fence]
    assert not followed, "new records come behind all old ones"
    cluster.held.clear()
    cluster.end()
    cluster.run()
    cluster.check()


def test_a_pull_says_what_credit_is_left_and_only_when_it_changes() -> None:
    cluster = _cluster(1, 1, credit_runs=2, credit_bytes=100)
    cluster.run()
    assert [(pull.records > 0, pull.size) for pull in _actions(cluster, act.Pull)] == [(True, 100)]
    assert not [action for action in cluster.step(WorkerId("w0"), ev.Woken()) if isinstance(action, act.Pull)]
    cluster.held.add(act.Deliver)
    for record in ("a1", "a2", "a3"):
        cluster.feed(0, record)
        cluster.run()
    assert [(pull.records > 0, pull.size) for pull in _actions(cluster, act.Pull)] == [
        (True, 100),
        (True, 90),
        (False, 0),
    ]


# --- journal and replay -------------------------------------------------------------------------------------


def test_nothing_is_released_before_its_run_is_durable() -> None:
    cluster = _cluster()
    cluster.held.add(act.Append)
    cluster.feed(0, "a1", "b1")
    cluster.run()
    assert not _actions(cluster, act.Deliver)
    cluster.held.clear()
    cluster.run()
    assert cluster.delivered() == cluster.expected() != {"out": {}}


def test_a_replay_gives_the_same_times_though_more_has_come() -> None:
    cluster = _cluster(2, 3)
    cluster.feed(0, *(f"a{i}" for i in range(9)))
    cluster.run()
    before = list(cluster.journals[F])
    cluster.feed(0, "b1", "b2")
    cluster.recover()
    cluster.end()
    cluster.run()
    assert cluster.journals[F][: len(before)] == before
    assert all(entry.time > before[-1].time for entry in cluster.journals[F][len(before) :])
    cluster.check()


def test_a_source_that_cannot_replay_has_its_payloads_in_the_journal() -> None:
    cluster = _cluster(2, 3, replayable=False, credit_runs=2)
    for number in range(6):
        cluster.feed(0, f"a{number}")
        cluster.run()
    cluster.recover()
    cluster.end()
    cluster.run()
    assert all(entry.payloads for entry in cluster.journals[F])
    assert not _actions(cluster, act.ReadRun)
    cluster.check()


def test_without_a_journal_nothing_waits_for_one() -> None:
    cluster = _cluster(2, 3, durable=False)
    cluster.feed(0, "a1", "b1")
    cluster.end()
    cluster.run()
    assert not _actions(cluster, act.Append) and not _actions(cluster, act.SealJournal)
    assert cluster.complete and cluster.delivered()[SinkName("out")]


# --- on their own -------------------------------------------------------------------------------------------


def _fronts(
    timed: bool = False, entries: list[ev.Entry] | None = None, bound: Time = START, **changes: Any
) -> tuple[Fronts, list[ev.Entry]]:
    entered: list[ev.Entry] = []

    def enter(_: SourceName, entry: ev.Entry, payloads: Sequence[object]) -> int:
        entered.append(entry)
        return payloads.count("mark")

    settings = WorkerSettings("j", 4, (FrontSettings(F, SourceName("s"), timed),), **changes)
    fronts = Fronts(FENCE, settings, [F], {}, enter)
    fronts.seal(START, ())
    if not timed:
        fronts.sealed(F, entries or [])
    fronts.start(bound)
    return fronts, entered


def _arrived(first: int, *records: object) -> ev.RecordsArrived:
    return ev.RecordsArrived(FENCE, F, P, Offset(first), records, 10)


def test_records_of_one_arrival_are_one_run() -> None:
    fronts, entered = _fronts()
    fronts.records(_arrived(0, "a", "b"))
    fronts.records(_arrived(2, "c"))
    fronts.advance(Timestamp(5))
    assert [(entry.first, entry.count) for entry in entered] == [(0, 2), (2, 1)]


def test_records_given_twice_enter_once() -> None:
    fronts, entered = _fronts()
    fronts.records(_arrived(0, "a", "b"))
    fronts.records(_arrived(1, "b", "c"))
    fronts.records(_arrived(0, "a"))
    fronts.advance(Timestamp(5))
    assert [(entry.first, entry.count) for entry in entered] == [(0, 2), (2, 1)]


def test_a_gap_in_the_records_is_a_bug_of_the_producer() -> None:
    fronts, _ = _fronts()
    fronts.records(_arrived(1, "b"))
    with pytest.raises(AssertionError, match="waits for 0"):
        fronts.advance(Timestamp(5))


def test_records_before_follow_and_of_other_fronts_are_ignored() -> None:
    fronts, entered = _fronts(entries=[ev.Entry(Time(1 << 12), P, Offset(0), 1)])
    fronts.records(_arrived(1, "b"))
    fronts.ended(F)
    fronts.records(ev.RecordsArrived(FENCE, FrontId(5), P, Offset(0), ["z"], 1))
    fronts.ended(FrontId(5))
    fronts.advance(Timestamp(5))
    assert entered == [] and not fronts.all_ended


@pytest.mark.parametrize("timed", [True, False])
def test_a_source_that_ends_before_it_was_followed_says_nothing(timed: bool) -> None:
    fronts, _ = _fronts(timed)
    fronts._following.clear()
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    assert not fronts.all_ended


def test_an_answer_to_another_read_is_not_taken() -> None:
    entries = [ev.Entry(Time(number << 12), P, Offset(number - 1), 1) for number in (1, 2)]
    fronts, entered = _fronts(entries=entries)
    fronts.read_again(F, entries[1], ["b"])
    assert entered == []
    fronts.read_again(F, entries[0], ["a"])
    fronts.read_again(F, entries[1], ["b"])
    assert entered == entries


def test_a_read_that_gives_too_few_records_is_a_bug() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 2)
    fronts, _ = _fronts(entries=[entry])
    with pytest.raises(AssertionError, match="read 1 records"):
        fronts.read_again(F, entry, ["a"])


def test_a_promise_is_told_when_it_is_new() -> None:
    fronts, _ = _fronts()
    assert [promise.front for promise in fronts.promises(Timestamp(0))] == [F]
    assert fronts.promises(Timestamp(0)) == []
    fronts.records(_arrived(0, "a"))
    fronts.advance(Timestamp(5))
    (promise,) = fronts.promises(Timestamp(0))
    assert promise == msg.Promise(F, Time(5 << 12), Time(5 << 12)), "it has entered, and is not durable"
    assert fronts.promises(Timestamp(0)) == []
    fronts.records(_arrived(1, "b"))
    fronts.advance(Timestamp(6))
    (promise,) = fronts.promises(Timestamp(0))
    assert promise == msg.Promise(F, Time(6 << 12), Time(5 << 12)), (
        "others are asked past it, and it promises only the first"
    )
    assert fronts.promises(Timestamp(0)) == []
    fronts.durable(F, Time(6 << 12))
    assert [promise.time > Time(6 << 12) for promise in fronts.promises(Timestamp(0))] == [True]


def test_nothing_is_promised_before_replay() -> None:
    settings = WorkerSettings("j", 4, (FrontSettings(F, SourceName("s"), False),))
    assert Fronts(FENCE, settings, [F], {}, lambda *_: 0).promises(Timestamp(0)) == []


def test_a_question_moves_a_journalled_front_and_no_timed_one() -> None:
    for timed in (True, False):
        fronts, _ = _fronts(timed)
        before = fronts.promises(Timestamp(0))[0].time
        fronts.asked(F, Time(99 << 12))
        assert [promise.time > Time(99 << 12) > before for promise in fronts.promises(Timestamp(0))] == (
            [] if timed else [True]
        )
    fronts.asked(FrontId(7), Time(1))


def test_new_stamps_are_above_the_bound() -> None:
    fronts, entered = _fronts(bound=Time(50 << 12))
    fronts.records(_arrived(0, "a"))
    fronts.advance(Timestamp(5))
    assert entered[0].time > Time(50 << 12)


def test_a_failing_journal_is_a_trouble_until_it_works_again() -> None:
    cluster = _cluster(1, 1, heartbeat=1)
    cluster.step(WorkerId("w0"), ev.JournalFailed(cluster.fence, F, "disk full"))
    assert cluster.workers[WorkerId("w0")]._fronts.stalled == {F: "disk full"}
    cluster.feed(0, "a1")
    cluster.end()
    cluster.run()
    assert cluster.workers[WorkerId("w0")]._fronts.stalled == {}
    cluster.check()


def test_an_ended_front_promises_the_end_behind_its_last_run() -> None:
    fronts, entered = _fronts()
    fronts.records(_arrived(0, "a"))
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    assert not fronts.all_ended
    fronts.durable(F, entered[0].time)
    assert fronts.all_ended and fronts.promises(Timestamp(0))[-1].time == END


def test_it_asks_for_a_pass_when_credit_has_come_back() -> None:
    fronts, entered = _fronts(credit_runs=1)
    fronts.records(_arrived(0, "a"))
    fronts.records(_arrived(1, "b"))
    fronts.advance(Timestamp(5))
    assert len(entered) == 1 and not fronts.waits_for_a_pass
    fronts.settled(Time(entered[0].time + 1))
    assert fronts.waits_for_a_pass
    fronts.advance(Timestamp(6))
    assert len(entered) == 2


def test_a_front_that_is_drained_while_it_replays_follows_nothing() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 1)
    fronts, entered = _fronts(entries=[entry])
    fronts.drain()
    fronts.read_again(F, entry, ["a"])
    assert entered == [entry] and not [action for action in fronts.actions if isinstance(action, act.Follow)]


def test_a_source_that_has_ended_is_not_at_its_end_while_records_wait_for_credit() -> None:
    fronts, entered = _fronts(credit_runs=1)
    fronts.records(_arrived(0, "a"))
    fronts.records(_arrived(1, "b"))
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    fronts.durable(F, entered[0].time)
    assert not fronts.all_ended and fronts.promises(Timestamp(0))[-1].time < END


def test_records_that_come_before_follow_do_not_enter_behind_it() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 1)
    fronts, entered = _fronts(entries=[entry])
    fronts.advance(Timestamp(8))  # asks for the entry's records
    fronts.records(_arrived(1, "b"))
    fronts.read_again(F, entry, ["a"])
    fronts.advance(Timestamp(9))
    assert entered == [entry]


def test_positions_below_the_committed_cut_are_forgotten() -> None:
    fronts, entered = _fronts()
    for number in range(9):
        fronts.records(_arrived(number, "a"))
        fronts.advance(Timestamp(10 + number))
    before = fronts.positions(entered[5].time)
    fronts.committed(entered[5].time)
    assert fronts.positions(entered[5].time) == before
    assert len(fronts._fronts[F].positions._runs) == 4


@pytest.mark.parametrize("timed", [True, False])
def test_what_enters_in_one_pass_is_bounded_in_bytes(timed: bool) -> None:
    fronts, entered = _fronts(timed)
    for number in range(3):
        fronts.records(ev.RecordsArrived(FENCE, F, P, Offset(number), ["a"], PASS_BYTES))
    counts = []
    for now in (5, 6, 7):
        fronts.advance(Timestamp(now))
        counts.append(len(entered))
    assert counts == [1, 2, 3] and not fronts.waits_for_a_pass


@pytest.mark.parametrize("timed", [True, False])
def test_what_enters_in_one_pass_is_bounded_in_marks(timed: bool) -> None:
    """A mark goes to every shard of keys: a backlog of small runs with one each would hold up a worker for
    longer than its watchdog waits."""
    fronts, entered = _fronts(timed)
    most = PASS_BYTES // MARK_BYTES
    for number in range(2 * most + 1):
        fronts.records(ev.RecordsArrived(FENCE, F, P, Offset(number), ["mark"], 0))
    counts = []
    for now in (5, 6, 7):
        fronts.advance(Timestamp(now))
        counts.append(len(entered))
    assert counts == [most, 2 * most, 2 * most + 1]


@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_run_is_that_of_whichever_front_has_it(newest: int) -> None:
    """The bound is made of it: a front that stamped at or below would come behind what has left."""
    settings = WorkerSettings(
        "job", 4, tuple(FrontSettings(FrontId(i), SourceName("s"), False) for i in range(3))
    )
    fronts = Fronts(
        FENCE, settings, [FrontId(0), FrontId(1), FrontId(2)], {}, lambda source, entry, payloads: 0
    )
    assert fronts.last == START
    fronts.sealed(FrontId(newest), [ev.Entry(Time(50), P, Offset(0), 1), ev.Entry(Time(70), P, Offset(1), 1)])
    fronts.sealed(FrontId(1 - newest), [ev.Entry(Time(60), P, Offset(0), 1)])
    fronts.sealed(FrontId(2), [])
    assert fronts.last == 70


def test_runs_of_timed_fronts_enter_by_their_times() -> None:
    """A front that ran ahead would make the other one's runs late for whatever both lead to."""
    numbers = [FrontId(0), FrontId(1)]
    settings = WorkerSettings("job", 4, tuple(FrontSettings(i, SourceName(f"s{i}"), True) for i in numbers))
    times: list[Time] = []

    def enter(_: SourceName, entry: ev.Entry, __: object) -> int:
        times.append(entry.time)
        return 0

    fronts = Fronts(FENCE, settings, numbers, {}, enter)
    fronts.start(START)
    for number in numbers:
        fronts.records(ev.RecordsArrived(FENCE, number, P, Offset(0), ["a"] * 20, 20))
    fronts.advance(Timestamp(1))
    assert len(times) == 40 and times == sorted(times)


def _of_a_call() -> tuple[Fronts, list[tuple[int, int]]]:
    """The front of a call's answers, and the first offset and count of each run."""
    entered: list[tuple[int, int]] = []

    def enter(_: SourceName, entry: ev.Entry, payloads: Sequence[object]) -> int:
        entered.append((entry.first, len(payloads)))
        return 0

    front = FrontSettings(F, SourceName("asked()"), timed=False, replayable=False, of_call=True)
    fronts = Fronts(FENCE, WorkerSettings("j", 4, (front,)), [F], {}, enter)
    fronts.seal(START, ())
    fronts.sealed(F, [])
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
        fronts.advance(Timestamp(now))
    assert entered == [(0, 2), (2, 1), (3, 1), (4, 1)]
    assert not fronts.waits_for_a_pass
