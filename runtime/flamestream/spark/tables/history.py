"""The audit as a Spark job: every delivered item of files sinks against rows of what was expected, without
collecting.

Both sides become rows (sink, slot, meta, MD5 of the canonical payload), and those of an item come together by
sink, meta and hash. Bundles are looked at beside that: within a slot no number is missing, and where metas do
not ascend the slot's items are looked at one by one. What is expected, and due, the caller says
(cli/spark/audit.py: the reference interpreter in each partition of keys).

Keeps: nothing that grows with the history is in the driver; the words and counts are those of
`testing.audit.Verdict`. Does not: read a sink that is no folder of bundles.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from flamestream.connectors.files.chunks import Chunk
from flamestream.model import payload as codec
from flamestream.model.errors import Corrupt
from flamestream.model.meta import LEAST, Meta, floor, time_of_meta
from flamestream.model.time import END, START, Time
from flamestream.spark.frames.rows import HALT

_ITEM: Final = "to int, slot int, meta binary, payload binary, sequence long, place int"
_ITEM_ARROW: Final = pa.schema(
    [
        ("to", pa.int32()), ("slot", pa.int32()), ("meta", pa.binary()), ("payload", pa.binary()),
        ("sequence", pa.int64()), ("place", pa.int32()),
    ]
)  # fmt: skip
_BUNDLE: Final = "to int, slot int, sequence long, first binary, last binary, items long, behind long"
_BUNDLE_ARROW: Final = pa.schema(
    [
        ("to", pa.int32()), ("slot", pa.int32()), ("sequence", pa.int64()), ("first", pa.binary()),
        ("last", pa.binary()), ("items", pa.int64()), ("behind", pa.int64()),
    ]
)  # fmt: skip
BATCH: Final = 8192
_DOUBTFUL: Final = "behind > 0 or first <= until"
"""The condition that marks a bundle: its slot's items are not all in their order."""
_KINDS: Final = ("lost", "doubled", "foreign", "misplaced")


@dataclass(frozen=True, slots=True)
class Findings:
    """The audit's findings; fields and words are those of `testing.audit.Verdict`."""

    expected: int
    delivered: int
    lost: int
    not_due: int
    doubled: int
    foreign: int
    misplaced: int
    reordered: int
    first_difference: str


@dataclass(frozen=True, slots=True)
class Due:
    """Which of the expected results have to be there, whatever else is."""

    below: Meta = field(default_factory=lambda: floor(END))
    """Those below it."""
    held: frozenset[bytes] = frozenset()
    """But for these."""
    begins: Meta = LEAST
    """Results before it are not looked at: they were not delivered."""
    until: Meta | None = None
    """Nor are results from here on: they are of other code."""


class History:
    """The contents of files sinks: `chunks` of each, by its number; `sinks` are their names. Raises Corrupt
    if bundles are missing."""

    def __init__(self, spark: Any, sinks: Mapping[int, str], chunks: Sequence[tuple[int, Chunk]]) -> None:
        from pyspark.sql import functions as F

        self._spark, self._sinks = spark, sinks
        # Spark's own number is for clusters
        shuffled = max(int(spark.sparkContext.defaultParallelism), 2 * len(chunks))
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffled))
        self._items = _read(spark, _ReadItems(tuple(chunks)), len(chunks), _ITEM)
        self._bundles = _ordered(_read(spark, _ReadBundles(tuple(chunks)), len(chunks), _BUNDLE)).persist()
        gap = F.min(F.when(F.col("sequence") != F.col("had") + 1, F.struct("to", "slot", "sequence", "had")))
        sums = [
            F.sum("items").alias("items"),
            F.max("last").alias("last"),
            F.count(F.when(F.expr(_DOUBTFUL), 1)).alias("doubtful"),
        ]
        totals = self._bundles.agg(*sums, gap.alias("gap")).first()
        if totals.gap is not None:
            raise Corrupt(
                f"sink {sinks[totals.gap.to]!r}: bundle {totals.gap.sequence} of slot {totals.gap.slot} "
                f"follows {totals.gap.had}: is a log missing?"
            )
        self._delivered, self._in_order = int(totals["items"] or 0), not totals.doubtful
        self.below = Time(time_of_meta(Meta(bytes(totals["last"]))) + 1) if totals["last"] else START
        """All that was delivered is of runs below it."""

    def compared(self, expected: Any, due: Due) -> Findings:
        """With rows `to`, `slot`, `meta`, `payload`; `to` is a sink's number, or HALT: nothing is expected
        from its run on."""
        from pyspark.sql import functions as F

        expected, items, delivered = (
            expected.where(F.col("meta") >= F.lit(bytearray(due.begins))),
            self._items,
            self._delivered,
        )
        if due.until is not None:
            expected, items = (
                rows.where(F.col("meta") < F.lit(bytearray(due.until))) for rows in (expected, items)
            )
            delivered = int(items.count())
        together = _together(expected, items)
        ends = self._bundles.groupBy("to", "slot").agg(F.max("last").alias("newest"))
        judged = _judged(self._spark, together, ends, due)
        counted = _counted(judged, LEAST)
        # a slot may end with what is not the reference's, and what it lacks before that is not lost for it
        if counted.foreign:
            right = (
                together.where("wanted > 0 and got > 0")
                .groupBy("to", "slot")
                .agg(F.max("meta").alias("newest"))
            )
            judged = _judged(self._spark, together, right, due)
            counted = _counted(judged, LEAST)
        if counted.halt is not None:
            counted = _counted(judged, Meta(bytes(counted.halt)[:8]))
        reordered, late = (0, None) if self._in_order else _reordered(self._bundles, items)
        first = min(filter(None, (_first(counted.first), late)), default=None)
        return Findings(
            expected=int(counted.expected or 0), delivered=delivered, not_due=int(counted.not_due or 0),
            reordered=reordered, **{kind: int(counted[kind] or 0) for kind in _KINDS},
            first_difference=_told(*first, self._sinks) if first else "",
        )  # fmt: skip

    def close(self) -> None:
        """Let go of what is kept of it."""
        self._bundles.unpersist()


Place = tuple[bytes, int, str, int]
"""A difference: meta, sink, kind, slot. The least is told."""


def _first(row: Any) -> Place | None:
    return None if row is None else (bytes(row.meta), row.to, row.kind, row.slot)


def _told(meta: bytes, to: int, kind: str, slot: int, sinks: Mapping[int, str]) -> str:
    return f"{kind} in sink {sinks[to]!r}: slot {slot} at time {time_of_meta(Meta(meta))} (meta {meta.hex()})"


# --- items against what is expected -------------------------------------------------------------------------


def _together(expected: Any, delivered: Any) -> Any:
    """(to, meta, digest) with how often it is wanted and there, and in which slots."""
    from pyspark.sql import functions as F

    digest, no_slot = F.md5("payload").alias("digest"), F.lit(None).cast("int")
    wanted = expected.select(
        "to", "meta", digest, F.lit(1).alias("wanted"), F.lit(0).alias("got"), "slot", no_slot.alias("there")
    )
    got = delivered.select(
        "to",
        "meta",
        digest,
        F.lit(0).alias("wanted"),
        F.lit(1).alias("got"),
        no_slot.alias("slot"),
        F.col("slot").alias("there"),
    )
    sums = [F.sum("wanted").alias("wanted"), F.sum("got").alias("got"), F.max("slot").alias("slot")]
    slots = [F.min("there").alias("least"), F.max("there").alias("most")]
    return wanted.unionAll(got).groupBy("to", "meta", "digest").agg(*sums, *slots)


def _judged(spark: Any, together: Any, ends: Any, due: Due) -> Any:
    """With whether it is due, or below the newest item of its slot."""
    from pyspark.sql import functions as F

    joined = together.join(F.broadcast(ends), ["to", "slot"], "left")
    is_due = F.col("meta") < F.lit(bytearray(due.below))
    if due.held:
        held = F.broadcast(spark.createDataFrame([(bytearray(meta),) for meta in due.held], "held binary"))
        joined = joined.join(held, F.col("meta") == F.col("held"), "left")
        is_due = is_due & F.col("held").isNull()
    behind = F.coalesce(F.col("meta") < F.col("newest"), F.lit(False))
    return joined.withColumn("due", is_due | behind)


def _counted(judged: Any, halt: Meta) -> Any:
    """A single row: all counts, and the first difference."""
    from pyspark.sql import functions as F

    of_item = F.col("to") != HALT
    wanted = (F.col("wanted") > 0) & (F.col("meta") < F.lit(bytearray(halt)) if halt else F.lit(True))
    absent, got = wanted & (F.col("got") == 0), F.col("got")
    displaced = wanted & (got > 0) & ((F.col("least") != F.col("slot")) | (F.col("most") != F.col("slot")))
    counts = {
        "expected": F.when(wanted, 1),
        "lost": F.when(absent & F.col("due"), 1),
        "not_due": F.when(absent & ~F.col("due"), 1),
        "doubled": F.when(wanted & (got > 1), got - 1),
        "foreign": F.when(~wanted & (got > 0), got),
        "misplaced": F.when(displaced, F.when(F.col("least") == F.col("most"), got).otherwise(1)),
    }
    kind = F.coalesce(*[F.when(counts[name].isNotNull(), F.lit(name)) for name in _KINDS])
    where = F.coalesce(F.col("least"), F.col("slot")).alias("slot")
    first = F.min(F.when(of_item & kind.isNotNull(), F.struct("meta", "to", kind.alias("kind"), where)))
    halted = F.min(F.when(F.col("to") == HALT, F.col("meta")))
    return judged.agg(
        *[F.sum(F.when(of_item, value)).alias(name) for name, value in counts.items()],
        first.alias("first"),
        halted.alias("halt"),
    ).first()


# --- the order of a slot ------------------------------------------------------------------------------------


def _ordered(bundles: Any) -> Any:
    """Each bundle with the number and the last meta of the one before it in its slot."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("to", "slot").orderBy("sequence")
    return bundles.withColumns(
        {"had": F.lag("sequence", 1, 0).over(order), "until": F.lag("last").over(order)}
    )


def _reordered(ordered: Any, items: Any) -> tuple[int, Place | None]:
    """How many items are behind a later one of their slot, exact repeats left out, and the first of them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    doubtful = ordered.where(_DOUBTFUL).select("to", "slot").distinct()
    of_them = (
        items.join(F.broadcast(doubtful), ["to", "slot"], "left_semi")
        .withColumn("digest", F.md5("payload"))
        .drop("payload")
    )
    again = Window.partitionBy("to", "slot", "meta", "digest").orderBy("sequence", "place")
    once = of_them.withColumn("nth", F.row_number().over(again)).where("nth = 1")
    before = (
        Window.partitionBy("to", "slot")
        .orderBy("sequence", "place")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    late = once.withColumn("newest", F.max("meta").over(before)).where("meta < newest")
    row = late.agg(
        F.count("*").alias("count"),
        F.min(F.struct("meta", "to", F.lit("reordered").alias("kind"), "slot")).alias("first"),
    ).first()
    return int(row["count"]), _first(row.first)


# --- what is delivered, as rows -----------------------------------------------------------------------------


def _read(spark: Any, task: Any, count: int, schema: str) -> Any:
    return spark.range(0, count, 1, max(1, count)).mapInArrow(task, schema)


@dataclass(frozen=True, slots=True)
class _ReadItems:
    chunks: tuple[tuple[int, Chunk], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            to, chunk = self.chunks[number]
            rows: list[tuple[Any, ...]] = []
            for bundle in chunk.bundles():
                split = enumerate(codec.split_items(bundle.items))
                rows += [
                    (to, bundle.slot, meta, payload, bundle.sequence, place)
                    for place, (meta, payload) in split
                ]
                if len(rows) >= BATCH:
                    yield _batch(rows, _ITEM_ARROW)
                    rows = []
            yield _batch(rows, _ITEM_ARROW)


@dataclass(frozen=True, slots=True)
class _ReadBundles:
    chunks: tuple[tuple[int, Chunk], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            to, chunk = self.chunks[number]
            rows = [
                _bundle_row(to, bundle.slot, bundle.sequence, bundle.t_last, bundle.items)
                for bundle in chunk.bundles()
            ]
            yield _batch(rows, _BUNDLE_ARROW)


def _batch(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.record_batch(
        [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def _bundle_row(to: int, slot: int, sequence: int, t_last: bytes, items: bytes) -> tuple[Any, ...]:
    metas = [meta for meta, _ in codec.split_items(items)]
    if not metas or metas[-1] != t_last:
        raise Corrupt(
            f"bundle {sequence} of slot {slot} says that its last item is {t_last.hex()}, which it is not; "
            "restore its log from a backup"
        )
    behind = sum(1 for before, meta in pairwise(metas) if meta <= before)
    return to, slot, sequence, metas[0], max(metas), len(metas), behind
