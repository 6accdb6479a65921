"""The readings of a graph's clock (`graph.clock`) as records: moments that are whole multiples of `every`.

A tick's offset is its number since 1970, so a replay goes on behind the last one that is journalled, and none comes twice. Ticks that
nobody could make (the job was down, or had no credit) are not made up for: the newest moment that has passed is the next.

Does not: decide what counts: a tick has entered when its journal entry has.
"""

from typing import Final

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.credit import THE_PARTITION, CreditProducer
from flamestream.core.protocol.actions import Follow, ReadRun
from flamestream.model.errors import Bug
from flamestream.model.ids import Offset
from flamestream.model.time import FrontId
from flamestream.model.values import EPOCH, MICROSECOND
from flamestream.ports import Post, Producer, Reactor, Timer

SIZE: Final = 8
"""What a tick counts for, in bytes of input."""


class ClockSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A clock of the graph."""

    every: int
    """Microseconds."""

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(timed=False, run_length=0, replayable=False, bounded=False, skips=True)

    def producer(self, context: kit.SourceContext) -> Producer:
        return ClockProducer(self.every, context.front, context.post, context.reactor)


class ClockProducer(CreditProducer):
    """`ports.Producer`."""

    def __init__(self, every: int, front: FrontId, post: Post, reactor: Reactor) -> None:
        super().__init__(front, post, reactor)
        self._every, self._next = every, 0
        self._timer: Timer | None = None

    def read(self, action: ReadRun) -> None:
        raise Bug(f"a clock's readings are in its journal, but it was asked for {action}")

    def follow(self, action: Follow) -> None:
        if self._adopt(action.fence):
            self._next = action.offsets.get(THE_PARTITION, Offset(0))
            self._following = True
            self._soon()

    def close(self) -> None:
        self._following = False
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        if not self._following:
            return
        newest = self._reactor.now() // self._every
        if newest >= self._next and self._records > 0:
            moment = EPOCH + newest * self._every * MICROSECOND
            self._next = newest + 1
            self._post_records(THE_PARTITION, newest, [moment], SIZE, end=Offset(self._next))
        if self._timer is not None:
            self._timer.cancel()
        wait = max(self._next, newest + 1) * self._every - self._reactor.now()
        self._timer = self._reactor.later(max(0, wait) / 1e6, self._soon)


CLOCK: Final = kit.Connector("clock", source=ClockSpec)
