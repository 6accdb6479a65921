"""Pairing: the requests that a batch makes, each beside what the journal has for it.

    answers of the journal, a row each --------------.
                                                     |-> shuffled by meta -> pairs, open requests, errors
    requests at a call's sink, and open ones before -'

What a stream has kept is of its requests alone. So an answer without a request, or with a request of another
hash, is an error (!): taken as it is, it would lead to results that no stream of this job can have.

Keeps: the requests that are open are those that a stream's snapshot at this cut would hold, as its rows
(core/worker/requests.py), so either runner goes on from the other's. Memory is one meta's rows, and the open
requests where they are kept. Does not: write them (frames/delivering.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.worker.requests import ASKED_ELSE, INTENDED, NOT_INTENDED
from flamestream.model.calls.call import Answer, Intent, hash_of
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, time_of_meta
from flamestream.spark.frames.kept_state import store_at
from flamestream.spark.frames.rows import (
    ANSWERS,
    HALT,
    INTENT,
    SCHEMA,
    SPARK_SCHEMA,
    Outbox,
    answer_row,
    vertex_of_answer,
)
from flamestream.store.snapshots import segment_table

NOT_ASKED: Final = "was answered, and nothing here asks it"


class AnswerRows:
    """The rows of what a journal has for requests, on their way out of a task. A run of it has few: they
    gather to batches."""

    def __init__(self, asked: Mapping[int, int], slots: int) -> None:
        """`asked`: source of answers -> the sink of their requests."""
        self._asked, self._slots = asked, slots
        self._out = Outbox()

    def take(self, source: int, records: Sequence[Any]) -> Iterator[Any]:
        """Records of a run enter `source`: a batch of rows whenever there are enough."""
        if source not in self._asked:
            return
        to = answer_row(self._asked[source])
        for record in records:
            if isinstance(record, Answer | Intent):
                slot, kind = crc32(record.request) % self._slots, INTENT if type(record) is Intent else b""
                self._out.add((to, slot, record.hash, record.request, kind))
        if self._out.full:
            yield from self._out.take()

    def end(self) -> Iterator[Any]:
        """The rows that are left."""
        yield from self._out.take()


def place_of(slots: int, calls: Iterable[int]) -> str:
    """The Spark expression of the slot that a row is worked on in: a request is beside its answers, which
    know its meta, and not its slot."""
    numbers = ", ".join(map(str, sorted(calls)))
    return f"case when to in ({numbers}) then crc32(meta) % {slots} else slot end" if numbers else "slot"


class _Asked(NamedTuple):
    slot: int
    intended: bool
    payload: bytes


class Pairing:
    """The requests and answers of one task, as their rows come: sorted by meta. `calls`: the names of calls
    by the vertex of their requests' sink; `keeps`: those that are open are wanted as rows of `epoch`."""

    def __init__(self, calls: Mapping[int, str], epoch: int, *, keeps: bool) -> None:
        self._calls, self._epoch, self._keeps = calls, Epoch(epoch), keeps
        self._doors = pa.array(sorted(calls), pa.int32())
        self._meta = b""
        self._asked: dict[int, _Asked] = {}
        self._answers: dict[int, bytes] = {}
        """Hashes, by vertex, at this meta."""
        self._intents: set[int] = set()
        self.unanswered = 0
        self.open: list[Row] = []

    def take(self, batch: Any, before: bytes | None) -> Any:
        """The rows that are neither. `before`: those from this meta on do not count; None: all do. Raises
        UserError for an answer to something else."""
        to = batch.column("to")
        mine = pc.or_(
            pc.is_in(to, value_set=self._doors), pc.and_(pc.less_equal(to, ANSWERS), pc.not_equal(to, HALT))
        )
        found = batch.filter(mine)
        for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
            if before is None or row[3] < before:
                self._put(*row)
        return batch.filter(pc.invert(mine))

    def end(self) -> None:
        """All rows have come."""
        self._settle()

    def _put(self, to: int, slot: int, key: bytes, meta: bytes, payload: bytes) -> None:
        if meta != self._meta:
            self._settle()
            self._meta = meta
        if to >= 0:
            self._asked[to] = _Asked(slot, key == INTENT, payload)
        elif payload == INTENT:
            self._intents.add(vertex_of_answer(to))
        else:
            self._answers.setdefault(vertex_of_answer(to), key)

    def _settle(self) -> None:
        for vertex, answer in self._answers.items():
            asked = self._asked.pop(vertex, None)
            # (!) Else it would lead to results that no stream of this job can have.
            if asked is None or hash_of(asked.payload) != answer:
                raise self._differs(vertex, NOT_ASKED if asked is None else ASKED_ELSE)
        self.unanswered += len(self._asked)
        if self._keeps:
            self.open += [self._row(vertex, asked) for vertex, asked in self._asked.items()]
        self._asked.clear()
        self._answers.clear()
        self._intents.clear()

    def _row(self, vertex: int, asked: _Asked) -> Row:
        intended = INTENDED if asked.intended or vertex in self._intents else NOT_INTENDED
        return Row(vertex, Slot(asked.slot), self._meta, self._epoch, True, intended + asked.payload)

    def _differs(self, vertex: int, what: str) -> UserError:
        time = time_of_meta(Meta(self._meta))
        return UserError(
            f"call {self._calls[vertex]}: the request of the run at time {time} (meta {self._meta.hex()}) "
            f"{what}. The answers in the journal are of other input or another application. Run the job as "
            "it was, or as a stream with a journal of its own"
        )


@dataclass(frozen=True, slots=True)
class ReadRequests:
    """Reads the snapshot's segments of requests whose numbers arrive: the requests that were open."""

    store: str
    segments: tuple[SegmentRef, ...]
    numbers: Numbers

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            table = segment_table(store_at(self.store), self.segments[number])
            for part in table.to_batches(max_chunksize=8192):
                columns = (part.column(name).to_pylist() for name in ("operation", "slot", "key", "state"))
                yield _batch(
                    [
                        (vertex, slot, INTENT if state[:1] == INTENDED else b"", meta, state[1:])
                        for number, slot, meta, state in zip(*columns, strict=True)
                        if (vertex := self.numbers.of_sink(number)) is not None
                    ]
                )


def with_requests(rows: Any, store: str, segments: tuple[SegmentRef, ...], numbers: Numbers) -> Any:
    """The rows of a batch, and those of the requests that were open before it."""
    if not segments:
        return rows
    places = rows.sparkSession.range(0, len(segments), 1, len(segments))
    return rows.unionAll(places.mapInArrow(ReadRequests(store, segments, numbers), SPARK_SCHEMA))


def _batch(rows: Sequence[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
