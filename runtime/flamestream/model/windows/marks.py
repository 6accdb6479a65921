"""Marks: the event time below which everything has come, as items of the total order.

    progress of partitions -> one reduce: the least of all -> a mark whenever that passes a step -> one to
    each shard

A mark has a place in the order of items, so a window closes at the same place at every replay, whatever is
late on the wire.

Keeps: marks only grow. A partition counts from the run that found it (!); an idle one, from its next record.
Without each front's first word there is no mark. Does not: close anything (process.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flamestream.model.collections import Map
from flamestream.model.duration import Micros, shown
from flamestream.model.event_time import END_OF_TIME, Progress, Stamped
from flamestream.model.graph import Graph
from flamestream.model.payload import payload_type
from flamestream.model.state_names import MARKS
from flamestream.model.stream import Stream

UNLIMITED: Final = 1 << 62


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

    keeps = "how far each partition has come, for ever"

    form = MARKS

    def __init__(self, sources: frozenset[str], max_ahead: Mapping[str, int], step: int) -> None:
        self._sources, self._max_ahead = sorted(sources), max_ahead
        self.written = f"the least event time of {', '.join(self._sources)}"
        # (!) By the step too: marks are whole ones.
        self.state_name = f"{self.written} in steps of {shown(Micros(step))}"

    def initial(self) -> Least:
        """Nothing is known."""
        return Least(Map(), Map(), None, False)

    def __call__(self, before: Least, progress: Progress) -> Least:
        place, fronts = (progress.source, progress.front, progress.partition), before.fronts
        if _is_known(before.partitions.get(place), progress):
            return replace(before, moved=False) if before.moved else before
        told, _ = fronts.get(progress.source, (Map(), 0))
        if progress.front not in told:
            fronts = fronts.set(progress.source, (told.set(progress.front, None), progress.fronts))
        partitions = before.partitions.set(place, self._time(before, progress, before.partitions.get(place)))
        if progress.times == (END_OF_TIME,):
            # A front tells its end once, for all of its partitions.
            for other in (other for other in before.partitions if other[:2] == place[:2]):
                partitions = partitions.set(other, END_OF_TIME)
        least = self._least(partitions, fronts)
        moved = least is not None and (before.mark is None or least > before.mark)
        return Least(partitions, fronts, least if moved else before.mark, moved)

    def _time(self, before: Least, progress: Progress, known: Any) -> Any:
        """How far the partition is: True if it is idle, None if that is not known."""
        if progress.idle:
            return True
        most = self._max_ahead.get(progress.source)
        # Before the first mark nothing is known that a time could be ahead of; and an end is no time.
        counts = most is None or before.mark is None or progress.times == (END_OF_TIME,)
        time = next((time for time in progress.times if counts or time <= before.mark + most), None)  # type: ignore[operator]
        # `type`, for True (idle) is an int to Python.
        return time if type(known) is not int else known if time is None else max(known, time)

    def _least(self, partitions: Map[Any, Any], fronts: Map[Any, Any]) -> int | None:
        for source in self._sources:
            # -1: a source of which nothing was told is never complete
            told, count = fronts.get(source, ((), -1))
            if len(told) != count:
                return None
        times = [time for time in map(partitions.get, partitions) if time is not True]
        return None if not times or None in times else min(times)


def _is_known(known: Any, progress: Progress) -> bool:
    """Whether it says nothing new of a partition that has come to `known`: so mostly, for each run tells its
    own."""
    # A time has been told, so its front has (!). `type`, for True (idle) is an int to Python. The end is told
    # of all partitions of a front.
    return (
        type(known) is int
        and not progress.idle
        and progress.times != (END_OF_TIME,)
        and all(time <= known for time in progress.times)
    )


def marks_of(graph: Graph, sources: frozenset[str]) -> Stream[Any]:
    """A mark for each shard, whenever the least event time of `sources` has passed a step. Each call adds a
    vertex of its own.

    What a mark leads to comes before the same mark of a later call, and before that of more sources, so what
    stands on windows still gets what those gave (!).
    """
    if sources not in graph.marks:
        begins: list[Stream[Any]] = [
            Stream(graph, vertex.id) for vertex in graph.sources if vertex.name in sources
        ]
        first, *others = begins
        ahead = {
            source.name: source.timing.max_ahead
            for source in graph.sources
            if source.timing and source.timing.max_ahead
        }
        entering = first.merge(*others) if others else first
        progress = entering.flat_map(progress_of)
        moved = progress.reduce(key=_one_key, combine=LeastOf(sources, ahead, graph.step), emit=_moved)
        graph.marks[sources] = moved, entering.vertex if others else progress.vertex
        _fewer_first(graph, sources)
    moved, _ = graph.marks[sources]
    return unlimited(moved.flat_map(ToShards(graph.shards)))


def _fewer_first(graph: Graph, sources: frozenset[str]) -> None:
    """A record tells its progress to the marks of few sources before those of more. What stands on windows
    has their sources at least, and may be the first of both to ask for marks."""
    told = {entrance: len(of) for of, (_, entrance) in graph.marks.items()}
    for source in graph.sources:
        if source.name in sources:
            source.outputs.sort(key=lambda target: told.get(target, 0))  # 0: the records themselves


def unlimited(stream: Stream[Any]) -> Stream[Any]:
    """The stream, without the graph's limits on what its last operation makes of one item: those are for
    users' functions (!)."""
    vertex = stream.graph.vertices[stream.vertex]
    vertex.max_results = vertex.max_result_bytes = UNLIMITED
    return stream


def progress_of(record: Any) -> tuple[Progress, ...]:
    """Progress of its partition that a record tells; () if it tells none."""
    return (record.progress,) if type(record) is Stamped else ()


def _moved(least: Least, _: Progress) -> int | None:
    return least.mark if least.moved else None


class ToShards:
    """The mark, for each shard, if it has moved."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self.written = "the mark for each shard"

    def __call__(self, moved: int | None) -> Iterator[Mark]:
        return iter(()) if moved is None else (Mark(moved, shard) for shard in range(self._shards))


def _one_key(_: Progress) -> None:
    return None
