"""Without a journal a seal finds nothing, and nothing is appended."""

from typing import Any

import pytest

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import Entry, JournalSealed
from flamestream.journal.none import NoJournal
from flamestream.model.errors import Bug
from flamestream.model.ids import NO_FENCE, Offset, Partition
from flamestream.model.time import START, FrontId, Time


def test_a_seal_finds_nothing_and_an_entry_is_not_swallowed() -> None:
    told: list[Any] = []
    journal = NoJournal(told.append)
    journal.seal(SealJournal(NO_FENCE, FrontId(3), START))
    journal.trim(TrimJournal(NO_FENCE, FrontId(3), START))
    assert told == [JournalSealed(NO_FENCE, FrontId(3), [])]
    with pytest.raises(Bug, match="front 3 appends"):
        journal.append(Append(NO_FENCE, FrontId(3), Entry(Time(1), Partition(""), Offset(0), 1)))
