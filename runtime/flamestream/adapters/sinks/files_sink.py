"""A sink that is a folder: one append-only log a worker and attempt, one write and one fsync for all slots of a delivery.

Keeps: a delivery is acknowledged once it is durable and its fence is the newest; after a failed write (disk full) the torn end is cut
off and the same delivery is tried again. Does not: know what items are. Format: log.py, fences.py.
"""

import os
import threading
from collections.abc import Callable, Sequence
from io import FileIO
from typing import Any

from flamestream.adapters.local_store import write_all
from flamestream.adapters.serial import Serial
from flamestream.adapters.sinks.fences import Counted, FencedFolder, Pointer
from flamestream.adapters.sinks.ledger import Ledger
from flamestream.adapters.sinks.log import encode_record, scan
from flamestream.core.actions import Bundle, Deliver, OpenSink
from flamestream.core.events import BundlesAcknowledged, Event, LastBundle, SinkFailed, SinkFenced, SinkOpened
from flamestream.model.errors import Corrupt, Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot, WorkerId
from flamestream.ports import Post, Reactor


class FilesConsumer:
    """`ports.Consumer`."""

    def __init__(self, folder: FencedFolder, sync: bool, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor) -> None:
        self._writing = Writing(folder, sync, job, sink, writer)
        self._sink = sink
        self._post = post
        self._calls = Serial(reactor)
        self._fence: Fence = NO_FENCE

    @property
    def problem(self) -> str:
        """Why a delivery is being tried again; "" if it is not."""
        return self._calls.problem

    def open(self, action: OpenSink) -> None:
        self._fence = max(self._fence, action.fence)
        self._calls.run(
            lambda: self._writing.open(action),
            lambda last: self._tell(action.fence, last, lambda: SinkOpened(action.fence, self._sink, last)),
        )

    def deliver(self, action: Deliver) -> None:
        self._calls.run(
            lambda: self._writing.deliver(action),
            lambda result: self._tell(action.fence, result, lambda: BundlesAcknowledged(action.fence, self._sink, action.number)),
        )

    def close(self) -> None:
        self._calls.close()
        self._writing.close()

    def _tell(self, fence: Fence, result: Any, success: Callable[[], Event]) -> None:
        if fence < self._fence:
            return
        event: Event
        if isinstance(result, Fenced):
            event = SinkFenced(fence, self._sink)
        elif isinstance(result, FlameStreamError):
            event = SinkFailed(fence, self._sink, result.category, f"sink {self._sink}: {result}")
        elif isinstance(result, Exception):
            raise result
        else:
            event = success()
        self._post(event)


class Writing:
    """The blocking half: one log under one fence. A close waits for the call under way, whose descriptor it would take away."""

    def __init__(self, folder: FencedFolder, sync: bool, job: str, sink: SinkName, writer: WorkerId) -> None:
        self._folder = folder
        self._sync = sync
        self._job, self._sink, self._writer = job, sink, writer
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
            return self._open(action)

    def _open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        self._close()
        self._folder.claim(self._job, self._sink)
        counted = self._folder.open(action.fence)
        last = last_bundles(self._folder, counted, action.slots)
        self._fd, _ = self._folder.new_log(action.fence, self._writer)
        self._fence, self._ledger = action.fence, Ledger(last)
        self._length, self._torn = 0, False
        return last

    def deliver(self, action: Deliver) -> None:
        """Durable when it returns. Raises Fenced, or OSError after which it may be called again."""
        with self._lock:
            self._deliver(action)

    def _deliver(self, action: Deliver) -> None:
        if action.fence != self._fence or self._fd < 0:
            raise Fenced(f"delivery {action.number} is of {action.fence}, the log of {self._fence}")
        fresh = self._ledger.check(action.bundles)
        if fresh:
            self._append(encode_record(action.fence, action.number, fresh))
            self._ledger.take(fresh)
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
        self._torn = True
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
