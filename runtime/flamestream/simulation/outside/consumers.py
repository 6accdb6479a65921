"""Simulated consumers: the outside of each sink, which keeps each slot's last bundle and refuses older
fences.

A delivery is atomic per slot. The consumer may be slow, may get a delivery twice, and may die between taking
one and acknowledging it; what it took stays. Whoever delivers sends the same bytes again until it hears an
answer. A consumer may lose the last bundles of a slot: then it says so if it is given what comes behind them,
and returns an older last bundle to whoever opens the slot.

Every bundle that is taken is shown to the invariants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    Event,
    LastBundle,
    SinkFailed,
    SinkFenced,
    SinkOpened,
)
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

RESEND_AFTER = 8
"""Times the usual delay: then a delivery without an answer is sent again."""


@dataclass(slots=True)
class SlotLog:
    """The memory of a consumer about one slot."""

    fence: Fence = NO_FENCE
    bundles: list[LastBundle] = field(default_factory=list)
    lossy: bool = False
    """It has lost bundles."""

    @property
    def last(self) -> LastBundle | None:
        """The newest bundle that it remembers."""
        return self.bundles[-1] if self.bundles else None


class ConsumerSite:
    """The outside of one sink. Its state survives its crashes."""

    def __init__(self, world: World, sink: SinkName, delay: int) -> None:
        self.world = world
        self.sink = sink
        self.slots: dict[Slot, SlotLog] = {}
        self.life = 0
        self.opened: Callable[[SinkName, Fence, Sequence[Slot]], None] = lambda sink, fence, slots: None
        self.taken: Callable[[SinkName, Fence, Bundle], None] = lambda sink, fence, bundle: None
        self.lost: Callable[[SinkName, Slot, Sequence[LastBundle]], None] = lambda sink, slot, bundles: None
        self.resend_after = delay * RESEND_AFTER
        """When a request without an answer is sent again."""
        self._delay = delay
        self._down_until = 0

    def open(self, fence: Fence, slots: Sequence[Slot]) -> dict[Slot, LastBundle] | None:
        """The last bundle of each, or None if one of them has seen a newer fence."""
        if any(self.refuses(fence, slot) for slot in slots):
            self.world.trace.cover("consumer.open fenced")
            return None
        self.opened(self.sink, fence, slots)
        last = {}
        for slot in slots:
            log = self.slots.setdefault(slot, SlotLog())
            log.fence = fence  # (!) from here on older ones are refused, for ever
            if log.last is not None:
                last[slot] = log.last
        return last

    def deliver(self, fence: Fence, bundles: Sequence[Bundle]) -> bool:
        """Take them, each atomically; what was there already is compared. False if the fence is old."""
        # All are asked before one is taken: what a zombie delivers changes no slot.
        if any(self.refuses(fence, bundle.slot) for bundle in bundles):
            self.world.trace.cover("consumer.delivery fenced")
            return False
        for bundle in bundles:
            self._take(fence, bundle)
        return True

    def lacks(self, bundles: Sequence[Bundle]) -> str:
        """A sentence about what it has lost before these; "" if nothing."""
        for bundle in bundles:
            log = self.slots.get(bundle.slot)
            if (
                log is not None
                and log.lossy
                and bundle.sequence > (last := log.last.sequence if log.last else 0) + 1
            ):
                return (
                    f"sink {self.sink!r} has lost data: slot {bundle.slot} ends at bundle {last}, and got "
                    f"{bundle.sequence}"
                )
        return ""

    def lose_random(self) -> bool:
        """Forget the last bundles of a slot. False if there are none."""
        slots = sorted(slot for slot, log in self.slots.items() if log.bundles)
        if not slots:
            return False
        slot = self.world.rng.choice(slots)
        log = self.slots[slot]
        kept = self.world.rng.randrange(max(0, len(log.bundles) - 3), len(log.bundles))
        lost, log.bundles, log.lossy = log.bundles[kept:], log.bundles[:kept], True
        self.lost(self.sink, slot, lost)
        return True

    def refuses(self, fence: Fence, slot: Slot) -> bool:
        """Whether `slot` has seen a newer fence."""
        log = self.slots.get(slot)
        return log is not None and fence < log.fence

    @property
    def down(self) -> bool:
        """Whether the consumer answers nobody now."""
        return self.world.now < self._down_until

    def time(self) -> int:
        """A delay of one way to or from it."""
        usual = self.world.between(self._delay // 2, 2 * self._delay)
        return usual * 15 if self.world.hits(Fault.CONSUMER_SLOW) else usual

    def crash(self) -> None:
        """Everybody's connection to it breaks; it is back soon, with what it took."""
        self.life += 1
        self._down_until = self.world.now + self.world.between(5, 40) * self._delay

    def _take(self, fence: Fence, bundle: Bundle) -> None:
        log = self.slots.setdefault(bundle.slot, SlotLog(fence))
        last = log.last
        if last is not None and bundle.sequence < last.sequence:
            self.world.trace.cover("consumer.old bundle")  # a duplicate that was overtaken by its successor
            return
        if last is not None and bundle.sequence == last.sequence:
            same = (bundle.t_last, bundle.items) == (last.t_last, last.items)
            self.world.require(
                same,
                "2 prefix",
                f"bundle {bundle.sequence} of slot {bundle.slot} of {self.sink} repeated with other bytes",
            )
            self.world.trace.cover("consumer.repeated bundle")
            return
        expected = 1 if last is None else last.sequence + 1
        self.world.require(
            bundle.sequence == expected,
            "2 prefix",
            f"bundle {bundle.sequence} of slot {bundle.slot} of {self.sink}, expected {expected}",
        )
        self.taken(self.sink, fence, bundle)
        log.bundles.append(LastBundle(bundle.sequence, bundle.t_last, bundle.items))


class Forgetful(ConsumerSite):
    """A consumer of the weakest kind that at-least-once allows: it knows no fences, remembers nothing, and
    takes whatever comes."""

    def open(self, fence: Fence, slots: Sequence[Slot]) -> dict[Slot, LastBundle] | None:
        """Nothing is remembered."""
        return {}

    def lose_random(self) -> bool:
        """Lose nothing: a consumer that remembers nothing cannot."""
        return False

    def deliver(self, fence: Fence, bundles: Sequence[Bundle]) -> bool:
        """Take them, also from a zombie, also again."""
        for bundle in bundles:
            self.taken(self.sink, fence, bundle)
        return True


class ConsumerPort:
    """The connection of one worker process to one consumer (`ports.Consumer`)."""

    def __init__(self, site: ConsumerSite, post: Callable[[Event], None]) -> None:
        self._site = site
        self._world = site.world
        self._post = post
        self._alive = True
        self._fence = NO_FENCE
        self._pending: OpenSink | Deliver | None = None

    def close(self) -> None:
        """The process is gone. What is on its way may still arrive."""
        self._alive = False

    def open(self, action: OpenSink) -> None:
        """Under a new fence; forgets what was under way for an older one."""
        self._fence = action.fence
        self._pending = action
        self._send(action)

    def deliver(self, action: Deliver) -> None:
        """Sent again, byte for byte, until it is answered."""
        busy = isinstance(self._pending, Deliver) and self._pending.fence == action.fence
        self._world.require(not busy, "8 bounds", f"a second delivery to {action.sink} is in flight")
        self._pending = action
        self._send(action)

    def _send(self, action: OpenSink | Deliver) -> None:
        if not self._alive or self._pending is not action:
            return
        self._world.after(self._site.time(), self._arrive, action)
        if self._world.hits(Fault.CONSUMER_DUPLICATE):
            self._world.after(2 * self._site.time(), self._arrive, action)
        self._world.after(self._site.resend_after + self._site.time(), self._send, action)

    def _arrive(self, action: OpenSink | Deliver) -> None:
        # Whether the sender lives is not asked: what is on its way arrives, a zombie's as well.
        site = self._site
        if site.down:  # whoever sent it hears nothing, and sends again
            return
        answer = self._open(action) if isinstance(action, OpenSink) else self._deliver(action)
        # Taken already: who sent it hears nothing, and sends the same bytes again.
        if self._world.hits(Fault.CONSUMER_CRASH):
            site.crash()
        else:
            self._world.after(site.time(), self._answered, action, answer, site.life)

    def _open(self, action: OpenSink) -> Event:
        last = self._site.open(action.fence, action.slots)
        return (
            SinkFenced(action.fence, action.sink)
            if last is None
            else SinkOpened(action.fence, action.sink, last)
        )

    def _deliver(self, action: Deliver) -> Event:
        site = self._site
        fenced = any(site.refuses(action.fence, bundle.slot) for bundle in action.bundles)
        if not fenced and (lost := site.lacks(action.bundles)):
            return SinkFailed(action.fence, action.sink, "corrupt", lost)
        taken = self._site.deliver(action.fence, action.bundles)
        return (
            BundlesAcknowledged(action.fence, action.sink, action.number)
            if taken
            else SinkFenced(action.fence, action.sink)
        )

    def _answered(self, action: OpenSink | Deliver, answer: Event, life: int) -> None:
        # Another life: the connection that the answer was to take broke with the crash.
        if self._alive and self._pending is action and life == self._site.life:
            self._pending = None
            self._post(answer)
