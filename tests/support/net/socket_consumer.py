"""A socket consumer as a process of its own, whose memory is a file; SIGKILL ends it:
`python -m support.net.socket_consumer PORT FILE`.

What it is told is in the file, with fsync, before it answers; a start goes on with what the file has.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.log import Delivered
from flamestream.model.ids import NO_FENCE, Fence, Slot
from flamestream.testing.consumer import Consumer, ConsumerServer

Told = tuple[Fence, list[Slot], list[Bundle]]
"""An opening of these slots, or bundles that were taken."""


class Remembering(Consumer):
    """Everything it is told is in `file` first."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        for fence, slots, bundles in told_in(file):
            if slots:
                super().open(fence, slots)
            else:
                super().deliver(fence, [_delivered(bundle) for bundle in bundles])
        self._log = file.open("ab")
        self._under = NO_FENCE
        """Of the delivery at hand."""
        self._on_bundles = lambda bundles: self._tell((self._under, [], list(bundles)))

    def open(self, fence: Fence, slots: Sequence[Slot]) -> list[Delivered]:
        self._check(fence, slots)
        self._tell((fence, list(slots), []))
        return super().open(fence, slots)

    def deliver(self, fence: Fence, bundles: Sequence[Delivered]) -> None:
        self._under = fence
        super().deliver(fence, bundles)

    def _tell(self, told: Told) -> None:
        data = msgspec.msgpack.encode(told)
        self._log.write(len(data).to_bytes(4, "big") + data)
        self._log.flush()
        os.fsync(self._log.fileno())


def told_in(file: Path) -> list[Told]:
    """In order; what was cut off at the end never happened."""
    data, found = file.read_bytes() if file.exists() else b"", []
    while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
        found.append(msgspec.msgpack.decode(data[4 : 4 + size], type=Told))
        data = data[4 + size :]
    return found


def _delivered(bundle: Bundle) -> Delivered:
    return bundle.slot, bundle.sequence, bundle.t_last, bundle.items


if __name__ == "__main__":
    server = ConsumerServer(consumer=Remembering(Path(sys.argv[2])), port=int(sys.argv[1]))
    server._thread.join()
