"""Entrances: where the records of each front enter, as events, and which of a run's tell progress.

Keeps: progress depends on the run alone (!), so every replay and every runner tells the same; a run tells it a
bounded number of times. Does not: say what progress is (event_time.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final, TypeVar

from flamestream.model.event_decoder import Decoder
from flamestream.model.event_time import (
    END_OF_TIME,
    ENDED,
    FOUND,
    IDLE,
    Marker,
    Progress,
    Stamped,
    Timing,
    Undecoded,
    least_by_source,
)
from flamestream.model.failure import FATAL
from flamestream.model.graph import Graph
from flamestream.model.ids import NOTE, SourceName
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, Time, front_of, timestamp_of

Run = TypeVar("Run", bound=Sequence[Any])
MOST_MARKS: Final = 8
"""Records of a run that tell progress, at most."""
MOST_TOLD: Final = 16
"""Times that such a record tells where some may be too far ahead to count."""
_NOT_READ: Final = {Marker, ErrorValue}
"""Classes of what a source gives that is no record."""


def partition_of(run: Sequence[Any]) -> str:
    """The partition of a run, where whoever gave it says so (`core.worker.front.RunRecords`)."""
    said = getattr(run, "run", None)
    return "" if said is None else str(said.partition)


class Entrances:
    """Where the runs of a job enter. Those of sources without event time enter as they are."""

    def __init__(self, graph: Graph, sources: Mapping[FrontId, str]) -> None:
        """`sources`: of all fronts of the job."""
        self.timings = {
            SourceName(source.name): source.timing for source in graph.sources if source.timing is not None
        }
        """The event time of each source that has one."""
        fronts = Counter(sources.values())
        timed = ((front, SourceName(name)) for front, name in sources.items() if name in self.timings)
        self._doors = {
            front: Entrance(self.timings[name], name, front, fronts[name]) for front, name in timed
        }

    def entering(self, time: Time, partition: str, records: Run) -> Run | list[Any]:
        """The records of the whole run at `time` as they enter."""
        door = self._doors.get(front_of(time))
        return records if door is None else door.entering(time, partition, records)

    def event_times(self, fronts: Iterable[FrontId]) -> dict[SourceName, int | None]:
        """How far the last of these fronts has come, by source; None: one has told nothing."""
        doors = (self._doors[front] for front in fronts if front in self._doors)
        return least_by_source((door.source, door.newest) for door in doors)

    def idle(self, fronts: Iterable[FrontId]) -> dict[SourceName, int]:
        """Partitions of these fronts that are idle, by source, where there are any."""
        count = Counter[SourceName]()
        for door in (self._doors[front] for front in fronts if front in self._doors):
            count[door.source] += len(door.idle)
        return {source: number for source, number in count.items() if number}


class Entrance:
    """Where the records of one front enter: as events, those that move progress `Stamped`."""

    def __init__(self, timing: Timing, source: SourceName, front: FrontId, fronts: int) -> None:
        self._timing, self.source, self._front, self._fronts = timing, source, front, fronts
        self.idle = set[str]()
        """Partitions that nobody waits for, for people too."""
        self.newest: int | None = None
        """The greatest progress told here, for people: nothing is decided by it (!). END_OF_TIME: the input
        has ended."""

    def entering(self, time: Time, partition: str, records: Sequence[Any]) -> list[Any]:
        """The records of a whole run, in order. A run without any tells that its partition is there."""
        if self._timing.by_arrival:
            return self._arriving(timestamp_of(time), list(records) or [FOUND])
        # (!) A file that was read would hold the mark back for ever, and be remembered as long.
        partition = "" if self._timing.in_sequence else partition
        self.idle.discard(partition)
        # (!) Nothing comes of a note, and a mark would wait for it; but its front has told something.
        found = IDLE if partition.startswith(NOTE) else FOUND
        entering, times = self._read(partition, list(records) or [found])
        moves = list(self._moves(times))
        for group in _thinned(moves):
            index, told = group[-1][0], self._times(time for _, time in group)
            self.newest = told[0] if self.newest is None else max(told[0], self.newest)
            entering[index] = Stamped(
                entering[index], Progress(self.source, self._front, partition, self._fronts, told)
            )
        return entering

    def _arriving(self, time: int, run: list[Any]) -> list[Any]:
        """A run whose first item tells when it arrived: for all of its front, whose times only grow."""
        entering = [item if type(item) in (Marker, ErrorValue) else self._decoded(item) for item in run]
        if (
            first := next(
                (index for index, item in enumerate(entering) if type(item) is not ErrorValue), None
            )
        ) is not None:
            ended = type(run[first]) is Marker and run[first] == ENDED
            self.newest = END_OF_TIME if ended else time - time % self._timing.step
            entering[first] = Stamped(
                entering[first], Progress(self.source, self._front, "", self._fronts, (self.newest,))
            )
        return entering

    def _read(self, partition: str, records: list[Any]) -> tuple[list[Any], Sequence[int | None]]:
        """Entering items of the records, and the event time that each tells, if it does."""
        events = self._decoded_all(records)
        if events is not None and (times := self._timing.time.of_all(events)) is not None:
            return events, times
        read = [self._entering(partition, record) for record in records]
        return [event for event, _ in read], [time for _, time in read]

    def _decoded_all(self, records: list[Any]) -> list[Any] | None:
        """All records at once; None if each must be read alone."""
        decode = self._timing.decode
        if decode is None:
            return records
        try:
            if isinstance(decode, Decoder):
                return decode.of_all(records)
            # No `map`: a StopIteration of the function would end it in silence (!).
            return None if _NOT_READ & set(map(type, records)) else [decode(record) for record in records]
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the record at fault is read again, alone)
            return None

    def _moves(self, times: Iterable[int | None]) -> Iterator[tuple[int, int]]:
        """(index, progress) of the records that move it."""
        late, step, any_counts = self._timing.late, self._timing.step, self._timing.max_ahead is None
        low = high = 0  # times from here to there move nothing
        for index, time in enumerate(times):
            if time is not None and not low <= time < high:
                progress = (time - late) // step * step
                # With `max_ahead` a greater time may not count, and a smaller one behind it must.
                low, high = -END_OF_TIME if any_counts else progress + late, progress + late + step
                yield index, progress

    def _times(self, moves: Iterable[int]) -> tuple[int, ...]:
        return (max(moves),) if self._timing.max_ahead is None else tuple(nlargest(MOST_TOLD, set(moves)))

    def _told(self, partition: str, marker: Marker) -> Progress:
        ended = marker == ENDED
        if ended:
            self.newest = END_OF_TIME
            self.idle.clear()
        elif marker == IDLE and not partition.startswith(NOTE):
            self.idle.add(partition)
        return Progress(
            self.source, self._front, partition, self._fronts, (END_OF_TIME,) if ended else (), marker == IDLE
        )

    def _entering(self, partition: str, record: Any) -> tuple[Any, int | None]:
        """Entering item of a record, and its event time; None if it says none: then it is an error item where
        its time is wanted."""
        if type(record) is Marker:
            return Stamped(record, self._told(partition, record)), None
        if type(record) is ErrorValue:
            return record, None
        if type(event := self._decoded(record)) is Undecoded:
            return event, None
        try:
            return event, self._timing.time(event)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the vertex that reads its time reports it)
            return event, None

    def _decoded(self, record: Any) -> Any:
        try:
            return record if self._timing.decode is None else self._timing.decode(record)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 (whatever user code raises; the vertex that reads the record reports it)
            return Undecoded(record)


def _thinned(moves: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """(index, time) of the records that move progress, in groups: the last of each tells it. A mark goes to
    every shard of keys, so a run with a step at every record must not lead to one at each (!)."""
    groups = min(len(moves), MOST_MARKS)
    return (
        moves[len(moves) * number // groups : len(moves) * (number + 1) // groups] for number in range(groups)
    )
