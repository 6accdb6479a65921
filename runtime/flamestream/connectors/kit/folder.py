"""A sink that is a folder: one append-only log a worker and attempt, one write and one fsync for all slots of
a delivery.

Keeps: a delivery is acknowledged once it is durable and its fence is the newest; after a failed write (disk
full) the torn end is cut off and the same delivery is tried again. Does not: know what items are, or wait in
the loop (blocking.py). Format: log.py, fences.py.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path

from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.connector import SinkContext, SinkSettings
from flamestream.connectors.kit.ledger import Ledger
from flamestream.connectors.kit.ownership import Owned, owner_of_logs, remove_logs
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.fenced.fences import Counted, FencedFolder, Pointer
from flamestream.fenced.log import encode_record, scan
from flamestream.fenced.reading import Item, Written, read_items, read_moments
from flamestream.model.errors import Corrupt, Fenced
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot, WorkerId
from flamestream.ports import Consumer
from flamestream.store.folder import write_all


class FolderSink(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings and answers that all sinks over such a folder have in common."""

    file_settings = ("path",)
    holder = "place"
    reads_back = True
    path: str
    """A folder, made if it is not there."""
    fsync: bool = True
    """False: what is acknowledged survives the process but not the machine."""

    def consumer(self, context: SinkContext) -> Consumer:
        return self.delivering(context)

    def delivering(self, context: SinkContext) -> BlockingConsumer:
        """A consumer that delivers into the folder."""
        writing = Writing(
            FencedFolder(Path(self.path)), self.fsync, context.job, context.name, context.writer
        )
        return BlockingConsumer(writing, context.name, context.post, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        return read_items(Path(self.path), (job, sink) if job else None)

    def moments(self, where: str, job: str, sink: str) -> Iterator[Written]:
        return read_moments(Path(self.path))

    def owned(self) -> Owned | None:
        return owner_of_logs(self.path)

    def remove(self) -> None:
        remove_logs(self.path)


def _now() -> int:
    return time.time_ns() // 1000


class Writing:
    """The blocking half: one log under one fence. A close waits for the call under way, whose descriptor it
    would take away."""

    def __init__(
        self, folder: FencedFolder, sync: bool, job: str, sink: SinkName, writer: WorkerId,
        clock: Callable[[], int] = _now,
    ) -> None:  # fmt: skip
        """`clock` gives microseconds since 1970."""
        self._folder = folder
        self._sync = sync
        self._job, self._sink, self._writer, self._clock = job, sink, writer, clock
        self._fence: Fence = NO_FENCE
        self._ledger = Ledger()
        self._lock = threading.Lock()
        self._fd = -1
        self._length = 0
        self._torn = False
        """A write has failed: what is behind `_length` is to be cut off."""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        """Fence, and give the last bundle of each slot."""
        with self._lock:
            self._close()
            self._folder.claim(self._job, self._sink)
            counted = self._folder.open(action.fence)
            last = last_bundles(self._folder, counted, action.slots)
            self._fd, self._length = self._folder.log_for(action.fence, self._writer, counted)
            self._fence, self._ledger = action.fence, Ledger(last)
            self._torn = False
            return last

    def deliver(self, action: Deliver) -> None:
        """Durable when it returns. Raises Fenced, or OSError after which it may be called again."""
        with self._lock:
            if action.fence != self._fence or self._fd < 0:
                raise Fenced(f"delivery {action.number} is of {action.fence}, the log of {self._fence}")
            fresh = self._ledger.check(action.bundles)
            if fresh:
                self._append(encode_record(action.fence, action.number, fresh, self._clock()))
                self._ledger.take(fresh)
            # (!) Behind the write: who has opened a newer fence meanwhile counts this log only up to what it
            # had read.
            self._folder.check(self._fence)

    def close(self) -> None:
        """The log stays as it is."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, record: bytes) -> None:
        if self._torn:
            os.ftruncate(self._fd, self._length)
            os.lseek(self._fd, self._length, os.SEEK_SET)
        # Also behind a sync that failed: Linux takes the pages for clean then, so another sync would prove
        # nothing; they are cut off and written again (!).
        self._torn = True  # until the write is whole and durable
        write_all(self._fd, record)
        if self._sync:
            os.fdatasync(self._fd)
        self._torn = False
        self._length += len(record)


def last_bundles(folder: FencedFolder, counted: Counted, slots: Sequence[Slot]) -> dict[Slot, LastBundle]:
    """Read the bundles that `counted.last` points to; each record once."""
    wanted: dict[Pointer, list[Slot]] = {}
    for slot in slots:
        if (pointer := counted.last.get(slot)) is not None:
            wanted.setdefault(pointer, []).append(slot)
    last: dict[Slot, LastBundle] = {}
    for pointer in sorted(wanted, key=lambda pointer: (pointer.log, pointer.start)):
        for bundle in _bundles_at(folder, pointer, counted.lengths[pointer.log]):
            if bundle.slot in wanted[pointer]:
                last[bundle.slot] = LastBundle(bundle.sequence, bundle.t_last, bundle.items)
    return last


def _bundles_at(folder: FencedFolder, pointer: Pointer, end: int) -> list[Bundle]:
    path = folder.root / pointer.log
    try:
        with FileIO(path) as file:
            record = next(scan(file, str(path), pointer.start, end))
    except FileNotFoundError:
        raise Corrupt(f"{path} is gone, and {end} bytes of it count; restore it from a backup") from None
    return [Bundle(*bundle) for bundle in record.delivery.bundles]
