"""Nothing is believed written, or not written, before it is known."""

from collections.abc import Callable

import pytest

from flamestream.core.coordinator.coordination import (
    Action,
    ReadRecord,
    RecordConflict,
    RecordRead,
    RecordUnknown,
    RecordWritten,
    WriteRecord,
)
from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.coordinator.instructions import Instructions
from flamestream.core.coordinator.record_keeper import News, RecordEvent, RecordKeeper
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START, Instant


def record(attempt: int, writer: str = "me") -> JobRecord:
    a = WorkerId("a")
    layout = Layout(LayoutVersion(1), (a,), (a,), a)
    return JobRecord(
        attempt=Attempt(attempt), layout=layout, announced=Epoch(0), committed=Epoch(0), cut=START,
        index="", index_hash="", writer=writer,
    )  # fmt: skip


class Hand:
    """A keeper that knows attempt 1 at version 4 and writes attempt 2."""

    def __init__(self) -> None:
        self.instructions, self.deadlines = Instructions(), Deadlines(0)
        self.keeper = RecordKeeper(self.instructions, self.deadlines, 100)
        self.deadlines.advance(Instant(0))
        self.keeper.go_on()
        assert self.keeper.hear(RecordRead(record(1, "other"), 4)) is News.READ
        self.instructions.take()
        self.done = False
        self.keeper.write(record(2), self._then)

    def _then(self) -> None:
        self.done = True

    def asked(self) -> list[Action]:
        return self.instructions.take()

    def hear(self, *answers: RecordEvent) -> News:
        return [self.keeper.hear(answer) for answer in answers][-1]

    def wait(self) -> None:
        self.deadlines.advance(Instant(self.deadlines.now + 100))
        self.keeper.go_on()


def test_a_write_is_against_the_version_that_was_read() -> None:
    hand = Hand()
    assert hand.asked() == [WriteRecord(record(2), 4)]
    assert not hand.keeper.idle
    assert hand.hear(RecordWritten(5)) is News.WRITTEN
    assert (hand.done, hand.keeper.version, hand.keeper.idle) == (True, 5, True)


def test_nothing_is_read_while_a_write_is_under_way() -> None:
    hand = Hand()
    hand.asked()
    hand.keeper.read()
    assert hand.asked() == []


def unknown(hand: Hand) -> None:
    hand.asked()
    assert hand.hear(RecordUnknown("timeout")) is News.NOTHING
    assert hand.asked() == []
    hand.wait()
    assert hand.asked() == [ReadRecord()]


def conflict(hand: Hand) -> None:
    hand.asked()
    assert hand.hear(RecordConflict()) is News.NOTHING
    assert hand.asked() == [ReadRecord()]


@pytest.mark.parametrize("doubt", [unknown, conflict])
def test_a_doubtful_write_that_is_there_took_effect(doubt: Callable[[Hand], None]) -> None:
    hand = Hand()
    doubt(hand)
    assert hand.hear(RecordRead(record(2), 5)) is News.WRITTEN
    assert hand.done


@pytest.mark.parametrize("doubt", [unknown, conflict])
def test_another_record_in_its_place_means_that_it_did_not(doubt: Callable[[Hand], None]) -> None:
    hand = Hand()
    doubt(hand)
    assert hand.hear(RecordRead(record(2, "other"), 5)) is News.OVERTAKEN
    assert (hand.done, hand.keeper.idle) == (False, True)
    assert hand.asked() == []


def test_an_unknown_write_that_is_not_there_is_written_again_unchanged() -> None:
    hand = Hand()
    unknown(hand)
    hand.hear(RecordRead(record(1, "other"), 4))
    assert hand.asked() == [WriteRecord(record(2), 4)]
    assert not hand.keeper.idle


def test_after_a_conflict_a_stale_read_is_read_again_not_written_over() -> None:
    hand = Hand()
    conflict(hand)
    hand.hear(RecordRead(record(1, "other"), 4))
    assert hand.asked() == []
    hand.wait()
    assert hand.asked() == [ReadRecord()]


@pytest.mark.parametrize("answer", [RecordRead(record(2), 5), RecordRead(record(3, "other"), 5)])
def test_a_conflict_is_forgotten_with_its_write(answer: RecordEvent) -> None:
    """The next write that is in doubt has met no conflict: if it is not there, it is written again, at
    once."""
    hand = Hand()
    conflict(hand)
    hand.hear(answer)
    hand.keeper.write(record(4), hand._then)
    unknown(hand)
    hand.hear(RecordRead(hand.keeper.record, 5))
    assert hand.asked() == [WriteRecord(record(4), 5)]


def test_a_conflict_is_forgotten_with_the_stale_read_behind_it() -> None:
    hand = Hand()
    conflict(hand)
    hand.hear(RecordRead(record(1, "other"), 4))
    hand.wait()
    hand.asked()
    hand.hear(RecordRead(record(1, "other"), 4))
    assert hand.asked() == [WriteRecord(record(2), 4)], (
        "or a version that came back would be waited for without end"
    )


def test_a_record_can_be_written_as_it_is() -> None:
    """What is there was there before: only a new version says that the write has taken effect."""
    hand = Hand()
    hand.hear(RecordWritten(5))
    hand.asked()
    hand.keeper.write(record(2), hand._then)
    hand.done = False
    unknown(hand)
    assert hand.hear(RecordRead(record(2), 5)) is News.NOTHING
    assert (hand.asked(), hand.done) == ([WriteRecord(record(2), 5)], False)
    assert hand.hear(RecordRead(record(2), 6)) is News.WRITTEN
    assert hand.done


def test_a_change_by_somebody_else_is_noticed() -> None:
    hand = Hand()
    hand.hear(RecordWritten(5))
    hand.asked()
    hand.keeper.read()
    hand.keeper.read()
    assert hand.asked() == [ReadRecord()]
    assert hand.hear(RecordRead(record(2), 5)) is News.NOTHING
    hand.keeper.read()
    assert hand.hear(RecordRead(record(3, "other"), 6)) is News.CHANGED
