"""The functions that Spark calls in its tasks: pickled by reference to this module, with what they need to
know as fields.

Does not: decide anything (pipeline.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flamestream.connectors.files.pieces import Piece
from flamestream.model.errors import Bug
from flamestream.model.meta import floor
from flamestream.model.time import FrontId
from flamestream.spark.frames import native
from flamestream.spark.frames.job_graph import JobGraph
from flamestream.spark.frames.kept_state import EarlierState, StatePlace
from flamestream.spark.frames.keyed import KeyedLevel
from flamestream.spark.frames.origins import Origins
from flamestream.spark.frames.stages import Stages, stages_of
from flamestream.spark.frames.walk import Walk


@dataclass(frozen=True, slots=True)
class Meaning:
    """Everything that decides the bytes of a result, the same in every task of a job."""

    graph: JobGraph
    slots: int
    fail: bool
    """`onError: fail`; else error items are results."""
    debug: bool = False
    keep_state: bool = False
    """Every key that was touched ends with a row of its state."""
    sources: tuple[tuple[FrontId, str], ...] = ()
    """Which source a front stamps for; without it, front `i` for the graph's source number `i`."""

    def walk(self) -> Walk:
        """A walk of the graph for one task."""
        graph = self.graph.get()
        return Walk(graph, self.slots, Origins(graph, dict(self.sources)), fail=self.fail, debug=self.debug)

    def native(self) -> native.NativeWalk:
        """A walk of the graph for one task, in the kernel."""
        graph = self.graph.get()
        return native.NativeWalk(
            graph, self.slots, Origins(graph, dict(self.sources)), fail=self.fail, debug=self.debug
        )


@dataclass(frozen=True, slots=True)
class ReadPieces:
    """Reads the pieces whose numbers arrive, and takes their records to the first doors."""

    meaning: Meaning
    pieces: Sequence[tuple[int, Piece]]
    """(source vertex, piece)."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return walked(self.meaning, (self.pieces[number] for number in numbers))


def walked(meaning: Meaning, pieces: Iterable[tuple[int, Piece]]) -> Iterator[Any]:
    """The rows that the records of (source vertex, piece) come to."""
    walk = meaning.native() if native.THERE else meaning.walk()
    for vertex, piece in pieces:
        for time, first, records in piece.runs():
            yield from walk.enter(
                vertex, floor(time), first, records if isinstance(records, list) else list(records)
            )
    yield from walk.end()


def slots_of_partition(partition: int, slots: int, partitions: int) -> list[int]:
    """The slots whose rows `pipeline.placed` puts there."""
    return [slot for slot in range(slots) if slot * partitions // slots == partition]


def task_slots(slots: int, partitions: int) -> list[int]:
    """The slots of the task that asks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise Bug("a task of a DataFrame job runs outside Spark")
    return slots_of_partition(context.partitionId(), slots, partitions)


@dataclass(frozen=True, slots=True)
class RunLevel:
    """Does the stages of one level on sorted rows."""

    meaning: Meaning
    level: int
    partitions: int
    earlier: StatePlace | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        stages = stages_of(self.meaning.graph.get())
        here = stages.at(self.level)
        if (
            native.THERE
            and not self.meaning.keep_state
            and self.earlier is None
            and stages.cyclic.isdisjoint(here)
        ):
            walk = self.meaning.native()
            return chain(walk.fold(batches, here), walk.end())
        return self._by_reference(batches, stages)

    def _by_reference(self, batches: Iterable[Any], stages: Stages) -> Iterator[Any]:
        walk, meaning = self.meaning.walk(), self.meaning
        earlier = (
            None
            if self.earlier is None
            else EarlierState(self.earlier, task_slots(meaning.slots, self.partitions))
        )
        keyed = KeyedLevel(
            meaning.graph.get(),
            stages,
            self.level,
            walk,
            keep_state=meaning.keep_state,
            debug=meaning.debug,
            earlier=earlier,
        )
        return keyed.process(batches)
