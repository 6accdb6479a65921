"""The runs that have entered a job behind a cut, noted while its journals have them.

A commit trims journals below its cut, and a shadow takes what lies below only then. So it looks often, and keeps
what it has seen. Whether something was trimmed between two looks is said by the journal, and by the number of records
that the snapshot has.

Keeps: what is noted is bounded. Does not: read records (canary_steps.py does, by these entries).
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Final

from msgspec import structs

from flamestream.audit.canary_steps import Behind
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition, SnapshotIndex
from flamestream.journal import places as journals
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import FrontId, Time

MOST_BYTES: Final = 64 << 20
"""Payloads that journals have themselves; a run counts ENTRY_BYTES more."""
ENTRY_BYTES: Final = 200


REST: Final = 4.0
"""Times of a look, until the next one: a server's journal is read as a whole."""


class LeftBehind(UserError):
    """A shadow cannot go on: the runs behind its place are there no more, or too many. It can begin anew."""


class Entered:
    """Runs that came to each front behind a cut, as far as they were seen."""

    def __init__(self, behind: Iterable[Behind], cut: Time) -> None:
        self._fronts = {each.position.front: each for each in behind}
        self._journalled = {
            front: list[Entry]() for front, each in self._fronts.items() if each.entries is not None
        }
        self._trimmed = [front for front in self._journalled if not _keeps(self._fronts[front])]
        """Those whose journals lose at a commit what is below its cut."""
        self._seen = dict.fromkeys(self._journalled, cut)
        self._rests = 0.0
        """Until when no look is made that is not due, on the monotonic clock."""
        self._bytes = 0

    @property
    def places(self) -> tuple[FrontPosition, ...]:
        """Where each front is read next; of journalled ones its records alone are known."""
        return tuple(each.position for each in self._fronts.values())

    def places_at(self, places: Iterable[FrontPosition]) -> list[Behind]:
        """The fronts at other places."""
        known = {each.front: each for each in places}
        return [
            replace(each, position=known.get(front, each.position)) for front, each in self._fronts.items()
        ]

    def look(self, *, due: bool = False) -> None:
        """Note what is new. `due`: it has to be known now; else a look is left out where the one before was just now,
        and of journals that keep all. Raises LeftBehind if what came meanwhile is there no more, or is too much."""
        began = time.monotonic()
        if not due and began < self._rests:
            return
        for front in self._journalled if due else self._trimmed:
            if found := self._new(front):
                self._seen[front] = Time(found[-1].time + 1)
                kept = [entry for entry in found if not entry.is_pledge]
                self._journalled[front].extend(kept)
                self._bytes += sum(len(entry.payloads) + ENTRY_BYTES for entry in kept)
        self._rests = time.monotonic() + REST * (time.monotonic() - began)
        if self._bytes > MOST_BYTES:
            raise LeftBehind(f"more than {MOST_BYTES >> 20} MiB of runs wait for it")

    def below(self, index: SnapshotIndex) -> tuple[Behind, ...]:
        """The runs to be interpreted up to the cut of a commit. Raises LeftBehind if they were not all seen."""
        positions = {each.front: each for each in index.fronts}
        return tuple(self._below(each, positions, index.cut) for each in self._fronts.values())

    def _below(self, each: Behind, positions: Mapping[FrontId, FrontPosition], cut: Time) -> Behind:
        front = each.position.front
        at = positions[front]
        there = at.records - each.position.records
        if front in self._journalled:
            entries = tuple(takewhile(lambda entry: entry.time < cut, self._journalled[front]))
            # (!) a journal whose newest file is empty cannot know what went before it
            if (seen := _count(entries)) != there:
                raise _unseen(each, f"{seen:,} of {there:,} records are known")
            return Behind(each.source, each.position, entries)
        ends = at.ended and not each.position.ended  # told behind its last record, in a run without any
        return Behind(each.source, each.position, there=there + ends)

    def pass_by(self, time: Time, places: Iterable[FrontPosition]) -> None:
        """All below `time` was interpreted. `places`: of timed fronts there."""
        for place in places:
            self._fronts[place.front] = replace(self._fronts[place.front], position=place)
        for front, noted in self._journalled.items():
            passed = [*takewhile(lambda entry: entry.time < time, noted)]
            self._bytes -= sum(len(entry.payloads) + ENTRY_BYTES for entry in passed)
            del noted[: len(passed)]
            its = self._fronts[front]
            place = structs.replace(its.position, records=its.position.records + _count(passed))
            self._fronts[front] = replace(its, position=place)

    def _new(self, front: FrontId) -> list[Entry]:
        source, since = self._fronts[front].source, self._seen[front]
        assert source.journal is not None, "else it has no entries"
        try:
            found = journals.everything(source.journal, source.job, front, since)
        except Corrupt as error:  # one that is damaged is met by the next beginning, too
            raise _unseen(self._fronts[front], str(error)) from error
        return [entry for entry in found if entry.time >= since]


def _unseen(each: Behind, why: str) -> LeftBehind:
    return LeftBehind(
        f"runs of source {each.source.front.source!r} were trimmed before they were seen: {why}"
    )


def _count(entries: Iterable[Entry]) -> int:
    return sum(entry.count for entry in entries)


def _keeps(each: Behind) -> bool:
    return each.source.journal is not None and each.source.journal.keep
