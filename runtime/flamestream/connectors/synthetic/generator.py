"""The numbers 0, 1, 2, ... or a function of each: a source that every machine has.

A number is due at (number - first) / rate seconds after the source was told to follow; without a rate all are
due at once. What is due leaves within the credit. The function has to be pure: a number read again must give
the same payload.

Keeps: the payload depends on the number alone. Does not: journal: its front is timed, and the offset is the
number.
"""

from collections.abc import Callable
from typing import Any, Final

from flamestream.connectors.kit.credit import THE_PARTITION
from flamestream.connectors.kit.producer import payload_of_number
from flamestream.connectors.synthetic.paced import PacedProducer
from flamestream.core.protocol.actions import ReadRun
from flamestream.model.errors import Bug
from flamestream.model.time import FrontId
from flamestream.ports import Post, Reactor

MOST_A_TURN: Final = 512
RECORD_SIZE: Final = 8
"""Bytes of input that a number counts for."""


class GeneratorProducer(PacedProducer):
    """`ports.Producer`."""

    def __init__(
        self,
        count: int | None,
        rate: float | None,
        function: Callable[[int], Any] | None,
        front: FrontId,
        post: Post,
        reactor: Reactor,
    ) -> None:
        super().__init__(front, post, reactor)
        self._count, self._rate, self._function = count, rate, function
        self._first = self._began = 0

    def read(self, action: ReadRun) -> None:
        raise Bug(f"a generator has no journalled runs, but was asked for {action}")

    def _begin(self) -> None:
        self._first, self._began = self._next, self._reactor.instant()

    def _turn(self) -> None:
        if not self._following:
            return
        credit = min(self._records, -(-self._size // RECORD_SIZE))
        count = min(self._due(), credit, MOST_A_TURN)
        if count > 0:
            payloads = [
                payload_of_number(self._function, number) for number in range(self._next, self._next + count)
            ]
            self._post_records(THE_PARTITION, self._next, payloads, count * RECORD_SIZE)
            self._next += count
        if self._next == self._count:
            self._end()
        elif credit > count:
            self._wait()

    def _due(self) -> int:
        """The number of records that may leave now."""
        left = MOST_A_TURN if self._count is None else self._count - self._next
        if self._rate is None:
            return left
        elapsed = (self._reactor.instant() - self._began) / 1_000_000
        return min(left, self._first + int(elapsed * self._rate) + 1 - self._next)

    def _wait(self) -> None:
        if self._rate is None:
            self._soon()
            return
        due = self._began / 1_000_000 + (self._next - self._first) / self._rate
        self._again_after(due - self._reactor.instant() / 1_000_000)
