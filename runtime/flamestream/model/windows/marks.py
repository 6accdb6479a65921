"""Marks: the event time below which everything has come, as items of the total order.

    progress of partitions -> one reduce: the least of all -> a mark whenever that passes a step -> one to each shard

A mark has a place in the order of items, so a window closes at the same place at every replay, whatever is late on the wire.

Keeps: marks only grow. A partition counts from the run that found it (!); an idle one, from its next record. Without each front's first
word there is no mark. Does not: close anything (process.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flamestream.model.collections import Map
from flamestream.model.event_time import END_OF_TIME, Progress, Stamped
from flamestream.model.graph import Graph, Stream
from flamestream.model.payload import payload_type


@payload_type
@dataclass(frozen=True, slots=True)
class Mark:
    """Everything older than `time` that is in time has come, as far as `shard` is concerned."""

    time: int
    shard: int


@payload_type
@dataclass(frozen=True, slots=True)
class Least:
    """How far each partition is."""

    partitions: Map[Any, Any]
    """(source, front, partition) -> its time; None: not known; True: idle."""
    fronts: Map[Any, Any]
    """source -> fronts that have told something, and fronts there are."""
    mark: int | None
    moved: bool


class LeastOf:
    """The fold of progress: the least over all partitions of these sources."""

    def __init__(self, sources: frozenset[str], max_ahead: Mapping[str, int]) -> None:
        self._sources, self._max_ahead = sorted(sources), max_ahead
        self.written = f"the least event time of {', '.join(self._sources)}"

    def initial(self) -> Least:
        """Nothing is known."""
        return Least(Map(), Map(), None, False)

    def __call__(self, before: Least, progress: Progress) -> Least:
        if self._is_ahead(before, progress):
            return Least(before.partitions, before.fronts, before.mark, False)
        place, fronts = (progress.source, progress.front, progress.partition), before.fronts
        told, _ = fronts.get(progress.source, (Map(), 0))
        if progress.front not in told:
            fronts = fronts.set(progress.source, (told.set(progress.front, None), progress.fronts))
        known = before.partitions.get(place)
        time = True if progress.idle else progress.time if type(known) is not int else max(known, progress.time or known)
        partitions = before.partitions.set(place, time)
        if time == END_OF_TIME:
            for other in (other for other in before.partitions if other[:2] == place[:2]):
                partitions = partitions.set(other, time)
        least = self._least(partitions, fronts)
        if least is None or (before.mark is not None and least <= before.mark):
            return Least(partitions, fronts, before.mark, False)
        return Least(partitions, fronts, least, True)

    def _is_ahead(self, before: Least, progress: Progress) -> bool:
        most = self._max_ahead.get(progress.source)
        if most is None or before.mark is None or progress.time in (None, END_OF_TIME):
            return False
        return progress.time > before.mark + most

    def _least(self, partitions: Map[Any, Any], fronts: Map[Any, Any]) -> int | None:
        for source in self._sources:
            told, count = fronts.get(source, ((), -1))
            if len(told) != count:
                return None
        times = [time for time in map(partitions.get, partitions) if time is not True]
        return None if not times or None in times else min(times)


def marks_of(graph: Graph, sources: frozenset[str]) -> Stream[Any]:
    """A mark for each shard, whenever the least event time of `sources` has passed a step. Each call adds a vertex of its own.

    The order of calls matters: what a mark leads to comes before the same mark of a later call, so a window over
    windows still gets what those gave (!).
    """
    if (moved := graph.marks.get(sources)) is None:
        begins: list[Stream[Any]] = [Stream(graph, vertex.id) for vertex in graph.sources if vertex.name in sources]
        first, *others = begins
        ahead = {source.name: source.timing.max_ahead for source in graph.sources if source.timing and source.timing.max_ahead}
        progress = (first.merge(*others) if others else first).flat_map(progress_of)
        moved = graph.marks[sources] = progress.reduce(key=_one_key, combine=LeastOf(sources, ahead))
    return moved.flat_map(ToShards(graph.shards))


def progress_of(record: Any) -> tuple[Progress, ...]:
    """What a record tells of its partition's progress."""
    return (record.progress,) if type(record) is Stamped else ()


class ToShards:
    """The mark, for each shard, if it has moved."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self.written = "the mark for each shard"

    def __call__(self, least: Least) -> Iterator[Mark]:
        if least.moved:
            assert least.mark is not None
            for shard in range(self._shards):
                yield Mark(least.mark, shard)


def _one_key(_: Progress) -> None:
    return None
