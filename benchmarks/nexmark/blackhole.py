"""A sink that takes everything and keeps nothing, as Flink's of this name: it costs a benchmark nothing.

    sinks: {results: {connector: {class: nexmark.blackhole:Blackhole}}}

It fences nothing, and says it does, since a job that promises exactly once asks for that. Does not: belong
into any job but a benchmark's.
"""

from typing import Any

from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model.ids import Slot


class Blackhole:
    """`Blocking`, without anything to wait for."""

    fences = True

    def __init__(self, settings: dict[str, Any], sink: str, writer: str, job: str) -> None:
        """It has no settings."""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        return {}

    def deliver(self, action: Deliver) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing is held."""
