"""Replay: what has entered enters again at the same times, from journal or source, before anything new."""

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.model.ids import Offset, SinkName, WorkerId
from flamestream.model.time import FrontId, Time, Timestamp
from support.core.core_cluster import P
from support.core.fronts import FENCE, F, actions_of, arrived, fronts_alone, one_source_cluster


def test_nothing_is_released_before_its_run_is_durable() -> None:
    cluster = one_source_cluster()
    cluster.held.add(act.Append)
    cluster.feed(0, "a1", "b1")
    cluster.run()
    assert not actions_of(cluster, act.Deliver)
    cluster.held.clear()
    cluster.run()
    assert cluster.delivered() == cluster.expected() != {"out": {}}


def test_a_replay_gives_the_same_times_though_more_has_come() -> None:
    cluster = one_source_cluster(2, 3)
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
    cluster = one_source_cluster(2, 3, replayable=False, credit_runs=2)
    for number in range(6):
        cluster.feed(0, f"a{number}")
        cluster.run()
    cluster.recover()
    cluster.end()
    cluster.run()
    assert all(entry.payloads for entry in cluster.journals[F])
    assert not actions_of(cluster, act.ReadRun)
    cluster.check()


def test_without_a_journal_nothing_waits_for_one() -> None:
    cluster = one_source_cluster(2, 3, durable=False)
    cluster.feed(0, "a1", "b1")
    cluster.end()
    cluster.run()
    assert not actions_of(cluster, act.Append) and not actions_of(cluster, act.SealJournal)
    assert cluster.complete and cluster.delivered()[SinkName("out")]


def test_a_failing_journal_is_a_trouble_until_it_works_again() -> None:
    cluster = one_source_cluster(1, 1, heartbeat=1)
    cluster.step(WorkerId("w0"), ev.JournalFailed(cluster.fence, F, "disk full"))
    assert cluster.workers[WorkerId("w0")]._fronts.stalled == {F: "disk full"}
    cluster.feed(0, "a1")
    cluster.end()
    cluster.run()
    assert cluster.workers[WorkerId("w0")]._fronts.stalled == {}
    cluster.check()


def test_records_before_follow_and_of_other_fronts_are_ignored() -> None:
    fronts, entered = fronts_alone(entries=[ev.Entry(Time(1 << 12), P, Offset(0), 1)])
    fronts.records(arrived(1, "b"))
    fronts.ended(F)
    fronts.records(ev.RecordsArrived(FENCE, FrontId(5), P, Offset(0), ["z"], 1))
    fronts.ended(FrontId(5))
    fronts.advance(Timestamp(5))
    assert entered == [] and not fronts.all_ended


@pytest.mark.parametrize("timed", [True, False])
def test_a_source_that_ends_before_it_was_followed_says_nothing(timed: bool) -> None:
    fronts, _ = fronts_alone(timed)
    fronts._following.clear()
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    assert not fronts.all_ended


def test_an_answer_to_another_read_is_not_taken() -> None:
    entries = [ev.Entry(Time(number << 12), P, Offset(number - 1), 1) for number in (1, 2)]
    fronts, entered = fronts_alone(entries=entries)
    fronts.read_again(F, entries[1], ["b"])
    assert entered == []
    fronts.read_again(F, entries[0], ["a"])
    fronts.read_again(F, entries[1], ["b"])
    assert entered == entries


def test_a_read_that_gives_too_few_records_is_a_bug() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 2)
    fronts, _ = fronts_alone(entries=[entry])
    with pytest.raises(AssertionError, match="read 1 records"):
        fronts.read_again(F, entry, ["a"])


def test_a_front_that_is_drained_while_it_replays_follows_nothing() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 1)
    fronts, entered = fronts_alone(entries=[entry])
    fronts.drain()
    fronts.read_again(F, entry, ["a"])
    assert entered == [entry] and not [action for action in fronts.actions if isinstance(action, act.Follow)]


def test_records_that_come_before_follow_do_not_enter_behind_it() -> None:
    entry = ev.Entry(Time(1 << 12), P, Offset(0), 1)
    fronts, entered = fronts_alone(entries=[entry])
    fronts.advance(Timestamp(8))  # asks for the entry's records
    fronts.records(arrived(1, "b"))
    fronts.read_again(F, entry, ["a"])
    fronts.advance(Timestamp(9))
    assert entered == [entry]


def test_positions_below_the_committed_cut_are_forgotten() -> None:
    fronts, entered = fronts_alone()
    for number in range(9):
        fronts.records(arrived(number, "a"))
        fronts.advance(Timestamp(10 + number))
    before = fronts.positions(entered[5].time)
    fronts.committed(entered[5].time)
    assert fronts.positions(entered[5].time) == before
    assert len(fronts._fronts[F].positions._runs) == 4
