"""The audit as a Spark job: every delivered item against what the batch pipeline computes from the recorded input, without collecting.

Both sides become rows (sink, slot, meta, MD5 of the canonical payload) with a sign; what does not cancel out is a difference. Bundles are
looked at beside that: within a slot their numbers must have no gap and their metas must ascend.

The expectation is the batch runner's, which is held to the reference interpreter by tests; `flamestream audit` without --spark is the
interpreter itself, for histories that fit one process.

Keeps: nothing that grows with the history is in the driver. Does not: read a sink that cannot be read back.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from flamestream.adapters.sinks.chunks import Chunk, chunks_of
from flamestream.model import payload as codec
from flamestream.model.errors import Bug
from flamestream.model.meta import Meta, floor, time_of_meta
from flamestream.model.time import START, Time
from flamestream.spark.batch import partitions_for
from flamestream.spark.frames.inputs import Input, pieces_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.pipeline import results_of
from flamestream.spark.frames.rows import HALT

_ITEM: Final = "to int, slot int, meta binary, payload binary"
_ITEM_ARROW: Final = pa.schema([("to", pa.int32()), ("slot", pa.int32()), ("meta", pa.binary()), ("payload", pa.binary())])
_BUNDLE: Final = "to int, slot int, sequence long, first binary, last binary, items long, behind long"
_BUNDLE_ARROW: Final = pa.schema(
    [
        ("to", pa.int32()), ("slot", pa.int32()), ("sequence", pa.int64()), ("first", pa.binary()), ("last", pa.binary()),
        ("items", pa.int64()), ("behind", pa.int64()),
    ]
)  # fmt: skip
BATCH: Final = 8192
EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What the audit found; the words are those of `testing.audit.Verdict`."""

    delivered: int
    lost: int
    doubled: int
    foreign: int
    reordered: int
    """Items behind a later one of their slot, and bundles whose number does not follow."""
    first_difference: str


def audit_history(
    spark: Any, job: FrameJob, folders: Mapping[str, Path], *, complete: bool, history: Sequence[Input] = (), cut: Time = START
) -> Findings:
    """Compare. `folders`: of each files sink. Without `complete`, what a slot lacks behind its last item is under way and not lost.

    `history`: input before `cut`, whose results were not delivered.
    """
    from pyspark.sql import functions as F

    places = {number: place.name for number, place in job.sink_places().items()}
    chunks = [(number, chunk) for number, name in places.items() for chunk in chunks_of(folders[name])]
    bundles = _bundles(spark, chunks).persist()
    totals = bundles.agg(F.sum("items"), F.sum("behind"), F.max("last")).first()
    delivered, behind = int(totals[0] or 0), int(totals[1] or 0)
    end = None if complete else Time(time_of_meta(Meta(bytes(totals[2]))) + 1 if totals[2] else 0)
    expected = _expected(spark, job, places, end, history)
    if history:
        expected = expected.where(F.col("meta") >= F.lit(bytearray(floor(cut))))
    if not complete:
        last = F.broadcast(bundles.groupBy("to", "slot").agg(F.max("last").alias("newest")))
        expected = expected.join(last, ["to", "slot"], "left").where(f"to = {HALT} or meta <= newest").drop("newest")
    differences = _differences(expected, _items(spark, chunks)).persist()
    lost, doubled, foreign, told = _told(differences, places)
    gaps = behind + _gaps(bundles)
    differences.unpersist()
    bundles.unpersist()
    return Findings(delivered, lost, doubled, foreign, gaps, told)


def _expected(spark: Any, job: FrameJob, places: Mapping[int, str], end: Time | None, history: Sequence[Input]) -> Any:
    pieces = [*pieces_of(spark, history), *pieces_of(spark, job.inputs, end)]
    rows = results_of(spark, job.meaning(), pieces, partitions=partitions_for(spark, job.slots, len(pieces)))
    wanted = ",".join(map(str, [HALT, *places]))
    return rows.where(f"to in ({wanted})").select("to", "slot", "meta", "payload")


def _differences(expected: Any, delivered: Any) -> Any:
    """(to, slot, meta, digest, example, left, expected) of what does not cancel out."""
    from pyspark.sql import functions as F

    digest = F.md5("payload").alias("digest")
    sides = [side.select("to", "slot", "meta", digest, F.lit(sign).alias("sign")) for side, sign in ((expected, 1), (delivered, -1))]
    sums = sides[0].unionAll(sides[1]).groupBy("to", "slot", "meta", "digest")
    counted = sums.agg(F.sum("sign").alias("left"), F.sum(F.greatest("sign", F.lit(0))).alias("expected"))
    return counted.where("left != 0")


def _told(differences: Any, places: Mapping[int, str]) -> tuple[int, int, int, str]:
    """lost, doubled, foreign, and the first in words. Under `onError: fail` nothing is expected from the first error's run on."""
    from pyspark.sql import functions as F

    halt = differences.where(f"to = {HALT}").agg(F.min("meta")).first()[0]
    found = differences.where(f"to != {HALT}")
    if halt is not None:
        found = found.where(F.col("meta") < F.lit(bytearray(halt[:8])) if halt else F.lit(True))
    kind = F.when(F.col("left") > 0, "lost").when(F.col("expected") > 0, "doubled").otherwise("foreign")
    kinds = found.select(kind.alias("kind"), F.abs("left").alias("count"), "to", "slot", "meta")
    counts = {row.kind: int(row["sum(count)"]) for row in kinds.groupBy("kind").agg(F.sum("count")).collect()}
    first = kinds.orderBy("meta", "to").limit(1).collect()
    told = ""
    if first:
        meta = Meta(bytes(first[0].meta))
        told = f"{first[0].kind} in sink {places[first[0].to]!r}: slot {first[0].slot} at time {time_of_meta(meta)} (meta {meta.hex()})"
    return counts.get("lost", 0), counts.get("doubled", 0), counts.get("foreign", 0), told


def _gaps(bundles: Any) -> int:
    """Bundles that do not follow the one before in their slot."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("to", "slot").orderBy("sequence")
    before = bundles.select("sequence", "first", F.lag("sequence", 1, 0).over(order).alias("had"), F.lag("last").over(order).alias("until"))
    return int(before.where("sequence != had + 1 or first <= until").count())


# --- what is delivered, as rows -----------------------------------------------------------------------------------------------------


def _items(spark: Any, chunks: list[tuple[int, Chunk]]) -> Any:
    return _read(spark, _ReadItems(tuple(chunks)), len(chunks), _ITEM)


def _bundles(spark: Any, chunks: list[tuple[int, Chunk]]) -> Any:
    return _read(spark, _ReadBundles(tuple(chunks)), len(chunks), _BUNDLE)


def _read(spark: Any, task: Any, count: int, schema: str) -> Any:
    return spark.range(0, count, 1, max(1, count)).mapInArrow(task, schema)


@dataclass(frozen=True, slots=True)
class _ReadItems:
    chunks: tuple[tuple[int, Chunk], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            to, chunk = self.chunks[number]
            slots: list[int] = []
            metas: list[bytes] = []
            payloads: list[bytes] = []
            for bundle in chunk.bundles():
                for meta, payload in codec.split_items(bundle.items):
                    metas.append(meta)
                    payloads.append(payload)
                slots += [bundle.slot] * (len(metas) - len(slots))
                if len(metas) >= BATCH:
                    yield _item_batch(to, slots, metas, payloads)
                    slots, metas, payloads = [], [], []
            yield _item_batch(to, slots, metas, payloads)


def _item_batch(to: int, slots: list[int], metas: list[bytes], payloads: list[bytes]) -> Any:
    columns = [[to] * len(slots), slots, metas, payloads]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _ITEM_ARROW, strict=True)], schema=_ITEM_ARROW)


@dataclass(frozen=True, slots=True)
class _ReadBundles:
    chunks: tuple[tuple[int, Chunk], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            to, chunk = self.chunks[number]
            rows = [_bundle_row(to, bundle.slot, bundle.sequence, bundle.t_last, bundle.items) for bundle in chunk.bundles()]
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(_BUNDLE_ARROW)
            yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _BUNDLE_ARROW, strict=True)], schema=_BUNDLE_ARROW)


def _bundle_row(to: int, slot: int, sequence: int, t_last: bytes, items: bytes) -> tuple[Any, ...]:
    metas = [meta for meta, _ in codec.split_items(items)]
    if not metas or metas[-1] != t_last:
        raise Bug(f"bundle {sequence} of slot {slot} says that its last item is {t_last.hex()}, which it is not")
    behind = sum(1 for before, meta in pairwise(metas) if meta <= before)
    return to, slot, sequence, metas[0], t_last, len(metas), behind
