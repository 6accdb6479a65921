"""Paced: a producer that gives the records of one partition at moments of its own.

Does not: say when a record is due, or what it is (generator.py, clock.py).
"""

from flamestream.connectors.kit.credit import THE_PARTITION, CreditProducer
from flamestream.core.protocol.actions import Follow
from flamestream.model.ids import Offset
from flamestream.model.time import FrontId
from flamestream.ports import Post, Reactor, Timer


class PacedProducer(CreditProducer):
    """The part of a `ports.Producer` that begins, waits and ends. `_turn` gives what is due, and says when to
    be asked again."""

    def __init__(self, front: FrontId, post: Post, reactor: Reactor) -> None:
        super().__init__(front, post, reactor)
        self._next = 0
        """The offset of the next record."""
        self._timer: Timer | None = None

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._next = action.offsets.get(THE_PARTITION, Offset(0))
            self._begin()
            self._following = True
            self._soon()

    def close(self) -> None:
        self._following = False
        self._cancel()

    def _begin(self) -> None:
        """Hook for what a subclass does before the first turn."""

    def _again_after(self, seconds: float) -> None:
        self._cancel()
        self._timer = self._reactor.later(max(0.0, seconds), self._soon)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
