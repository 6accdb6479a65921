"""Fronts in a worker: which records are one run, at which times runs enter, and what a front promises."""

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.fronts import Fronts
from flamestream.model.errors import UserError
from flamestream.model.ids import Offset, Partition, SourceName
from flamestream.model.payload import encode_many
from flamestream.model.time import CLOCKS_BEGIN, END, START, FrontId, Time, Timestamp, next_time
from support.core.core_cluster import P
from support.core.fronts import FENCE, F, arrived, fronts_alone


def test_records_of_one_arrival_are_one_run() -> None:
    fronts, entered = fronts_alone()
    fronts.records(arrived(0, "a", "b"))
    fronts.records(arrived(2, "c"))
    fronts.advance(Timestamp(5))
    assert [(entry.first, entry.count) for entry in entered] == [(0, 2), (2, 1)]


def test_records_given_twice_enter_once() -> None:
    fronts, entered = fronts_alone()
    fronts.records(arrived(0, "a", "b"))
    fronts.records(arrived(1, "b", "c"))
    fronts.records(arrived(0, "a"))
    fronts.advance(Timestamp(5))
    assert [(entry.first, entry.count) for entry in entered] == [(0, 2), (2, 1)]


def test_a_gap_in_the_records_is_a_bug_of_the_producer() -> None:
    fronts, _ = fronts_alone()
    fronts.records(arrived(1, "b"))
    with pytest.raises(AssertionError, match="waits for 0"):
        fronts.advance(Timestamp(5))


def test_new_stamps_are_above_the_bound() -> None:
    fronts, entered = fronts_alone(bound=Time(50 << 12))
    fronts.records(arrived(0, "a"))
    fronts.advance(Timestamp(5))
    assert entered[0].time > Time(50 << 12)


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


def test_a_source_that_has_grown_behind_its_end_is_named_where_others_went_on() -> None:
    settings = WorkerSettings("job", 4, (FrontSettings(F, SourceName("grown"), True, 1),))
    before = FrontPosition(F, Time(2 << 12), {P: Offset(2)}, records=2)
    fronts = Fronts(FENCE, settings, [F], {F: before}, lambda *_: 0)
    fronts.seal(Time(9 << 12), ())
    fronts.start(START)
    fronts.records(arrived(2, "more"))
    with pytest.raises(
        UserError, match=r"source 'grown' has records behind its end of before, from record 2 on"
    ):
        fronts.advance(Timestamp(5))


def test_a_source_is_followed_when_all_below_the_cut_is_settled() -> None:
    """Until then nobody knows whether calls have room: each recovery of an outage would let in its credit anew."""
    settings = WorkerSettings("job", 4, (FrontSettings(F, SourceName("s"), True),))
    fronts = Fronts(FENCE, settings, [F], {}, lambda *_: 0, settles=Time(50))
    fronts.start(START)
    fronts.settled(Time(49))
    assert not fronts.actions
    fronts.settled(Time(50))
    assert [type(action) for action in fronts.actions] == [act.Follow]


@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_run_is_that_of_whichever_front_has_it(newest: int) -> None:
    """The bound is made of it: a front that stamped at or below would come behind what has left."""
    settings = WorkerSettings(
        "job", 4, tuple(FrontSettings(FrontId(i), SourceName("s"), False) for i in range(3))
    )
    fronts = Fronts(
        FENCE, settings, [FrontId(0), FrontId(1), FrontId(2)], {}, lambda source, entry, payloads: 0
    )
    assert fronts.sealing.last == START
    fronts.sealing.sealed(
        FrontId(newest), [ev.Entry(Time(50), P, Offset(0), 1), ev.Entry(Time(70), P, Offset(1), 1)]
    )
    fronts.sealing.sealed(FrontId(1 - newest), [ev.Entry(Time(60), P, Offset(0), 1)])
    fronts.sealing.sealed(FrontId(2), [])
    assert fronts.sealing.last == 70


def test_a_promise_is_told_when_it_is_new() -> None:
    fronts, _ = fronts_alone()
    assert [promise.front for promise in fronts.promises(Timestamp(0))] == [F]
    assert fronts.promises(Timestamp(0)) == []
    fronts.records(arrived(0, "a"))
    fronts.advance(Timestamp(5))
    (promise,) = fronts.promises(Timestamp(0))
    assert promise == msg.Promise(F, Time(5 << 12), Time(5 << 12)), "it has entered, and is not durable"
    assert fronts.promises(Timestamp(0)) == []
    fronts.records(arrived(1, "b"))
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
        fronts, _ = fronts_alone(timed)
        before = fronts.promises(Timestamp(0))[0].time
        fronts.asked(F, Time(99 << 12))
        assert [promise.time > Time(99 << 12) > before for promise in fronts.promises(Timestamp(0))] == (
            [] if timed else [True]
        )
    fronts.asked(FrontId(7), Time(1))


LINES = FrontSettings(FrontId(0), SourceName("lines"), timed=True)
MORE = FrontSettings(FrontId(1), SourceName("more"), timed=False)
ANSWERS = FrontSettings(FrontId(2), SourceName("asked()"), timed=False, of_call=True)


def test_answers_beside_a_timed_front_go_on_behind_their_own_journal_after_a_failure() -> None:
    """What others have stamped by their clocks, which the bound tells, a timed front never comes to."""
    entered: list[Time] = []
    settings = WorkerSettings("j", 4, (LINES, MORE, ANSWERS))

    def enter(_: SourceName, entry: ev.Entry, __: object) -> int:
        entered.append(entry.time)
        return 0

    fronts = Fronts(FENCE, settings, [ANSWERS.front], {}, enter)
    pledge = ev.Entry(Time(50), Partition(""), Offset(0), 0)
    fronts.seal(Time(40), ())
    fronts.sealing.sealed(ANSWERS.front, [pledge])
    fronts.start(bound=Time(1 << 60))
    fronts.answered(ANSWERS.front, ["a"])
    fronts.advance(Timestamp(CLOCKS_BEGIN * 2))
    assert pledge.time < entered[0] <= next_time(pledge.time, ANSWERS.front)


@pytest.mark.parametrize(
    ("fronts", "changes", "pledging"),
    [
        ((LINES, MORE, ANSWERS), {}, {2}),
        ((LINES, MORE, ANSWERS), {"remembered": False}, {1, 2}),
        ((LINES, MORE, ANSWERS), {"durable": False}, set()),
        ((LINES, MORE, ANSWERS), {"skips": True}, set()),
        ((MORE, ANSWERS), {"remembered": False}, set()),
    ],
)
def test_only_beside_a_timed_front_is_what_is_promised_journalled(
    fronts: tuple[FrontSettings, ...], changes: dict[str, bool], pledging: set[int]
) -> None:
    """Of answers always: nobody remembers which requests have left."""
    assert WorkerSettings("j", 4, fronts, **changes).pledging == pledging  # type: ignore[arg-type]


def test_stamps_of_timed_fronts_and_of_answers_between_theirs_are_no_clocks() -> None:
    assert WorkerSettings("j", 4, (LINES, MORE, ANSWERS)).clocked == {1}
    assert WorkerSettings("j", 4, (MORE, ANSWERS)).clocked == {1, 2}


def test_an_ended_front_promises_the_end_behind_its_last_run() -> None:
    fronts, entered = fronts_alone()
    fronts.records(arrived(0, "a"))
    fronts.ended(F)
    fronts.advance(Timestamp(5))
    assert not fronts.all_ended
    fronts.durable(F, entered[0].time)
    assert fronts.all_ended and fronts.promises(Timestamp(0))[-1].time == END


@pytest.mark.parametrize("timed", [False, True])
def test_a_drained_replay_lets_in_what_has_left_and_nothing_above(timed: bool) -> None:
    """Other code goes on from there: a run above may be what the code that replays cannot bear."""
    payload = encode_many(["x"])
    journal = [ev.Entry(Time(at << 12), P, Offset(place), 1, payload) for place, at in enumerate((5, 6, 7))]
    until = Time((2 if timed else 6) << 12)
    fronts, entered = fronts_alone(timed, entries=journal, until=until)
    if timed:
        fronts.records(arrived(0, *"abcdefghij"))
    fronts.advance(Timestamp(99))
    assert entered and max(entry.time for entry in entered) <= until
    fronts.advance(Timestamp(100))
    fronts.pull()
    (promise,) = fronts.promises(Timestamp(100))
    assert until < promise.time < END and not fronts.waits_for_a_pass
    pulls = [action.records for action in fronts.actions if isinstance(action, act.Pull)]
    assert pulls == ([0] if timed else [])
