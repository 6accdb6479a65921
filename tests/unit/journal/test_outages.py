"""What is told of a journal that cannot be written: whoever must act learns it, and nobody is told it twice."""

from collections.abc import Iterator

import pytest

from flamestream.core.protocol.events import Event, JournalAppended, JournalFailed, JournalSealed
from flamestream.journal.batches import Batch, BatchJournal, Done, Sealed
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.model.ids import Attempt
from flamestream.model.time import START, FrontId, Time
from support.journals.worker import Worker
from support.loops import reactor

SILENCE, OTHER_SILENCE = ConnectionError("ConnectionLoss"), TimeoutError("SessionExpired")
REFUSED, FULL = ClusterStateUnavailable("it refuses the login"), ClusterStateUnavailable("it is full")


class Server:
    """Answers each try of a seal, or of a batch, with the next of `answers`; then it takes all."""

    name, largest, full, way_out = "a server", 1000, 1000, ""

    def __init__(self, loop: EpollReactor) -> None:
        self.loop, self.answers = loop, list[Exception]()

    def seal(self, front: FrontId, attempt: Attempt, cut: Time) -> Sealed:
        if self.answers:
            raise self.answers.pop(0)
        return Sealed([], START, self)

    def send(self, batch: Batch, done: Done) -> None:
        answer = self.answers.pop(0) if self.answers else None
        self.loop.soon(lambda: done(answer))

    def trim(self, before: Time) -> None:
        """It has no room to lose."""


@pytest.fixture
def server() -> Iterator[Server]:
    with reactor() as loop:
        yield Server(loop)


@pytest.fixture
def worker(server: Server) -> Worker:
    return Worker(server.loop, 1, lambda post: BatchJournal(server, server.loop, post))


def told(worker: Worker, last: type[Event]) -> list[str]:
    """Of what was told before that: what is between the journal's name and what is done about it."""
    found = []
    while not isinstance(event := worker.next(), last):
        assert isinstance(event, JournalFailed)
        found.append(event.message.partition("a server: ")[2].partition(";")[0])
    return found


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([SILENCE, OTHER_SILENCE, SILENCE], [SILENCE]),
        ([REFUSED, REFUSED], [REFUSED]),
        ([SILENCE, REFUSED, SILENCE, REFUSED], [SILENCE, REFUSED]),
        ([FULL, REFUSED, FULL], [FULL, REFUSED]),
    ],
    ids=["silence is one reason", "a refusal", "a refusal behind a silence", "two refusals"],
)
def test_each_reason_is_told_once(
    server: Server, worker: Worker, answers: list[Exception], wanted: list[Exception]
) -> None:
    server.answers += answers
    worker.ask_to_seal()
    assert told(worker, JournalSealed) == [str(each) for each in wanted]
    for time in (10, 20):
        server.answers += answers
        worker.ask(time)
        assert told(worker, JournalAppended) == [str(each) for each in wanted], (
            "an outage that is over is over"
        )
