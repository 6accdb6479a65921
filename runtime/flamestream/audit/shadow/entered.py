"""The runs that have entered a job behind a cut, noted while its journals have them.

A commit trims journals below its cut, and a shadow takes what lies below only then. So it looks often, and keeps
what it has seen. A journal says itself whether something was trimmed between two looks.

Keeps: what is noted is bounded. Does not: read records (canary_steps.py does, by these entries).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Final

from flamestream.audit.canary_steps import Behind
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition, SnapshotIndex
from flamestream.journal import places as journals
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import FrontId, Time

MOST_BYTES: Final = 64 << 20
"""Payloads that journals have themselves; a run counts ENTRY_BYTES more."""
ENTRY_BYTES: Final = 200


class LeftBehind(UserError):
    """What the shadow would go on with is there no more, or too much: it can begin anew."""


class Entered:
    """What came to each front behind a cut, as far as it was seen."""

    def __init__(self, behind: Iterable[Behind], cut: Time) -> None:
        self._fronts = {each.position.front: each for each in behind}
        self._journalled = {
            front: list[Entry]() for front, each in self._fronts.items() if each.entries is not None
        }
        self._seen = dict.fromkeys(self._journalled, cut)
        self._bytes = 0

    @property
    def places(self) -> tuple[FrontPosition, ...]:
        """Of timed fronts: where they are read next."""
        return tuple(each.position for each in self._fronts.values() if each.entries is None)

    def places_at(self, places: Iterable[FrontPosition]) -> list[Behind]:
        """The fronts, with timed ones at other places."""
        known = {each.front: each for each in places}
        return [
            replace(each, position=known.get(front, each.position)) for front, each in self._fronts.items()
        ]

    def look(self) -> None:
        """Note what is new. Raises LeftBehind if what came meanwhile is there no more, or is too much."""
        for front in self._journalled:
            if found := self._new(front):
                self._seen[front] = Time(found[-1].time + 1)
                kept = [entry for entry in found if not entry.is_pledge]
                self._journalled[front].extend(kept)
                self._bytes += sum(len(entry.payloads) + ENTRY_BYTES for entry in kept)
        if self._bytes > MOST_BYTES:
            raise LeftBehind(f"more than {MOST_BYTES >> 20} MiB of runs wait for it")

    def below(self, index: SnapshotIndex) -> tuple[Behind, ...]:
        """What is to be interpreted up to the cut of a commit."""
        positions = {each.front: each for each in index.fronts}
        return tuple(self._below(each, positions, index.cut) for each in self._fronts.values())

    def _below(self, each: Behind, positions: Mapping[FrontId, FrontPosition], cut: Time) -> Behind:
        front = each.position.front
        if front in self._journalled:
            entries = tuple(takewhile(lambda entry: entry.time < cut, self._journalled[front]))
            return Behind(each.source, each.position, entries)
        at = positions[front]
        ends = at.ended and not each.position.ended  # told behind its last record, in a run without any
        return Behind(each.source, each.position, there=at.records - each.position.records + ends)

    def pass_by(self, time: Time, places: Iterable[FrontPosition]) -> None:
        """All below `time` was interpreted. `places`: of timed fronts there."""
        for place in places:
            self._fronts[place.front] = replace(self._fronts[place.front], position=place)
        for noted in self._journalled.values():
            count = sum(1 for _ in takewhile(lambda entry: entry.time < time, noted))
            self._bytes -= sum(len(entry.payloads) + ENTRY_BYTES for entry in noted[:count])
            del noted[:count]

    def _new(self, front: FrontId) -> list[Entry]:
        source, since = self._fronts[front].source, self._seen[front]
        assert source.journal is not None, "else it has no entries"
        try:
            found = journals.everything(source.journal, source.job, front, since)
        except Corrupt as error:  # one that is damaged is met by the next beginning, too
            name = source.front.source
            raise LeftBehind(
                f"runs of source {name!r} were trimmed before they were seen: {error}"
            ) from error
        return [entry for entry in found if entry.time >= since]
