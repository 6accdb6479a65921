"""Outputs: the results of one worker's slots, for all sinks, in one attempt: barriers that hold them,
deliveries that hand them over.

    results -> barrier (until minimal time has passed them)
       -> delivery (until the consumer has acknowledged them) -> settled

Does not: order or drop results (barrier.py), cut bundles or filter a replay (delivery.py), talk to consumers,
or wait for commits (held_outputs.py does).
"""

from collections.abc import Iterable, Mapping

from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol.actions import Deliver
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import BundlesAcknowledged, SinkOpened
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model.ids import Epoch, Fence, SinkName
from flamestream.model.time import END, Time


class Outputs:
    """Barriers and deliveries of all sinks, by vertex number."""

    def __init__(
        self, fence: Fence, sinks: Mapping[int, SinkName], cut: Time, most_items: int, parts: Parts
    ) -> None:
        self.barriers = {number: parts.barrier() for number in sinks}
        self.deliveries = {number: parts.delivery(name, cut, most_items) for number, name in sinks.items()}
        self._fence = fence
        self._by_name = {delivery.sink: delivery for delivery in self.deliveries.values()}
        self.counts = dict.fromkeys(sinks, 0)
        """Results of each sink that were released."""
        self._bundles: dict[SinkName, int] = {}
        """Bundles in the newest call of each sink, until it is acknowledged."""

    def opened(self, event: SinkOpened, *, compare: bool) -> None:
        """A consumer says what it remembers."""
        self._by_name[event.sink].opened(event.last, compare)

    def acknowledged(self, event: BundlesAcknowledged) -> tuple[Time, int]:
        """A call is durable at its consumer: the time of its oldest result and its bundles; END and 0 if no
        news."""
        delivery = self._by_name[event.sink]
        # a second acknowledgement of a call finds none: its results were counted with the first
        bundles = self._bundles.pop(event.sink, 0) if event.number == delivery.number else 0
        # before the acknowledgement: while the call is in flight `settled` is the time of its oldest result
        news = (delivery.settled, bundles) if bundles else (END, 0)
        delivery.acknowledged(event.number)
        return news

    def release(self, minimal: Time) -> int:
        """Release what is below minimal time, which is final. How many results that are. Raises UserError if
        a replay differs from what was delivered."""
        count = 0
        for number, barrier in self.barriers.items():
            if released := barrier.release(minimal):
                count += len(released)
                self.counts[number] += len(released)
                self.deliveries[number].put(released)
            self.deliveries[number].passed(minimal)
        return count

    def calls(self) -> list[Deliver]:
        """The calls that consumers can be given now, one call in flight a sink."""
        calls = [(delivery, delivery.next_call()) for delivery in self.deliveries.values()]
        made = [
            Deliver(self._fence, delivery.sink, delivery.number, bundles)
            for delivery, bundles in calls
            if bundles is not None
        ]
        self._bundles.update((call.sink, len(call.bundles)) for call in made)
        return made

    @property
    def invalidated(self) -> int:
        """Results that were taken back before their release."""
        return sum(barrier.dropped for barrier in self.barriers.values())

    def settled(self, minimal: Time) -> Time:
        """All output below it is acknowledged: minimal time, or less."""
        # what is at or above it is not released, and no delivery knows of it
        settled = minimal
        for delivery in self.deliveries.values():
            settled = min(settled, delivery.settled)
        return settled

    def released(self) -> list[SlotOutput]:
        """How far each slot is."""
        return [output for delivery in self.deliveries.values() for output in delivery.outputs()]

    # --- where output waits for a commit (held_outputs.py); here it does not --------------------------------

    def resume(self, held: Iterable[Chain]) -> None:
        """Every worker is ready; `held` is what the snapshot holds for slots of this worker."""

    def prepare(self, epoch: Epoch) -> list[Row]:
        """The rows that the snapshot of `epoch` has to hold."""
        return []

    def needed(self, cut: Time) -> Time:
        """An epoch cut at `cut` is accepted when that much is settled (!)."""
        return cut

    def commit(self, cut: Time) -> None:
        """An epoch is committed at `cut`."""
