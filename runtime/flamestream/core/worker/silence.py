"""Silence: since when each partition of a front has brought nothing, so that marks need not wait for it.

It is judged by the clock, so that it has been so is a run in the journal, and a replay does not ask again (!).

Keeps: each silence is told once. Does not: write it (fronts.py).
Source: rule 21 of the design.
"""

from collections.abc import Iterable

from flamestream.model.duration import Micros
from flamestream.model.ids import Partition
from flamestream.model.time import Timestamp


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
        """Those of `partitions` (of none, the front itself) that have become idle."""
        found = [partition for partition in partitions or (Partition(""),) if self._is_idle(partition, now)]
        self._told.update(found)
        return found

    def _is_idle(self, partition: Partition, now: Timestamp) -> bool:
        return partition not in self._told and now >= self._since.setdefault(partition, now) + self._after
