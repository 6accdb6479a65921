"""Productions of a worker: made in it, in the order of requests, behind what else a pass has to do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flamestream.core.protocol.actions import MakeCall
from flamestream.core.protocol.events import CallReturned, Event
from flamestream.loop.reactor import EpollReactor
from flamestream.model import payload as codec
from flamestream.model.calls.call import CallFunction, CallSettings
from flamestream.model.ids import NO_FENCE, SourceName
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from flamestream.node.calls.productions import Productions
from support import loops


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


def asked(call: str, item: Any, place: int = 0) -> MakeCall:
    return MakeCall(NO_FENCE, SourceName(call), meta_of(Time(4096), place), codec.encode(item), str(place))


def made_of(function: Callable[[Any], Any], loop: EpollReactor, *items: Any) -> list[CallReturned]:
    posted = list[Event]()
    productions = Productions({"p": CallFunction(function, CallSettings())}, 100, loop, posted.append, None)
    for place, item in enumerate(items):
        productions.make(asked("p", item, place))
    assert not posted, "nothing is made within a pass"
    loops.turn_until(loop, lambda: len(posted) == len(items), "an answer for each")
    return [each for each in posted if isinstance(each, CallReturned)]


def test_answers_come_in_the_order_of_requests(loop: EpollReactor) -> None:
    found = made_of(lambda n: [n] * n, loop, 2, 0, 1)
    assert [(each.request, each.results) for each in found] == [
        (meta_of(Time(4096), 0), (2, 2)), (meta_of(Time(4096), 1), ()), (meta_of(Time(4096), 2), (1,)),
    ]  # fmt: skip


def test_an_answer_that_no_journal_takes_is_an_error(loop: EpollReactor) -> None:
    (found,) = made_of(lambda n: ["x" * n], loop, 200)
    assert not found.results
    assert found.error is not None and found.error.error == "AnswerTooLarge"


def test_a_failure_of_the_machine_is_none_of_the_record(loop: EpollReactor) -> None:
    def deep(_: Any) -> Any:
        raise RecursionError

    with pytest.raises(RecursionError):
        made_of(deep, loop, 1)
