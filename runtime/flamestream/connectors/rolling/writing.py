"""The blocking half of a rolling sink: one worker's log, and the parts that are made of it.

Deliveries and parts are made in two helper threads: `deliver` appends to what waits, `roll` takes from its
front.

Keeps: a delivery is durable and counts when `deliver` returns; what waits for a part is bounded (then
deliveries wait). Does not: retry (consumer.py does).
"""

import threading
import time
from collections import deque
from typing import Final

from flamestream.connectors.kit.ledger import Ledger
from flamestream.connectors.rolling.chain import Chain
from flamestream.connectors.rolling.connector import Rolling
from flamestream.connectors.rolling.opening import Owner, claim, older, opened, sealed
from flamestream.connectors.rolling.parts import PartFormat
from flamestream.connectors.rolling.rolling import HoldsMore, Numbered, close_log, make_part
from flamestream.connectors.rolling.segments import Segment, encode, found, name_of, size_of
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Corrupt, Fenced
from flamestream.model.ids import Fence, Slot, WorkerId
from flamestream.ports import ObjectStore

BEHIND: Final = 3
"""So many parts' worth of segments may wait to be made into parts."""


class Behind(OSError):
    """Parts are not made as fast as deliveries come: this one waits."""


class Log:
    """A log under one fence, from its opening on."""

    def __init__(
        self,
        store: ObjectStore,
        settings: Rolling,
        form: PartFormat,
        mine: Owner,
        writer: WorkerId,
        action: OpenSink,
    ) -> None:
        self._store, self._settings, self._form = store, settings, form
        self.fence: Fence = action.fence
        self._writer = writer
        claim(store, mine)
        self._chain = Chain(store)
        opening = opened(self._chain, action.fence, writer, action.slots)
        self._log = opening.log
        self.closes_older = opening.first
        """Older logs are this worker's to close, soon; else before its first part."""
        self.last = {
            slot: LastBundle(sequence, t_last, items)
            for slot, sequence, t_last, items in opening.last.values()
        }
        self._ledger = Ledger(self.last)
        self._tail = 0
        self._newest: dict[Slot, int] = {}
        self._waiting: deque[Numbered] = deque()
        self._delivered_bytes = self._filed_bytes = 0
        """Each written by one of the two threads, so that neither needs a lock."""
        self._since = 0.0
        """The time at which the first of `_waiting` was delivered."""
        self._older_closed = False
        self._rolling = threading.Lock()
        self.sealed = False

    # --- deliveries -----------------------------------------------------------------------------------------

    def deliver(self, action: Deliver) -> None:
        """Durable when it returns. Raises Fenced, StoreUnavailable or Behind; then it may be called again
        with the same."""
        if action.fence != self.fence or self.sealed:
            raise Fenced(f"delivery {action.number} is of {action.fence}, the log of {self.fence}")
        if self._bytes > BEHIND * self._settings.roll_bytes:
            raise Behind(
                f"{self._bytes} bytes wait to be made into files, more than {BEHIND} files' worth; "
                "deliveries wait for them"
            )
        fresh = self._ledger.check(action.bundles)
        if fresh:
            self._append(action.number, fresh)
            self._ledger.take(fresh)

    def _append(self, number: int, fresh: list[Bundle]) -> None:
        position = self._tail + 1
        newest = {**self._newest, **dict.fromkeys((bundle.slot for bundle in fresh), position)}
        bundles = [tuple(bundle) for bundle in fresh]
        segment = Segment(self.fence, number, bundles, newest)  # type: ignore[arg-type]  # a Bundle is a Delivered with names
        # (!) Created once and never changed: that it is there is the acknowledgement.
        self._create(name_of(self._log, position), encode(segment))
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append((position, segment.bundles))
        self._delivered_bytes += size_of(segment.bundles)
        # Only behind the creation (!): a call that failed makes the same bytes under the same number again,
        # and `_create` knows them for its own.
        self._tail, self._newest = position, newest

    def _create(self, name: str, data: bytes) -> None:
        """Create an object, which may be there from an earlier call whose answer was lost; else it is the
        seal of a newer fence."""
        if self._store.put_new(name, data):
            return
        there = found(self._store, name)
        if there == data:
            return
        if there is None:
            raise Corrupt(f"{name} exists and cannot be read: does something delete objects there?")
        self.sealed = True
        raise Fenced(
            f"a newer attempt has sealed the log of attempt {self.fence.attempt} (layout "
            f"{self.fence.layout}) at {name}"
        )

    @property
    def _bytes(self) -> int:
        """The bytes of items that wait for a part."""
        return self._delivered_bytes - self._filed_bytes

    # --- parts ----------------------------------------------------------------------------------------------

    def due(self) -> float | None:
        """Seconds until a part should be made, 0 for now; None if nothing waits."""
        if not self._waiting:
            return None
        if self._bytes >= self._settings.roll_bytes:
            return 0.0
        return max(0.0, self._since + self._settings.roll_seconds - time.monotonic())

    def close_older(self) -> None:
        """Make parts of what logs of older fences hold."""
        with self._rolling:
            self._close_older()

    def roll(self) -> None:
        """Make parts of what waits."""
        with self._rolling:
            # First (!): who reads by plain path would see later bundles of a slot without the earlier ones.
            self._close_older()
            self._roll()

    def finish(self, seconds: float) -> None:
        """Make parts of what waits at the worker's end, if that can begin within so many seconds."""
        if not self._rolling.acquire(timeout=seconds):
            return
        try:
            if not self.sealed:
                self._close_older()
                self._roll()
        finally:
            self._rolling.release()

    def _close_older(self) -> None:
        if self._older_closed:
            return
        logs = older(self._chain.refresh(), self._log, self.fence, self._writer)
        for log, end in sealed(self._chain, logs, self.fence).items():
            close_log(self._chain, log, end, self._form, self._settings.roll_bytes)
        self._older_closed = True

    def _roll(self) -> None:
        # What comes meanwhile is the next call's, or this one might never end.
        upto = self._tail
        while self._waiting and self._waiting[0][0] <= upto:
            # Copied in one step of the interpreter: a deque that another thread appends to cannot be walked
            # through.
            held = [segment for segment in tuple(self._waiting) if segment[0] <= upto]
            try:
                last = make_part(self._chain, self._log, held, self._form, self._settings.roll_bytes)
            except HoldsMore:  # only who sealed this log has seen more of it
                self.sealed = True
                return
            while self._waiting and self._waiting[0][0] <= last:
                self._filed_bytes += size_of(self._waiting.popleft()[1])
            self._since = time.monotonic()
