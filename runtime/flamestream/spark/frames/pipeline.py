"""The pipeline: a graph over bounded input as one DataFrame of results.

    pieces of the input -> walk -> shuffle by slot, sort by key and meta -> level 1 -> ... -> rows for sinks

Nothing is collected and nothing cached: each row is computed once, and what a later level needs passes
through the earlier ones.

Keeps: the rows for a sink, in the order of their metas, are what the reference interpreter gives it, byte for
byte. Does not: deliver (delivering.py), or know where input comes from (connectors/files/pieces.py).
"""

from collections.abc import Sequence
from typing import Any

from flamestream.connectors.files.pieces import Piece
from flamestream.spark.frames.kept_state import StatePlace
from flamestream.spark.frames.keyed import stage_column
from flamestream.spark.frames.rows import SPARK_SCHEMA
from flamestream.spark.frames.stages import stages_of
from flamestream.spark.frames.tasks import Meaning, ReadPieces, RunLevel


def results_of(
    spark: Any,
    meaning: Meaning,
    pieces: Sequence[tuple[int, Piece]],
    *,
    partitions: int,
    earlier: StatePlace | None = None,
) -> Any:
    """A lazy DataFrame of `rows`. `earlier`: what keys had before. Raises GraphError if the graph cannot be
    done this way."""
    return levels_of(read(spark, meaning, pieces), meaning, partitions=partitions, earlier=earlier)


def levels_of(rows: Any, meaning: Meaning, *, partitions: int, earlier: StatePlace | None = None) -> Any:
    """A lazy DataFrame of results from the rows at the first doors."""
    stages = stages_of(meaning.graph.get())
    for level in range(1, stages.depth + 1):
        here = [] if len(stages.at(level)) == 1 else [_stage_expression(stage_column(stages, level))]
        # first bytes are compared as a number
        rows = placed(rows, meaning.slots, partitions).sortWithinPartitions(*here, "key", "meta")
        rows = rows.mapInArrow(RunLevel(meaning, level, partitions, earlier), SPARK_SCHEMA)
    return rows


def read(spark: Any, meaning: Meaning, pieces: Sequence[tuple[int, Piece]]) -> Any:
    """Read the pieces, a task each: the rows at the first doors."""
    count = len(pieces)
    numbers = spark.range(0, count, 1, max(1, count))
    return numbers.mapInArrow(ReadPieces(meaning, tuple(pieces)), SPARK_SCHEMA)


def placed(rows: Any, slots: int, partitions: int) -> Any:
    """`rows`, each slot's in one partition: partition p has those of `tasks.slots_of_partition`."""
    from pyspark.sql import functions as F

    return rows.repartitionById(partitions, F.expr(f"cast(slot * {partitions}L div {slots} as int)"))


def _stage_expression(different: Sequence[tuple[int, int]] | Any) -> Any:
    """The stage of a row: `to` itself, but for the further keyed vertices of a cycle."""
    from pyspark.sql import functions as F

    if not different:
        return "to"
    cases = " ".join(f"when {vertex} then {stage}" for vertex, stage in different)
    return F.expr(f"case to {cases} else to end")
