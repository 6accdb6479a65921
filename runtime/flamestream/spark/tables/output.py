"""Output as a table: a row a delivered item of a files sink.

Keeps: what counts at the moment of planning, each item once; sorted by `meta` it is the total order. Does
not: sort (the slots of a chunk are as they were delivered).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from flamestream.connectors.files.chunks import Chunk, chunks_of
from flamestream.model import payload as codec
from flamestream.model.meta import Meta, floor, time_of_meta
from flamestream.model.slot import DEFAULT_SLOTS
from flamestream.model.time import Time, front_of, timestamp_of
from flamestream.spark.tables.columns import array_of, field_of, json_of
from flamestream.spark.tables.job_files import JobFiles
from flamestream.spark.tables.slots import WantedSlots

BATCH: Final = 4096


@dataclass(frozen=True, slots=True)
class Span:
    """From one global time to below another; None: without bound."""

    start: int | None
    end: int | None

    def has(self, meta: bytes) -> bool:
        """Whether an item is in it."""
        after = self.start is None or meta >= floor(Time(self.start))
        return after and (self.end is None or meta < floor(Time(self.end)))


class _Item(NamedTuple):
    slot: int
    sequence: int
    meta: bytes
    payload: Any


class OutputReader(DataSourceReader):
    """Reads a sink's output for one query."""

    def __init__(
        self, files: JobFiles, sink: str, span: Span, schema: Any, slots: frozenset[int] | None
    ) -> None:
        self._files, self._sink, self._span, self._schema = files, sink, span, schema
        self._wanted = WantedSlots(int(files.spec.get("workers", {}).get("slots", DEFAULT_SLOTS)), slots)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(chunk) for chunk in chunks_of(self._files.sink_folder(self._sink))] or [
            InputPartition(None)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        if partition.value is None:
            return
        self._files.graph()  # so that its payload types are known
        schema = to_arrow_schema(self._schema)
        items: list[_Item] = []
        for item in self._items(partition.value):
            items.append(item)
            if len(items) == BATCH:
                yield _batch(items, schema)
                items = []
        if items:
            yield _batch(items, schema)

    def _items(self, chunk: Chunk) -> Iterator[_Item]:
        wanted = None if self._wanted.all else self._wanted.slots
        for slot, sequence, _, items in chunk.bundles(wanted):
            for meta, payload in codec.decode_items(items):
                if self._span.has(meta):
                    yield _Item(slot, sequence, meta, payload)


class PushedOutputReader(OutputReader):
    """A reader that takes filters (slots.py says when that is safe)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return list(self._wanted.take(filters))


def first_payload(files: JobFiles, sink: str) -> list[Any]:
    """The first item's payload, for a look at its fields; none if nothing was delivered."""
    files.graph()
    found = (
        payload
        for chunk in chunks_of(files.sink_folder(sink))
        for b in chunk.bundles()
        for _, payload in codec.decode_items(b.items)
    )
    # The range stands first: else a second payload would be read before that ends.
    return [payload for _, payload in zip(range(1), found, strict=False)]


def _batch(items: list[_Item], schema: Any) -> Any:
    times = [time_of_meta(Meta(item.meta)) for item in items]
    fixed: dict[str, Callable[[], list[Any]]] = {
        "slot": lambda: [item.slot for item in items],
        "sequence": lambda: [item.sequence for item in items],
        "time": lambda: [timestamp_of(time) for time in times],
        "front": lambda: [front_of(time) for time in times],
        "meta": lambda: [item.meta for item in items],
        "payload": lambda: [json_of(item.payload) for item in items],
        "payload_canonical": lambda: [codec.encode(item.payload) for item in items],
    }
    columns = [
        array_of(
            f.name,
            fixed[f.name]() if f.name in fixed else [field_of(item.payload, f.name) for item in items],
            f.type,
        )
        for f in schema
    ]
    return pa.record_batch(columns, schema=schema)
