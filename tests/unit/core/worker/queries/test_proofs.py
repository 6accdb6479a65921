"""Proofs: a journal's entry proves nothing unless it is begun behind the question."""

from flamestream.core.protocol.actions import Append
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import JournalledFront
from flamestream.core.worker.queries.proofs import Proofs
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.time import START, FrontId, Timestamp

A, B = FrontId(1), FrontId(2)
FENCE, NOW = Fence(Attempt(1), LayoutVersion(1)), Timestamp(1_000)


class World:
    """Two fronts of a worker, whose journals a test writes."""

    def __init__(self) -> None:
        self.fronts = {number: JournalledFront(FrontPosition(number, START, {})) for number in (A, B)}
        self.proofs = Proofs(FENCE, self.fronts)

    def stamped(self, number: FrontId) -> Append:
        """A run has entered, and its entry leaves."""
        front = self.fronts[number]
        have = front.offsets.get(Partition("p"), Offset(0))
        return Append(FENCE, number, front.stamp(NOW, Partition("p"), have, 1))

    def durable(self, entry: Entry, number: FrontId = A) -> list[int]:
        """The proofs that come of it."""
        self.fronts[number].durable(entry.time)
        self.proofs.durable(number, entry.time)
        return self.proofs.take()


def test_an_entry_that_leaves_behind_the_question_proves_it_and_no_other_is_made() -> None:
    world = World()
    first, second = world.stamped(A), world.stamped(A)
    world.proofs.ask(A, 7)
    assert world.proofs.begin(NOW, [first, second, world.stamped(B)]) == []
    assert world.durable(first.entry) == []
    assert world.durable(second.entry) == [7]


def test_one_that_has_left_before_proves_nothing() -> None:
    world = World()
    left = world.stamped(A)
    world.proofs.ask(A, 7)
    (own,) = world.proofs.begin(NOW, [])
    assert own.entry.time > left.entry.time
    assert world.durable(left.entry) == []
    assert world.durable(own.entry) == [7]


def test_nor_does_one_of_another_front() -> None:
    world = World()
    other = world.stamped(B)
    world.proofs.ask(A, 7)
    (own,) = world.proofs.begin(NOW, [other])
    assert own.front == A
    assert world.durable(other.entry, B) == []
    assert world.durable(own.entry) == [7]
