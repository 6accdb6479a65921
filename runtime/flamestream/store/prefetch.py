"""Prefetch: a standby has the committed snapshot at hand, as chains, so that taking over reads nothing and
puts nothing together.

The coordinator names the segments of each commit to workers without slots, and to one that is about to get
some more those of their state. A job's commits are one line, no
epoch number comes twice, and a key has one row an epoch: so whatever a commit adds to the one before is in
the segments that are new, in rows of newer epochs, and the rest of those (a merge carries old rows along) is
at hand. What cannot be read now is read with the next commit, or at the takeover.

Keeps: what is at hand is one committed snapshot, whole or all of some slots, and `chains` is of the segments
asked for and of no others; memory is bounded by that snapshot. Does not: fail; an error counts when `chains` meets it.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import Slot
from flamestream.ports import Reactor

log = logging.getLogger(__name__)
Wanted = tuple[Sequence[SegmentRef], frozenset[Slot]]


class Prefetched:
    """`read` gives the chains of some segments' rows of epochs above a number; it is called in a helper
    thread, as is `chains`."""

    def __init__(self, reactor: Reactor, read: Callable[[Sequence[SegmentRef], int], list[Chain]]) -> None:
        self._reactor = reactor
        self._read = read
        self._wanted: Wanted = ((), frozenset())
        self._reading = False
        self._lock = threading.Lock()
        """Guards what follows: the snapshot at hand."""
        self._names: frozenset[str] = frozenset()
        self._newest = -1
        """The newest epoch of the rows at hand."""
        self._slots: frozenset[Slot] = frozenset()
        """The slots whose state is at hand; none: all."""
        self._chains: dict[Slot, dict[tuple[int, bytes], Chain]] = {}

    def want(self, segments: Sequence[SegmentRef], slots: Iterable[Slot] = ()) -> None:
        """Have these segments at hand, which are the committed ones now, or what they have of some `slots`;
        no segments: forget everything."""
        self._wanted = (segments, frozenset(slots))
        self._go_on()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is being read."""
        return not self._reading

    @property
    def warm(self) -> bool:
        """Whether a committed snapshot is at hand. (Read without the lock: whoever reads the next one holds
        it for long.)"""
        return bool(self._names)

    def chains(self, segments: Sequence[SegmentRef], slots: Sequence[Slot]) -> list[Chain] | None:
        """The chains of `slots` in the snapshot of `segments`; None if nothing is at hand. Raises what
        reading raises."""
        with self._lock:
            # (!) A slot that was not asked for looks empty here.
            if not self._names or (self._slots and not self._slots.issuperset(slots)):
                return None
            self._advance(segments)
            return [chain for slot in slots for chain in self._chains.get(slot, {}).values()]

    def _go_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._reactor.background(partial(self._have, self._wanted), partial(self._done, self._wanted))

    def _have(self, wanted: Wanted) -> None:
        segments, slots = wanted
        with self._lock:
            if not segments or slots != self._slots:
                self._names, self._newest, self._slots, self._chains = frozenset(), -1, slots, {}
            if segments:
                self._advance(segments)

    def _advance(self, segments: Sequence[SegmentRef]) -> None:
        """Go on from the snapshot at hand to a newer one. Reads first, so that a failure changes nothing."""
        fresh = [ref for ref in segments if ref.name not in self._names]
        # Rows of newer epochs alone (!): what a merge carries along is at hand, and would be joined twice.
        for chain in self._read(fresh, self._newest) if fresh else ():
            if self._slots and chain.slot not in self._slots:
                continue
            of_slot = self._chains.setdefault(chain.slot, {})
            key = chain.operation, chain.key
            # only newer epochs were read, so what is at hand stands before
            of_slot[key] = chain.behind(of_slot.get(key))
            self._newest = max(self._newest, chain.epoch)
        self._names = frozenset(ref.name for ref in segments)

    def _done(self, wanted: Wanted, result: Exception | None) -> None:
        self._reading = False
        if isinstance(result, Exception):
            log.info("the committed snapshot is not at hand: %s", result)
        # Commits that came meanwhile are one step: the newest has what all of them added.
        if self._wanted is not wanted:
            self._go_on()
