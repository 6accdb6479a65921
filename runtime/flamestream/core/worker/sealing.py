"""Sealing: what counts of the journals of a worker's fronts, fixed when a recovery begins.

    begin -> SealJournal, a front each -> sealed: its entries above the cut -> done

Keeps: an entry whose results were delivered is there, or the attempt ends as corrupt (!). Does not: read a
run again (fronts.py).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from flamestream.core.protocol.actions import SealJournal
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Fence, SourceName
from flamestream.model.time import START, FrontId, Time, front_of


class Sealing:
    """The sealing of journals in one attempt. `sources` are those of its fronts that have a journal; `away`:
    fronts whose source is gone."""

    def __init__(
        self, fence: Fence, sources: Mapping[FrontId, SourceName], away: Collection[FrontId] = ()
    ) -> None:
        self.entries: dict[FrontId, Sequence[Entry]] = {}
        """The journalled runs above the cut, by front, in order."""
        self.last = START
        """The newest journalled run or pledge above the cut; START if there is none."""
        self.reached: dict[FrontId, Time] = {}
        """How far each front has promised at most: the cut, or its newest run or pledge above that."""
        self.left: dict[FrontId, int] = {}
        """Records above the cut of fronts that are away, where there are any."""
        self._fence, self._sources, self._away = fence, sources, away
        self._open, self._cut = {*sources, *away}, START
        self._released: set[Time] = set()

    def begin(self, cut: Time, released: Iterable[Time]) -> list[SealJournal]:
        """Actions that seal all fronts. Consumers have results of the runs at `released`."""
        self._cut = cut
        self._released = {time for time in released if front_of(time) in self._sources}
        return [SealJournal(self._fence, front, cut) for front in sorted(self._open)]

    def sealed(self, front: FrontId, entries: Sequence[Entry]) -> None:
        """The answer to SealJournal: the entries of `front` above the cut. Raises Corrupt if some are
        lost."""
        # (!) Without them the replay is of other input: it would be blamed on the functions, or on nobody.
        lost = {time for time in self._released if front_of(time) == front} - {
            entry.time for entry in entries
        }
        if lost:
            raise Corrupt(
                f"the journal of source {self._sources[front]!r} has lost entries: results of {len(lost)} of its "
                f"runs were delivered (the first at time {min(lost)}), and it has none of them. Restore the "
                "journal; or begin anew (`flamestream reset`) with empty sinks"
            )
        self._open.discard(front)
        if front in self._away:
            if count := sum(entry.count for entry in entries):
                self.left[front] = count
            return
        self.entries[front] = [entry for entry in entries if not entry.is_pledge]
        newest = max((entry.time for entry in entries), default=START)
        self.reached[front] = max(self._cut, newest)
        self.last = max(self.last, newest)

    @property
    def done(self) -> bool:
        """Whether every journal is sealed."""
        return not self._open
