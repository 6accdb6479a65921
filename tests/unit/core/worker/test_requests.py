"""The requests of one call: what may be made, what enters and in which order, and when sources wait."""

from typing import Any

import pytest

from flamestream.core.dataflow.barrier import Result
from flamestream.core.protocol.chain import chains_of
from flamestream.core.worker.requests import Request, Requests
from flamestream.model.calls.call import Answer, CallFunction, CallSettings, hash_of
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, meta_of
from flamestream.model.payload import encode
from flamestream.model.time import END, START, FrontId, Time
from flamestream.model.vertex import Kind, Vertex

FRONT = FrontId(1)


def requests(cut: Time = START, *, two_phase: bool = False, **settings: Any) -> Requests:
    call = CallFunction(len, CallSettings(**settings))
    vertex = Vertex(3, Kind.SINK, "len()", key=lambda pair: pair[0], call=call)
    return Requests(vertex, [FRONT], cut, wait_for_commit=two_phase)


def item(time: int, key: str = "a") -> Result:
    return meta_of(Time(time), 0), Slot(0), (key, time)


def meta(time: int) -> Meta:
    return item(time)[0]


def answer(time: int, key: str = "a") -> Answer:
    return Answer(meta(time), hash_of(encode((key, time))), (time,))


def made(of: Requests) -> list[int]:
    return [int.from_bytes(request.meta[:8], "big") for request in of.next_ones()]


def found(of: Requests, time: int) -> Request:
    request = of.under_way(meta(time))
    assert request is not None
    return request


def test_as_many_are_made_as_may_run_at_once() -> None:
    asked = requests(concurrency=2)
    asked.put([item(1), item(2), item(3)])
    assert made(asked) == [1, 2]
    asked.returned(found(asked, 2), answer(2))
    assert made(asked) == [3]


def test_answers_of_a_key_enter_in_the_order_of_its_requests() -> None:
    asked = requests(order="key")
    asked.put([item(1), item(2), item(3, "b"), item(4)])
    made(asked)
    assert asked.returned(found(asked, 4), answer(4)) == []
    assert asked.returned(found(asked, 3), answer(3, "b")) == [answer(3, "b")]
    assert asked.returned(found(asked, 2), answer(2)) == []
    assert asked.returned(found(asked, 1), answer(1)) == [answer(1), answer(2), answer(4)]


def test_a_key_that_gets_no_answer_stops_no_other() -> None:
    asked = requests(order="key", concurrency=2)
    asked.put([item(1), *(item(time) for time in range(2, 10)), item(10, "b")])
    assert made(asked) == [1, 2]
    for time in range(2, 10):  # each returns, and waits for the first
        assert asked.returned(found(asked, time), answer(time)) == []
        assert made(asked) == [time + 1]
    assert asked.returned(found(asked, 10), answer(10, "b")) == [answer(10, "b")]


def test_as_many_answers_wait_for_their_turn_as_requests_may_wait() -> None:
    asked = requests(order="key", concurrency=2, pending=4)
    asked.put([item(time) for time in range(1, 10)])
    for _ in range(3):
        made(asked)
        for time in [time for time in range(2, 10) if asked.under_way(meta(time))]:
            asked.returned(found(asked, time), answer(time))
    assert (asked.asked, made(asked)) == (4, [])
    assert len(asked.returned(found(asked, 1), answer(1))) == 4
    assert made(asked) == [5, 6]


def test_of_two_answers_the_first_counts() -> None:
    asked = requests()
    asked.put([item(1)])
    made(asked)
    asked.returned(found(asked, 1), answer(1))
    assert asked.under_way(meta(1)) is None


def test_sources_wait_while_too_many_have_no_answer() -> None:
    asked = requests(pending=2)
    asked.put([item(1), item(2)])
    assert asked.settled == END
    asked.put([item(3)])
    assert asked.settled == 1
    asked.entered(Time(9), answer(1))
    assert asked.settled == END


def test_a_request_leaves_with_its_epoch_where_all_output_does() -> None:
    asked = requests(two_phase=True)
    asked.put([item(1), item(5)])
    assert made(asked) == []
    asked.commit(Time(3))
    assert made(asked) == [1]


def test_a_snapshot_holds_what_is_not_answered_below_its_cut() -> None:
    asked = requests()
    asked.put([item(1), item(2), item(3)])
    asked.entered(Time(7), answer(1))
    asked.entered(Time(12), answer(2))
    rows = asked.rows(Epoch(1), Time(10))
    assert [row.key for row in rows] == [meta(2), meta(3)]
    again = requests(Time(10))
    again.sealed(Time(12), answer(2))
    again.held(chains_of(rows))
    assert made(again) == [3]


def test_a_replay_that_asks_something_else_is_the_functions_fault() -> None:
    asked = requests()
    asked.sealed(Time(7), answer(1, "b"))
    with pytest.raises(UserError, match="asked something else when it was answered"):
        asked.put([item(1, "a")])


def test_a_replay_that_does_not_ask_again_is_too() -> None:
    asked = requests()
    asked.sealed(Time(7), answer(1))
    with pytest.raises(UserError, match="is not computed again"):
        asked.passed(Time(2))


def test_a_snapshot_that_lacks_a_request_is_corrupt() -> None:
    asked = requests(Time(5))
    asked.sealed(Time(7), answer(1))
    with pytest.raises(Corrupt, match="lacks a request of call len"):
        asked.passed(Time(6))
