"""A sink from inside a Spark task: the same consumer as the streaming engine's, called and waited for.

Keeps: one call in flight; an answer of `Fenced` or a failure is an exception. Waits are bounded: a consumer
that does not answer within `ANSWER_WITHIN` fails the task, and Spark tries it again.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    Event,
    LastBundle,
    SinkFailed,
    SinkFenced,
    SinkOpened,
)
from flamestream.loop.reactor import EpollReactor
from flamestream.model import errors
from flamestream.model.ids import Fence, SinkName, Slot, WorkerId

ANSWER_WITHIN: Final = 600.0
_ERRORS: Final = {
    "user": errors.UserError,
    "retryable": errors.Retryable,
    "corrupt": errors.Corrupt,
    "fenced": errors.Fenced,
}
E = TypeVar("E", SinkOpened, BundlesAcknowledged)


class TaskConsumer:
    """A sink's consumer under one fence."""

    def __init__(self, spec: dict[str, Any], sink: str, writer: str, job: str, fence: Fence) -> None:
        self._events: list[Event] = []
        self._reactor = EpollReactor()
        self._sink, self._fence = SinkName(sink), fence
        self._number = 0
        self._consumer = sinks.build(
            spec, self._sink, WorkerId(writer), job, self._events.append, self._reactor
        )

    def open(self, slots: Sequence[int]) -> Mapping[Slot, LastBundle]:
        """Refuse everything older, and say what each slot had last."""
        self._consumer.open(OpenSink(self._fence, self._sink, [Slot(slot) for slot in slots]))
        return self._await(SinkOpened).last

    def deliver(self, bundles: Sequence[Bundle]) -> None:
        """Durable when it returns."""
        self._number += 1
        self._consumer.deliver(Deliver(self._fence, self._sink, self._number, bundles))
        self._await(BundlesAcknowledged)

    def close(self) -> None:
        self._consumer.close()
        self._reactor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await(self, answer: type[E]) -> E:
        deadline = time.monotonic() + ANSWER_WITHIN
        late = self._reactor.later(ANSWER_WITHIN, lambda: None)  # so that a turn of the loop ends
        try:
            while time.monotonic() < deadline:
                self._reactor.turn()
                for event in self._taken():
                    if isinstance(event, answer):
                        return event
        finally:
            late.cancel()
        raise errors.Retryable(f"sink {self._sink!r} has not answered within {ANSWER_WITHIN:g} s")

    def _taken(self) -> list[Event]:
        events = self._events.copy()
        self._events.clear()
        for event in events:
            if isinstance(event, SinkFenced):
                raise errors.Fenced(
                    f"sink {self._sink!r} has been opened by a newer attempt than {self._fence}"
                )
            if isinstance(event, SinkFailed):
                raise _ERRORS.get(event.category, errors.Bug)(event.message)
        return events
