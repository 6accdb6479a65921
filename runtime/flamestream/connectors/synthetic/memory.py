"""A source in this process, for tests and benchmarks: whoever has its channel appends records, and the front
reads them.

>>> channel_named("doc-example").append("", "a", "b")
2

A channel keeps everything, so it can be read again; its front is journalled. `append` may be called from any
thread. Does not: bound a channel's memory: it is the test's.
"""

import threading
from collections.abc import Callable
from typing import Final

from flamestream.connectors.kit.credit import CreditProducer
from flamestream.core.protocol.actions import Follow, ReadRun
from flamestream.core.protocol.events import RunRead, SourceFailed
from flamestream.model.ids import Partition
from flamestream.model.time import FrontId, Time
from flamestream.ports import Post, Reactor

RECORD_SIZE: Final = 64
"""Bytes of input that a record counts for."""


class Channel:
    """Records by partition, and whether more will come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, list[object]] = {}
        self._listeners: list[Callable[[], None]] = []
        self.ended = False
        self.durable: dict[str, int] = {}
        """Up to which offset each partition is in the journal."""

    def append(self, partition: str, *payloads: object) -> int:
        """Add records; returns the partition's next offset."""
        with self._lock:
            records = self._records.setdefault(partition, [])
            records.extend(payloads)
        self._tell()
        return len(records)

    def end(self) -> None:
        """No more records will come."""
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener not in self._listeners:
                self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def partitions(self) -> list[str]:
        with self._lock:
            return list(self._records)

    def slice(self, partition: str, first: int, count: int) -> list[object]:
        """At most `count` records from `first` on."""
        with self._lock:
            return self._records.get(partition, [])[first : first + count]


_channels: dict[str, Channel] = {}


def channel_named(name: str) -> Channel:
    """The channel of this process that `{memory: {name: ...}}` reads; made when first asked for."""
    return _channels.setdefault(name, Channel())


class MemoryProducer(CreditProducer):
    """`ports.Producer`."""

    def __init__(self, channel: Channel, front: FrontId, post: Post, reactor: Reactor) -> None:
        super().__init__(front, post, reactor)
        self._channel = channel
        self._next: dict[str, int] = {}

    def read(self, action: ReadRun) -> None:
        if self._adopt(action.fence):
            self._reactor.soon(lambda: self._read(action))

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._next = {str(name): int(offset) for name, offset in action.offsets.items()}
            self._following = True
            self._channel.listen(self._soon)
            self._soon()

    def durable(self, time: Time, partition: str, upto: int) -> None:
        self._channel.durable[partition] = upto

    def close(self) -> None:
        self._following = False
        self._channel.unlisten(self._soon)

    def _read(self, action: ReadRun) -> None:
        entry = action.entry
        payloads = self._channel.slice(entry.partition, entry.first, entry.count)
        if action.fence != self._fence:
            return
        if len(payloads) < entry.count:
            message = (
                f"memory source: partition {entry.partition!r} has no records {entry.first} to "
                f"{entry.first + entry.count - 1}"
            )
            self._post(SourceFailed(action.fence, self._front, "corrupt", message))
        else:
            self._post(RunRead(action.fence, self._front, entry, payloads))

    def _turn(self) -> None:
        ended = self._channel.ended
        for partition in self._channel.partitions() if self._following else ():
            first = self._next.get(partition, 0)
            payloads = self._channel.slice(partition, first, self._records if self._size > 0 else 0)
            if payloads:
                self._next[partition] = first + len(payloads)
                self._post_records(Partition(partition), first, payloads, RECORD_SIZE * len(payloads))
        if self._following and ended and not self._left():
            self._end()

    def _left(self) -> bool:
        return any(
            self._channel.slice(partition, self._next.get(partition, 0), 1)
            for partition in self._channel.partitions()
        )
