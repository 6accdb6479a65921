"""The credit of a producer: the newest fence, whether it follows, and how much may leave.

Keeps: nothing of an older fence leaves after a newer one was heard of; what leaves is taken from the credit
of the last Pull. Does not: know where records come from (producer.py, synthetic, socket and http).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from flamestream.core.protocol.actions import Pull
from flamestream.core.protocol.events import RecordsArrived, SourceEnded
from flamestream.model.ids import NO_FENCE, Fence, Offset, Partition
from flamestream.model.time import FrontId, Time, Timestamp
from flamestream.ports import Post, Reactor

THE_PARTITION: Final = Partition("")
"""The partition of a source that has only one."""


class CreditProducer:
    """The part of a `ports.Producer` that does not depend on its source. `_turn` gives what the credit
    allows."""

    def __init__(self, front: FrontId, post: Post, reactor: Reactor) -> None:
        self._front, self._post, self._reactor = front, post, reactor
        self._fence: Fence = NO_FENCE
        self._following = False
        self._records = self._size = 0
        """Records and bytes that may leave still."""
        self._turn_due = False

    def pull(self, action: Pull) -> None:
        if self._adopt(action.fence):
            self._records, self._size = action.records, action.size
            self._soon()

    def durable(self, time: Time, partition: str, upto: int) -> None:
        """Nobody waits for it, unless a source says otherwise."""

    def _adopt(self, fence: Fence) -> bool:
        """Whether an action of `fence` counts; a newer one ends everything of the older."""
        if fence > self._fence:
            self._fence, self._following = fence, False
            self._records = self._size = 0
            self._forget()
        return fence == self._fence

    def _forget(self) -> None:
        """Let go of what was begun under an older fence."""

    def _soon(self) -> None:
        """Take one turn for all that asks for one meanwhile. May be called from any thread."""
        if not self._turn_due:
            # Set before it is asked for: a turn clears it first, so what comes during a turn gets another
            # one.
            self._turn_due = True
            self._reactor.soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_due = False
        self._turn()

    def _turn(self) -> None:
        raise NotImplementedError

    def _post_records(
        self, partition: Partition, first: int, payloads: Sequence[object], size: int,
        hint: Timestamp = Timestamp(0), end: Offset | None = None, traces: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        place = self._fence, self._front, partition, Offset(first)
        self._post(RecordsArrived(*place, payloads, size, hint, end, traces))
        self._records -= len(payloads)
        self._size -= size

    def _end(self) -> None:
        self._following = False
        self._post(SourceEnded(self._fence, self._front))
