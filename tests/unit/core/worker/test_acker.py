"""Minimal time: what is in flight, what fronts promise, and what the acker tells and asks."""

import doctest

import pytest

from flamestream.core.protocol import ids as message_id
from flamestream.core.protocol.ids import MessageIds
from flamestream.core.protocol.messages import (
    Acks,
    Cut,
    Hold,
    MinimalTime,
    Promise,
    Question,
    Reached,
    Settled,
    Undecided,
)
from flamestream.core.protocol.queries import Ask, Look, Lookup, Prove, Proved
from flamestream.core.worker import acker, credit
from flamestream.core.worker.acker import AckTable
from flamestream.core.worker.acker_role import Acker
from flamestream.model.ids import Epoch, MessageId, Slot, WorkerId
from flamestream.model.time import END, START, FrontId, Time

A, B = FrontId(0), FrontId(1)
W, V = WorkerId("w"), WorkerId("v")


@pytest.mark.parametrize("module", [acker, credit, message_id])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_a_cause_is_in_flight_until_every_id_was_folded_twice() -> None:
    table = AckTable([A], START)
    table.promise(A, END)
    table.ack(Time(7), MessageId(1 ^ 2))
    table.ack(Time(7), MessageId(1 ^ 3))
    assert table.minimal_time == 7
    table.ack(Time(7), MessageId(2))
    assert table.minimal_time == 7
    table.ack(Time(7), MessageId(3))
    assert table.minimal_time == END


def test_an_ack_may_overtake_the_one_of_its_sender() -> None:
    table = AckTable([A], START)
    table.ack(Time(5), MessageId(9))
    table.promise(A, Time(6))
    assert table.minimal_time == 5
    table.ack(Time(5), MessageId(9))
    assert table.minimal_time == 6


def test_an_older_promise_says_nothing_new() -> None:
    table = AckTable([A], START)
    table.promise(A, Time(9))
    table.promise(A, Time(4))
    assert table.promised(A) == 9


def test_minimal_time_stands_at_what_is_put_off() -> None:
    table = AckTable([A], START)
    table.put_off(W, Time(5))
    table.promise(A, Time(9))
    assert (table.minimal_time, table.reached, table.stuck()) == (5, 9, [W])
    table.put_off(W, END)
    assert (table.minimal_time, table.stuck()) == (9, [])


def test_what_comes_of_it_may_be_in_flight_below_what_was_reached() -> None:
    table = AckTable([A], START)
    table.put_off(W, Time(5))
    table.promise(A, Time(9))
    assert table.minimal_time == 5
    table.ack(Time(5), MessageId(7))
    table.put_off(W, END)
    assert (table.minimal_time, table.reached) == (5, 5)


def test_small_sets_of_message_ids_never_cancel() -> None:
    ids = MessageIds(attempt=3, sender=1)
    made = [ids.next() for _ in range(400)]
    assert len(set(made)) == 400
    for start in range(396):
        four = made[start : start + 4]
        assert four[0] ^ four[1] ^ four[2] ^ four[3] != 0


def _acker() -> Acker:
    return Acker({A: True, B: True}, [W, V], START)


def test_every_idle_front_is_asked_once_for_a_time_that_entered_elsewhere() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51)))
    assert role.questions() == [Question(B, Time(50))]
    assert role.questions() == []


def test_who_has_put_something_off_is_told_once_how_far_it_may_decide() -> None:
    role = _acker()
    role.take(W, Undecided(Time(40)))
    role.take(W, Promise(A, Time(50), Time(51)))
    assert role.reached() == []
    role.take(V, Promise(B, START, Time(60)))
    assert role.reached() == [(W, Reached(Time(51)))]
    assert role.reached() == []
    role.take(W, Undecided(END))
    role.take(V, Promise(B, START, Time(70)))
    role.take(W, Promise(A, Time(50), Time(70)))
    assert role.reached() == []


def test_an_error_is_not_certain_while_what_was_put_off_may_take_it_away() -> None:
    role = _acker()
    role.take(W, Undecided(Time(30)))
    role.take(W, Promise(A, Time(50), Time(51)))
    role.take(V, Promise(B, START, Time(60)))
    role.take(V, Hold(Time(40), 1, "f raised"))
    assert role.error is None
    role.take(W, Undecided(END))
    assert role.error == "f raised"


def test_a_timed_front_is_never_asked() -> None:
    role = Acker({A: True, B: False}, [W], START)
    role.take(W, Promise(A, Time(50), Time(51)))
    assert role.questions() == []


def test_fronts_are_asked_as_far_as_timed_ones_let_minimal_time_come() -> None:
    role = Acker({A: True, B: False}, [W], START)
    role.take(W, Promise(A, Time(50), Time(51)))
    role.take(V, Promise(B, Time(60), Time(70)))
    assert role.questions() == [Question(A, Time(60))]
    role.take(W, Promise(A, Time(900), Time(61)))
    role.take(V, Promise(B, Time(70), Time(80)))
    assert role.questions() == [Question(A, Time(79))]
    role.take(V, Promise(B, Time(70), END))
    assert role.questions() == [Question(A, Time(900))]


def test_the_answer_to_a_question_raises_no_other_question() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51), written=Time(50)))
    role.questions()
    role.take(V, Promise(B, START, Time(60)))
    assert role.questions() == []
    assert role.told() == [MinimalTime(Time(51), Time(51))]


def test_a_cut_travels_behind_the_minimal_time_that_equals_it() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51), written=Time(50)))
    role.take(V, Promise(B, START, Time(60)))
    role.cut(Epoch(4))
    assert role.told() == [MinimalTime(Time(51), Time(51)), Cut(Epoch(4), Time(51))]


def test_minimal_time_stays_at_a_live_error() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51), written=Time(50)))
    role.take(V, Promise(B, START, Time(60)))
    role.take(V, Hold(Time(40), 1, "f raised"))
    assert role.told() == [MinimalTime(Time(40), Time(40))]
    assert role.error == "f raised"


def test_an_error_counts_only_when_no_tombstone_can_come_any_more() -> None:
    role = _acker()
    role.take(W, Acks([40], [77]))
    role.take(W, Promise(A, Time(50), Time(51), written=Time(50)))
    role.take(V, Promise(B, START, Time(60)))
    role.take(V, Hold(Time(40), 1, "f raised"))
    assert role.error is None
    role.take(V, Hold(Time(40), -1, "f raised"))
    role.take(V, Acks([40], [77]))
    assert role.error is None
    assert role.told() == [MinimalTime(Time(51), Time(51))]


def test_what_no_journal_says_is_not_certain() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51), written=Time(30)))
    role.take(V, Promise(B, START, Time(60), written=Time(20)))
    assert role.told() == [MinimalTime(Time(51), Time(31))]


def test_a_look_travels_behind_the_minimal_time_that_it_is_of() -> None:
    role = _acker()
    role.take(W, Promise(A, Time(50), Time(51), written=Time(50)))
    role.take(V, Promise(B, START, Time(60)))
    ask = Ask(7, [Lookup(3, Slot(0), b"k")], strict=False)
    role.take(V, ask)
    assert role.told() == [MinimalTime(Time(51), Time(51)), Look([(V, ask)])]


def test_a_strict_query_waits_for_a_proof_that_was_begun_behind_it() -> None:
    role = _acker()
    first, second = (Ask(number, [Lookup(3, Slot(0), b"k")], strict=True) for number in (1, 2))
    role.take(V, first)
    assert role.told() == []
    assert role.prove() == Prove(A, 1)
    role.take(V, second)
    assert role.prove() is None
    role.take(W, Proved(1))
    assert role.told() == [Look([(V, first)])]
    assert role.prove() == Prove(A, 2)
    role.take(W, Proved(2))
    assert role.told() == [Look([(V, second)])]


def test_a_proof_of_a_front_that_has_ended_is_asked_of_another() -> None:
    role = _acker()
    ask = Ask(1, [Lookup(3, Slot(0), b"k")], strict=True)
    role.take(V, ask)
    assert role.prove() == Prove(A, 1)
    role.take(W, Promise(A, START, END))
    assert role.prove() == Prove(B, 2)
    role.take(W, Proved(1))
    assert role.told() == []
    role.take(W, Proved(2))
    assert role.told() == [Look([(V, ask)])]


def test_settled_is_the_least_of_all_workers() -> None:
    role = _acker()
    role.take(W, Settled(Time(30)))
    assert role.told() == []
    role.take(V, Settled(Time(20)))
    assert role.told() == [Settled(Time(20))]


@pytest.mark.parametrize(("promised", "asked"), [(9, True), (10, True), (11, False)])
def test_a_front_is_asked_unless_it_has_promised_past_what_entered(promised: int, asked: bool) -> None:
    """One that will stamp nothing below 10 may still stamp 10: minimal time would stand at it."""
    acker = Acker({A: True, B: True}, [W], START)
    acker.take(W, Promise(B, START, Time(promised)))
    acker.take(W, Promise(A, Time(10), Time(11)))
    assert acker.questions() == ([Question(B, Time(10))] if asked else [])
