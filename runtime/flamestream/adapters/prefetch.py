"""Prefetch: a standby has the committed snapshot at hand, so that taking over reads nothing.

The coordinator names the segments of each commit to workers without slots. Segments are immutable and checked, so this is a cache of
named objects and changes nothing but time: whatever is not here is read when it is needed. One segment at a time, in a helper thread;
what the newest commit does not name is forgotten.

Keeps: memory bounded by the rows of one committed snapshot. Does not: fail; a segment that cannot be read now is read at the takeover,
whose error then counts.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from flamestream.core.events import Row
from flamestream.core.messages import SegmentRef
from flamestream.model.ids import Slot
from flamestream.ports import Reactor

log = logging.getLogger(__name__)
Rows = dict[Slot, list[Row]]


class Prefetched:
    """Decoded segments by name. `read` gives the rows of one; it is called in a helper thread."""

    def __init__(self, reactor: Reactor, read: Callable[[SegmentRef], list[Row]]) -> None:
        self._reactor = reactor
        self._read = read
        self._rows: dict[str, Rows] = {}
        self._wanted: dict[str, SegmentRef] = {}
        self._reading = False

    def want(self, segments: Sequence[SegmentRef]) -> None:
        """These are the committed ones now."""
        self._wanted = {ref.name: ref for ref in segments}
        self._rows = {name: rows for name, rows in self._rows.items() if name in self._wanted}
        self._go_on()

    def rows(self, ref: SegmentRef, slots: frozenset[Slot]) -> list[Row] | None:
        """Those of `slots`; None if the segment is not at hand."""
        found = self._rows.get(ref.name)
        return None if found is None else [row for slot in sorted(slots & found.keys()) for row in found[slot]]

    @property
    def missing(self) -> list[str]:
        """Segments that are wanted and not at hand yet."""
        return [name for name in self._wanted if name not in self._rows]

    def _go_on(self) -> None:
        if not self._reading and (missing := self.missing):
            self._reading = True
            ref = self._wanted[missing[0]]
            self._reactor.background(partial(self._by_slot, ref), partial(self._done, ref))

    def _by_slot(self, ref: SegmentRef) -> Rows:
        rows: Rows = {}
        for row in self._read(ref):
            rows.setdefault(row.slot, []).append(row)
        return rows

    def _done(self, ref: SegmentRef, result: Rows | Exception) -> None:
        self._reading = False
        if isinstance(result, Exception):
            log.info("segment %s is not at hand: %s", ref.name, result)
            self._wanted.pop(ref.name, None)  # the takeover reads it, or the next commit names it again
        elif ref.name in self._wanted:
            self._rows[ref.name] = result
        self._go_on()
