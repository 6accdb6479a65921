"""Balance: which slots should move when one worker has more to do than the others.

Workers tell what their slots cost them (messages.Busy). A worker that stays a quarter above the mean for long
gives slots to those with the least to do, if that takes a tenth off the fullest: a few slots, by what they
cost, for a slot of frequent keys may cost more than ten others.

>>> a, b = WorkerId("a"), WorkerId("b")
>>> loads = Loads(slots=(50, 30, 10, 10), own={a: 0, b: 0})
>>> fullness([a, a, b, b], loads)
1.6
>>> levelled([a, a, b, b], loads)
('a', 'b', 'b', 'b')

Keeps: owners change only when the fullest of the next layout has a tenth less than that of this one, and not
again before it was a quarter above the mean for as long as before; what is kept is bounded by the slots. Does
not: move anything (moving.py), or read a clock: time is what the reports cover. Source: design, "Balance".
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flamestream.core.protocol.messages import Busy
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.layout import Layout

ABOVE: Final = 1.25
"""The fullest worker over the mean, above which it counts as too full."""
GAIN: Final = 0.1
"""The share of its load that the fullest must lose, or nothing moves."""
LEAST_SHARE: Final = 0.25
"""A fullest worker that is busy for less of the time holds up nobody."""
ROUNDS: Final = 5
"""As often the fullest is looked for within the time for which it must be too full."""
NEAR: Final = 1.02
"""The fullest worker over the mean, below which no slot is worth its move."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Microseconds of one stretch of time: of each slot, and of each worker beside its slots."""

    slots: Sequence[int]
    own: Mapping[WorkerId, int]

    def of_workers(self, owners: Sequence[WorkerId]) -> dict[WorkerId, int]:
        """The load of each worker, if the slots were `owners`'."""
        found = dict(self.own)
        for owner, load in zip(owners, self.slots, strict=True):
            found[owner] += load
        return found


def fullness(owners: Sequence[WorkerId], loads: Loads) -> float:
    """The load of the fullest worker over the mean; 1.0 where nobody does anything."""
    of_workers = loads.of_workers(owners).values()
    whole = sum(of_workers)
    return max(of_workers) * len(of_workers) / whole if whole else 1.0


def levelled(owners: Sequence[WorkerId], loads: Loads) -> tuple[WorkerId, ...]:
    """Owners among whom the load is nearly even: slot after slot goes from the fullest to the emptiest
    worker, of those it has the one that comes nearest to half of what lies between them."""
    found, of_workers = list(owners), loads.of_workers(owners)
    mean = sum(of_workers.values()) / len(of_workers)
    # each move makes two workers more alike; by name where they have as much, so that all find the same
    for _ in range(len(found)):
        full = max(of_workers, key=lambda worker: (of_workers[worker], worker))
        empty = min(of_workers, key=lambda worker: (of_workers[worker], worker))
        between = of_workers[full] - of_workers[empty]
        mine = [slot for slot, owner in enumerate(found) if owner == full]
        slots = [slot for slot in mine if 0 < loads.slots[slot] < between]
        # (!) its last slot stays: message ids have room for as many workers as there are slots
        if of_workers[full] <= NEAR * mean or not slots or len(mine) == 1:
            break
        slot = min(slots, key=lambda slot: (abs(between - 2 * loads.slots[slot]), slot))
        found[slot] = empty
        of_workers[full] -= loads.slots[slot]
        of_workers[empty] += loads.slots[slot]
    return tuple(found)


def without(owners: Sequence[WorkerId], stay: Sequence[WorkerId], loads: Loads) -> tuple[WorkerId, ...]:
    """Owners of whom all `stay`: the others' slots go to those who have least to do, and then it is made
    even."""
    found, counts = list(owners), Counter(owners)
    left = Loads(loads.slots, {worker: loads.own[worker] for worker in stay})
    of_workers = dict(left.own)
    for slot, owner in enumerate(owners):
        if owner in of_workers:
            of_workers[owner] += loads.slots[slot]
    free = [slot for slot, owner in enumerate(owners) if owner not in of_workers]
    for slot in sorted(free, key=lambda slot: (-loads.slots[slot], slot)):
        # by number of slots where they have as much to do: it is all 0 where nothing was told
        least = min(stay, key=lambda worker: (of_workers[worker], counts[worker], worker))
        found[slot] = least
        of_workers[least] += loads.slots[slot]
        counts[least] += 1
    return levelled(found, left)


@dataclass(frozen=True, slots=True)
class HotSlot:
    """A slot that has more to do than a worker has on average: no layout makes its worker as full as the
    others."""

    slot: Slot
    times: float
    """Its load over the mean of the workers'."""
    key: str
    """The key that has most of it; "" if none has half, or nobody knows."""


class WorkerLoad:
    """The sum of what one worker has told."""

    def __init__(self) -> None:
        self.us = self.busy_us = self.rest_us = self.held_us = 0
        self.slots = Counter[Slot]()
        self.named = Counter[Slot]()
        """The rests of those reports that say what a slot costs: nothing of these is its."""
        self.keys: dict[Slot, str] = {}

    def add(self, told: "Busy | WorkerLoad") -> None:
        """Take a report, or the sum of several."""
        self.us += told.us
        self.busy_us += told.busy_us
        self.rest_us += told.rest_us
        self.held_us += told.held_us
        self.slots.update(dict(told.slots))
        rests = told.named if isinstance(told, WorkerLoad) else {slot: told.rest_us for slot, _ in told.slots}
        self.named.update(rests)
        self.keys.update(told.keys)

    @property
    def share(self) -> float:
        """Its busy time over all time."""
        return self.busy_us / max(1, self.us)


def loads_of(told: Mapping[WorkerId, WorkerLoad], layout: Layout) -> Loads:
    """The loads as workers of `layout` have told them; 0 of those that have told nothing."""
    slots, own = [0] * len(layout.owners), dict.fromkeys(layout.workers, 0)
    for worker in layout.workers:
        if (load := told.get(worker)) is None:
            continue
        mine = layout.slots_of(worker)
        # (!) report by report: which slots cost most differs from one to the next, and who was named once would
        # leave all that others cost to those that never were
        unnamed = {slot: load.rest_us - load.named[slot] for slot in mine}
        whole = max(1, sum(unnamed.values()))
        for slot in mine:
            slots[slot] = load.slots[slot] + round(load.rest_us * unnamed[slot] / whole)
        own[worker] = max(0, load.busy_us - sum(slots[slot] for slot in mine))
    return Loads(slots, own)


class Balance:
    """The reports of the workers of one layout, and what is too much. `patience_us`: for so long the fullest
    must be too full; None: slots stay where they are."""

    def __init__(self, patience_us: int | None) -> None:
        self._patience = patience_us
        self.hot: Sequence[HotSlot] = ()
        """Slots that alone made a worker too full when that was looked at last, the hottest first. They stay
        so in another layout."""
        self.restart()

    def restart(self) -> None:
        """Begin anew: another layout, or another coordinator's attempt."""
        self._round: dict[WorkerId, WorkerLoad] = {}
        """The reports of each worker since the fullest was last looked for."""
        self._forget()

    def _forget(self) -> None:
        self._above_us = 0
        """Since how long the fullest is too full."""
        self._stretch: dict[WorkerId, WorkerLoad] = {}
        """The reports since then."""

    def hear(self, worker: WorkerId, report: Busy, layout: Layout) -> None:
        """Take the report of a worker of `layout`."""
        workers = layout.workers
        if self._patience is None or len(workers) < 2:
            return
        self._round.setdefault(worker, WorkerLoad()).add(report)
        # (!) not report by report: for a moment somebody is always too full, or not too full any more
        if all(name in self._round and self._round[name].us * ROUNDS >= self._patience for name in workers):
            told, self._round = self._round, {}
            self._take({name: told[name] for name in workers}, layout)

    @property
    def is_due(self) -> bool:
        """Whether the fullest worker has been too full for long enough."""
        return self._patience is not None and self._above_us >= max(1, self._patience)

    def target(self, layout: Layout) -> tuple[WorkerId, ...] | None:
        """The owners that the slots should get; None: it is not due, or not worth a move."""
        if not self.is_due:
            return None
        loads = self.loads(layout)
        better = levelled(layout.owners, loads)
        worth = fullness(better, loads) <= (1 - GAIN) * fullness(layout.owners, loads)
        return better if worth else None

    def loads(self, layout: Layout) -> Loads:
        """The sums of this stretch: all 0 while nobody is too full."""
        return loads_of(self._stretch, layout)

    def _take(self, told: Mapping[WorkerId, WorkerLoad], layout: Layout) -> None:
        """A round is over: is the fullest too full, as before?"""
        shares = [each.share for each in told.values()]
        fullest, mean = max(shares), sum(shares) / len(shares)
        if fullest < LEAST_SHARE or fullest <= ABOVE * mean:
            self._forget()
            self.hot = ()
            return
        self._above_us += min(each.us for each in told.values())
        for worker, each in told.items():
            self._stretch.setdefault(worker, WorkerLoad()).add(each)
        if self.is_due:
            self.hot = self._hot(layout)

    def _hot(self, layout: Layout) -> list[HotSlot]:
        loads = self.loads(layout)
        of_workers = loads.of_workers(layout.owners)
        mean = sum(of_workers.values()) / len(of_workers)
        found = [(load / mean, Slot(slot)) for slot, load in enumerate(loads.slots) if load > mean]
        keys = {slot: key for each in self._stretch.values() for slot, key in each.keys.items()}
        return [HotSlot(slot, times, keys.get(slot, "")) for times, slot in sorted(found, reverse=True)]
