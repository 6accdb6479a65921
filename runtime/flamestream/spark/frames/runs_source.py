"""The input of a micro-batch query as a Python data source: Spark's offset log says which runs a batch has.

An offset is a cut and the sources' positions at it (connectors/files/windows.py), so a batch that is run
again after a crash has the same runs. What it gives are rows at the graph's first doors: the walk happens
where the records are read.

Keeps: what lies between two offsets never changes. Does not: hold anything that Spark's checkpoint does not.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from flamestream.connectors.files.windows import Cut, Planner
from flamestream.model.time import FrontId, Time
from flamestream.spark.frames.inputs import planner_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.rows import SPARK_SCHEMA
from flamestream.spark.frames.tasks import Meaning, walked


class RunsSource(DataSource):
    """Made for one job by `source_for`."""

    job: ClassVar[FrameJob]
    meaning: ClassVar[Meaning]
    most_runs: ClassVar[int]
    first: ClassVar[Cut | None] = None
    """Where a query without a checkpoint begins: the committed cut."""

    @classmethod
    def name(cls) -> str:
        return "flamestream-runs"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return RunsReader(self.job, self.meaning, self.most_runs, self.first)


class RunsReader(DataSourceStreamReader):
    """Reads the runs of one query's batches."""

    def __init__(self, job: FrameJob, meaning: Meaning, most_runs: int, first: Cut | None) -> None:
        self._vertices = {each.source.front.front: each.vertex for each in job.inputs}
        self._planner: Planner = planner_of(job.inputs, most_runs)
        self._meaning, self._first = meaning, first

    def initialOffset(self) -> dict[str, Any]:
        return offset_of(self._first or self._planner.begin())

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return offset_of(self._planner.next(cut_of(start)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pieces = self._planner.pieces(cut_of(start), cut_of(end).time)
        return [InputPartition((self._vertices[front], piece)) for front, (piece, _) in pieces.items()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return walked(self._meaning, [partition.value])


def source_for(job: FrameJob, meaning: Meaning, most_runs: int, first: Cut | None) -> type[RunsSource]:
    """A class of its own for Spark to pickle, with what it has to know."""
    return type(
        "JobRuns", (RunsSource,), {"job": job, "meaning": meaning, "most_runs": most_runs, "first": first}
    )


def offset_of(cut: Cut) -> dict[str, Any]:
    """A cut as Spark's offset: its JSON has no number above 2^53."""
    return {
        "cut": str(cut.time),
        "at": {str(front): ",".join(map(str, position)) for front, position in cut.positions.items()},
    }


def cut_of(offset: dict[str, Any] | str) -> Cut:
    """The cut that `offset_of` wrote."""
    found: dict[str, Any] = json.loads(offset) if isinstance(offset, str) else offset
    positions = {FrontId(int(front)): tuple(map(int, text.split(","))) for front, text in found["at"].items()}
    return Cut(Time(int(found["cut"])), positions)
