"""Silence: what a front has to say while nothing comes, so that marks need not wait for it.

A partition that has brought nothing for a while is idle; and where event time is when records arrive, it
passes by itself. Both are judged by the clock, so that it was so is a run in the journal, and a replay does
not ask again (!).

Keeps: each silence, and each step of the clock, is told once. Does not: write it (fronts.py).
Source: rule 21 of the design.
"""

from collections.abc import Iterable, Iterator

from flamestream.model.duration import Micros
from flamestream.model.event_time import IDLE, PASSED, Marker, Timing
from flamestream.model.ids import NOTE, Partition
from flamestream.model.time import Time, Timestamp, timestamp_of


class Silence:
    """The partitions of one front."""

    def __init__(self, after: Micros) -> None:
        """A partition is idle when it has brought nothing for `after`."""
        self._after = after
        self._since: dict[Partition, Timestamp] = {}
        self._told: set[Partition] = set()

    def heard(self, partition: Partition, now: Timestamp) -> None:
        """Records of `partition` have come."""
        self._since[partition] = now
        self._told.discard(partition)

    def idle(self, now: Timestamp, partitions: Iterable[Partition]) -> list[Partition]:
        """Partitions among `partitions` (if there are none, the front itself) that have become idle."""
        found = [partition for partition in partitions or (Partition(""),) if self._is_idle(partition, now)]
        self._told.update(found)
        return found

    def _is_idle(self, partition: Partition, now: Timestamp) -> bool:
        # one that has brought nothing yet is silent from the first look on
        return partition not in self._told and now >= self._since.setdefault(partition, now) + self._after


class Passing:
    """The steps of the clock that the runs of one front have told, by their times."""

    def __init__(self, step: Micros) -> None:
        self._step, self._told = step, 0

    def told(self, run: Time) -> None:
        """A run has entered: it tells the step that it is in."""
        # by the run's own time and not the clock's: a replay tells the same steps (!)
        self._told = timestamp_of(run) // self._step

    def due(self, now: Timestamp) -> bool:
        """Whether the clock is in a step that no run has told."""
        return now // self._step > self._told

    @property
    def next(self) -> Timestamp:
        """When that will be so."""
        return Timestamp((self._told + 1) * self._step)


class Markers:
    """The markers of one front: runs without records, which say what became so while nothing came."""

    def __init__(self, timing: Timing) -> None:
        self._silence = None if timing.idle is None else Silence(timing.idle)
        self._one = timing.in_sequence
        self._passing = Passing(timing.step) if timing.by_arrival else None

    def heard(self, partition: Partition, now: Timestamp) -> None:
        """Records of `partition` have come."""
        if self._silence is not None:
            self._silence.heard(Partition("") if self._one else partition, now)

    def entered(self, run: Time) -> None:
        """A run has entered."""
        if self._passing is not None:
            self._passing.told(run)

    def due(
        self, now: Timestamp, partitions: Iterable[Partition], *, drained: bool
    ) -> Iterator[tuple[Partition, Marker]]:
        """Markers that are due now, each with its partition. Each enters before the next is asked for: it
        tells a step of the clock as well (!)."""
        if self._silence is not None:
            known = () if self._one else [each for each in partitions if not each.startswith(NOTE)]
            yield from ((partition, IDLE) for partition in self._silence.idle(now, known))
        if self._passing is not None and not drained and self._passing.due(now):
            yield Partition(""), PASSED

    @property
    def next(self) -> Timestamp | None:
        """When the next step of the clock is to be told; None: never."""
        return None if self._passing is None else self._passing.next
