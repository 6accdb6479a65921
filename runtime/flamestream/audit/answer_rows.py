"""The answers of calls beside their requests, as rows that Spark holds: the same findings as in one process
(answers.py).

    requests: rows for a call's sink (reference_rows.py) -----.
                                                              |-> by (call, meta, hash) -> counts
    answers: runs of the journal, read where there are cores -'

Does not: put anything into words, or judge what follows from answers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flamestream.audit.answers import Unpaired
from flamestream.connectors.files.pieces import Piece
from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import START, Time
from flamestream.spark.frames.rows import FLUSH, HALT

_SCHEMA: Final = "to int, meta binary, hash binary"
_ARROW: Final = pa.schema([("to", pa.int32()), ("meta", pa.binary()), ("hash", pa.binary())])
_COUNTS: Final = ("doubled", "foreign", "missing")


def answer_rows(spark: Any, pieces: Sequence[tuple[int, Piece]], cut: Time) -> Any:
    """A lazy DataFrame of the answers from `cut` on: the vertex of their requests' sink, the request's meta
    and hash. `pieces`: journals of answers, by that vertex."""
    count = len(pieces)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(_ReadAnswers(tuple(pieces), cut), _SCHEMA)


def asked_below(answers: Any) -> Time:
    """All that the answers answer is of times below it."""
    from pyspark.sql import functions as F

    (newest,) = answers.agg(F.max("meta")).first()
    return START if newest is None else Time(time_of_meta(Meta(bytes(newest))) + 1)


def unpaired_rows(expected: Any, answers: Any, calls: Collection[int], begin: Meta) -> Mapping[int, Unpaired]:
    """Requests and answers that do not fit together, by the vertex of the requests' sink. `expected`: rows
    of the reference;
    answers to what was asked below `begin` may be of requests that are not there."""
    from pyspark.sql import functions as F

    halt = expected.where(F.col("to") == HALT).agg(F.min("meta")).first()[0]
    asked = expected.where(F.col("to").isin(list(calls)))
    if halt is not None:  # from the run of the first error on nothing is expected
        asked = asked.where(F.col("meta") < F.lit(bytearray(bytes(halt)[:8])))
    requests = asked.select("to", "meta", "payload").mapInArrow(_hashed, _SCHEMA)
    both = requests.select("*", F.lit(1).alias("wanted"), F.lit(0).alias("got")).unionAll(
        answers.select("*", F.lit(0).alias("wanted"), F.lit(1).alias("got"))
    )
    sums = [F.sum("wanted").alias("wanted"), F.sum("got").alias("got")]
    of_request = both.groupBy("to", "meta", "hash").agg(*sums)
    other = F.when((F.col("wanted") == 0) & (F.col("meta") >= F.lit(bytearray(begin))), F.col("got"))
    paired = of_request.groupBy("to", "meta").agg(*sums, F.sum(other).alias("foreign"))
    counts = {
        "doubled": F.when(F.col("got") > 1, F.col("got") - 1),
        "foreign": F.when(F.col("foreign") > 0, F.col("foreign")),
        "missing": F.when((F.col("wanted") > 0) & (F.col("got") == 0), 1),
    }
    firsts = [F.min(F.when(counts[name].isNotNull(), F.col("meta"))).alias(f"{name}_at") for name in _COUNTS]
    found = paired.groupBy("to").agg(*[F.sum(counts[name]).alias(name) for name in _COUNTS], *firsts)
    return {row.to: _of_row(row) for row in found.collect()}


def _of_row(row: Any) -> Unpaired:
    foreign, missing = (None if at is None else Meta(bytes(at)) for at in (row.foreign_at, row.missing_at))
    return Unpaired(row.doubled or 0, row.foreign or 0, foreign, row.missing or 0, missing)


@dataclass(frozen=True, slots=True)
class _ReadAnswers:
    """Reads the pieces whose numbers arrive."""

    pieces: Sequence[tuple[int, Piece]]
    cut: Time

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            to, piece = self.pieces[number]
            rows = list[tuple[int, bytes, bytes]]()
            for time, _, records in piece.runs():
                found = [record for record in records if time >= self.cut and isinstance(record, Answer)]
                rows += [(to, answer.request, answer.hash) for answer in found]
                if len(rows) >= FLUSH:
                    yield _batch(rows)
                    rows = []
            yield _batch(rows)


def _hashed(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        yield _batch([(to, meta, hash_of(payload)) for to, meta, payload in rows])


def _batch(rows: Sequence[tuple[int, bytes, bytes]]) -> Any:
    columns = zip(*rows, strict=True) if rows else [()] * len(_ARROW)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )
