"""The numbers 0, 1, 2, ... or a function of each: a source that every machine has.

A number is due at (number - first) / rate seconds after the source was told to follow; without a rate all are due at once. What is due
leaves within the credit. The function has to be pure: a number read again must give the same payload.

Keeps: the payload depends on the number alone. Does not: journal: its front is timed, and the offset is the number.
"""

from collections.abc import Callable
from typing import Any, Final

from flamestream.connectors.kit.producer import payload_of_number
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import RecordsArrived, SourceEnded
from flamestream.model.errors import Bug
from flamestream.model.ids import NO_FENCE, Fence, Offset, Partition
from flamestream.model.time import FrontId, Time
from flamestream.ports import Post, Reactor, Timer

THE_PARTITION: Final = Partition("")
MOST_A_TURN: Final = 512
RECORD_SIZE: Final = 8
"""What a number counts for, in bytes of input."""


class GeneratorProducer:
    """`ports.Producer`."""

    def __init__(
        self, count: int | None, rate: float | None, function: Callable[[int], Any] | None, front: FrontId, post: Post, reactor: Reactor
    ) -> None:
        self._count = count
        self._rate = rate
        self._function = function
        self._front = front
        self._post = post
        self._reactor = reactor
        self._fence: Fence = NO_FENCE
        self._first = self._next = 0
        self._began = 0
        self._records = 0
        self._following = False
        self._timer: Timer | None = None
        self._due_soon = False

    def read(self, action: ReadRun) -> None:
        raise Bug(f"a generator has no journalled runs, but was asked for {action}")

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._first = self._next = action.offsets.get(THE_PARTITION, Offset(0))
            self._began = self._reactor.instant()
            self._following = True
            self._soon()

    def pull(self, action: Pull) -> None:
        if self._adopt(action.fence):
            self._records = min(action.records, max(0, action.size + RECORD_SIZE - 1) // RECORD_SIZE)
            self._soon()

    def durable(self, time: Time, partition: str, upto: int) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        self._following = False
        if self._timer is not None:
            self._timer.cancel()

    def _adopt(self, fence: Fence) -> bool:
        """Whether an action of `fence` counts; a newer one ends everything of the older."""
        if fence > self._fence:
            self._fence, self._records, self._following = fence, 0, False
        return fence == self._fence

    def _soon(self) -> None:
        if not self._due_soon:
            self._due_soon = True
            self._reactor.soon(self._turn)

    def _turn(self) -> None:
        self._due_soon = False
        if not self._following:
            return
        count = min(self._due(), self._records, MOST_A_TURN)
        if count > 0:
            payloads = [self._payload(number) for number in range(self._next, self._next + count)]
            self._post(RecordsArrived(self._fence, self._front, THE_PARTITION, Offset(self._next), payloads, count * RECORD_SIZE))
            self._next += count
            self._records -= count
        if self._next == self._count:
            self._following = False
            self._post(SourceEnded(self._fence, self._front))
        elif self._records > 0:
            self._wait()

    def _due(self) -> int:
        """How many may leave now."""
        left = MOST_A_TURN if self._count is None else self._count - self._next
        if self._rate is None:
            return left
        elapsed = (self._reactor.instant() - self._began) / 1_000_000
        return min(left, self._first + int(elapsed * self._rate) + 1 - self._next)

    def _wait(self) -> None:
        if self._rate is None:
            self._soon()
            return
        if self._timer is not None:
            self._timer.cancel()
        due = self._began / 1_000_000 + (self._next - self._first) / self._rate
        self._timer = self._reactor.later(max(0.0, due - self._reactor.instant() / 1_000_000), self._soon)

    def _payload(self, number: int) -> object:
        return payload_of_number(self._function, number)
