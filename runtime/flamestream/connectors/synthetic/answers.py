"""The answers of a graph's call (`stream.call`) as a source: its worker makes them itself, and no producer
reads any.

Does not: call anything (node/calls/caller.py).
"""

from typing import Final

from flamestream.connectors.kit import connector as kit
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.model.errors import Bug
from flamestream.model.time import Time
from flamestream.ports import Producer


class AnswersSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A call of the graph."""

    fronts: int
    """The number of parts that its requests are worked on in."""

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(
            timed=False, run_length=0, replayable=False, bounded=False, fronts=self.fronts
        )

    def producer(self, context: kit.SourceContext) -> Producer:
        return NoProducer()


class NoProducer:
    """`ports.Producer` of a front whose records its worker makes."""

    def read(self, action: ReadRun) -> None:
        raise Bug(f"answers are in their journal, but a producer was asked for {action}")

    def follow(self, action: Follow) -> None:
        raise Bug(f"a worker makes its answers, but a producer was asked for {action}")

    def pull(self, action: Pull) -> None:
        raise Bug(f"a worker makes its answers, but a producer was asked for {action}")

    def durable(self, time: Time, partition: str, upto: int) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """There is nothing open."""


ANSWERS: Final = kit.Connector("call", source=AnswersSpec)
