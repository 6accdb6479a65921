"""The readings of a graph's clock (`graph.clock`) as records: moments that are whole multiples of `every`.

A tick's offset is its number since 1970, so a replay goes on behind the last one that is journalled, and none
comes twice. Ticks that nobody could make (the job was down, or had no credit) are not made up for: the newest
moment that has passed is the next.

Does not: decide what counts: a tick has entered when its journal entry has.
"""

from typing import Final

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.credit import THE_PARTITION
from flamestream.connectors.synthetic.paced import PacedProducer
from flamestream.core.protocol.actions import ReadRun
from flamestream.model.errors import Bug
from flamestream.model.ids import Offset
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.time import FrontId
from flamestream.ports import Post, Producer, Reactor

SIZE: Final = 8
"""Bytes of input that a tick counts for."""


class ClockSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A clock of the graph."""

    every: int
    """Microseconds."""

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(timed=False, run_length=0, replayable=False, bounded=False, skips=True)

    def producer(self, context: kit.SourceContext) -> Producer:
        return ClockProducer(self.every, context.front, context.post, context.reactor)


class ClockProducer(PacedProducer):
    """`ports.Producer`."""

    def __init__(self, every: int, front: FrontId, post: Post, reactor: Reactor) -> None:
        super().__init__(front, post, reactor)
        self._every = every

    def read(self, action: ReadRun) -> None:
        raise Bug(f"a clock's readings are in its journal, but it was asked for {action}")

    def _turn(self) -> None:
        if not self._following:
            return
        # A clock that was set back gives nothing until it has passed the last moment that was given.
        newest = self._reactor.now() // self._every
        if newest >= self._next and self._records > 0:
            moment = EPOCH + newest * self._every * MICROSECOND
            self._next = newest + 1
            self._post_records(THE_PARTITION, newest, [moment], SIZE, end=Offset(self._next))
        self._again_after((max(self._next, newest + 1) * self._every - self._reactor.now()) / 1e6)


CLOCK: Final = kit.Connector("clock", source=ClockSpec)
