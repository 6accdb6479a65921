"""What counts of journals is fixed as a recovery begins; of a source that is gone it is only counted."""

import pytest

from flamestream.core.protocol.actions import SealJournal
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.sealing import Sealing
from flamestream.model.errors import Corrupt
from flamestream.model.ids import NO_FENCE, Offset, Partition, SourceName
from flamestream.model.time import START, FrontId, Time

HERE, AWAY = FrontId(0), FrontId(2)


def entry(time: int, count: int = 1) -> Entry:
    return Entry(Time(time), Partition("p"), Offset(0), count)


def test_what_a_source_that_is_gone_has_left_is_counted_and_not_read_again() -> None:
    sealing = Sealing(NO_FENCE, {HERE: SourceName("here")}, {AWAY})
    assert sealing.begin(Time(5), []) == [SealJournal(NO_FENCE, front, Time(5)) for front in (HERE, AWAY)]
    sealing.sealed(HERE, [entry(4096)])
    assert not sealing.done
    sealing.sealed(AWAY, [entry(4098, 2), entry(8194, 0), entry(12290, 3)])
    assert sealing.done and sealing.left == {AWAY: 5}
    assert sealing.entries == {HERE: [entry(4096)]} and sealing.last == 4096


def test_a_source_that_is_gone_may_have_left_nothing() -> None:
    sealing = Sealing(NO_FENCE, {}, {AWAY})
    sealing.begin(START, [Time(4098)])
    sealing.sealed(AWAY, [])
    assert sealing.done and not sealing.left, "what consumers have of it is the coordinator's to judge"


def test_of_a_source_that_is_there_nothing_may_be_lost() -> None:
    sealing = Sealing(NO_FENCE, {AWAY: SourceName("words")})
    sealing.begin(START, [Time(4098)])
    with pytest.raises(Corrupt, match="the journal of source 'words' has lost entries"):
        sealing.sealed(AWAY, [])
