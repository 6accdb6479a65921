"""The way of segments into the simulated store and out.

What happens to rows is the product's: the check of a segment's bytes (`store.snapshots`) and merging
(`store.segment`). In a part of the runs segments are Parquet files, as they really are; in the others rows are
packed, which is many times faster. Only the helper threads are simulated: what they do takes virtual time.

Does not: fail to notice damage; a damaged segment is an error with its name, which the broken variant
"ignored checksum" shows.
"""

import io
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec
from pyarrow import parquet

from flamestream.core.protocol.actions import Load, Prefetch, Upload
from flamestream.core.protocol.chain import Chain, Row, chains_of
from flamestream.core.protocol.events import Event, Loaded, LoadFailed, Prefetched, Uploaded, UploadFailed
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.errors import Corrupt, FlameStreamError
from flamestream.model.ids import Slot
from flamestream.simulation.outside.stores import Store, StoreError, checksum, fetch_surely, store_surely
from flamestream.store import segment, snapshots

_packed = msgspec.msgpack.Decoder(list[Row])
PARQUET = b"PAR1"


def decode_rows(data: bytes) -> list[Row]:
    """The rows of a segment, read by nobody's code but pyarrow's: for the invariants."""
    if not data.startswith(PARQUET):
        return _packed.decode(data)
    return rows_of(parquet.read_table(io.BytesIO(data)))


def checked_rows(data: bytes, ref: SegmentRef) -> list[Row]:
    """The rows of a segment, by the product's code. Raises Corrupt if it is not what was written."""
    data = snapshots.checked(data, ref)
    if not data.startswith(PARQUET):
        try:
            return _packed.decode(data)
        except msgspec.DecodeError as error:
            raise Corrupt(f"segment {ref.name} is damaged: {error}") from error
    return rows_of(segment.read_segment(data, ref.name, verified=True))


def rows_of(table: Any) -> list[Row]:
    """The rows of an Arrow table."""
    return [Row(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


class SnapshotPort:
    """The access of one worker process to segments (`ports.Snapshots`)."""

    def __init__(self, store: Store, writer: str, post: Callable[[Event], None]) -> None:
        self._store = store
        self._world = store.world
        self._writer = writer
        self._post = post
        self._alive = True
        self._nonce = 0

    def close(self) -> None:
        """The process is gone."""
        self._alive = False

    def upload(self, action: Upload) -> None:
        """Upload a segment of the new rows, or of them merged with what they make superfluous."""
        if action.compact:
            self._read(action.compact, lambda result: self._merge(action, result))
        else:
            self._write(action, list(action.rows), [])

    def prefetch(self, action: Prefetch) -> None:
        """Chains of slots that this worker may get, read ahead."""
        self._world.after(self._store.time(), self._read_ahead, action)

    def load(self, action: Load) -> None:
        """Chains of the slots asked for, checked."""
        if action.after >= 0:
            self._world.trace.cover("standby.took over warm")
        self._read(action.segments, lambda rows: self._read_states(action, rows))

    def _read_states(self, action: Load, rows: list[Row] | StoreError) -> None:
        if isinstance(rows, StoreError):
            self._load_failed(action, rows)
            return
        chains = self._chains(rows, set(action.slots), action.after)
        self._read(action.held, lambda held: self._loaded(action, chains, held))

    def _loaded(self, action: Load, chains: Sequence[Chain], held: list[Row] | StoreError) -> None:
        if isinstance(held, StoreError):
            self._load_failed(action, held)
        else:
            self._read(action.requests, lambda requests: self._all_loaded(action, chains, held, requests))

    def _all_loaded(
        self, action: Load, chains: Sequence[Chain], held: list[Row], requests: list[Row] | StoreError
    ) -> None:
        if isinstance(requests, StoreError):
            self._load_failed(action, requests)
        else:
            self._say(Loaded(action.fence, chains, chains_of(held), chains_of(requests)))

    def _load_failed(self, action: Load, error: StoreError) -> None:
        self._say(LoadFailed(action.fence, "corrupt" if error.corrupt else "retryable", error.message))

    def _merge(self, action: Upload, result: list[Row] | StoreError) -> None:
        if isinstance(result, StoreError):
            self._say(UploadFailed(action.fence, action.epoch, result.message))
            return
        self._world.trace.cover("snapshot.compacted")
        # as the product merges segments
        old = segment.of_operations(segment.table_of(result), action.kept)
        merged = rows_of(segment.merged([old, segment.table_of(action.rows)]))
        self._write(action, merged, [ref.name for ref in action.compact])

    def _write(self, action: Upload, rows: list[Row], replaced: list[str]) -> None:
        done = partial(Uploaded, action.fence, action.epoch)

        def written(segments: list[SegmentRef]) -> None:
            self._put(action, action.held, lambda held: with_held(segments, held))

        def with_held(segments: list[SegmentRef], held: list[SegmentRef]) -> None:
            self._put(
                action, action.requests, lambda requests: self._say(done(segments, replaced, held, requests))
            )

        if rows or action.held or action.requests:
            self._put(action, rows, written)
        else:
            self._world.after(1, self._say, Uploaded(action.fence, action.epoch, [], replaced))

    def _put(self, action: Upload, rows: Sequence[Row], written: Callable[[list[SegmentRef]], None]) -> None:
        """Put a segment into the store, if there are rows."""
        if not rows:
            written([])
            return
        self._nonce += 1
        # Epoch, attempt, writer and a nonce: no two writers mean one object, be one of them a zombie.
        name = f"segments/e{action.epoch}-a{action.fence.attempt}-{self._writer}-{self._nonce}"
        data = (
            bytes(segment.written(segment.table_of(rows)))
            if self._store.parquet
            else msgspec.msgpack.encode(rows)
        )
        slots = tuple(Slot(slot) for slot in sorted({row.slot for row in rows}))
        ref = SegmentRef(name, len(data), checksum(data), len(rows), slots)

        def done(problem: str) -> None:
            if problem:
                self._world.trace.cover("snapshot.upload failed")
                self._say(UploadFailed(action.fence, action.epoch, problem))
            else:
                written([ref])

        store_surely(self._store, name, data, done)

    def _read(self, refs: Sequence[SegmentRef], done: Callable[[list[Row] | StoreError], None]) -> None:
        """All of them, one after the other."""
        rows: list[Row] = []
        todo = list(reversed(refs))

        def next_one() -> None:
            if not self._alive:
                return
            if not todo:
                done(rows)
                return
            ref = todo.pop()

            def read(result: bytes | StoreError) -> None:
                if isinstance(result, StoreError):
                    done(result)
                    return
                try:
                    rows.extend(checked_rows(result, ref))
                except Corrupt as error:
                    done(StoreError(str(error), corrupt=True))
                else:
                    next_one()

            fetch_surely(self._store, ref.name, read)

        self._world.after(1, next_one)

    def _read_ahead(self, action: Prefetch) -> None:
        """As a helper thread reads, at one moment of virtual time."""
        try:
            rows = [
                row for ref in action.segments for row in checked_rows(self._store.get_now(ref.name), ref)
            ]
        except FlameStreamError:
            self._say(Prefetched(action.number, None))
        else:
            self._say(Prefetched(action.number, self._chains(rows, action.slots, action.after)))

    def _chains(self, rows: Sequence[Row], slots: Collection[Slot] | None, after: int = -1) -> list[Chain]:
        """The chains of these slots and of epochs above `after`; where there are Parquet files, by the
        product's code."""
        if self._store.parquet:
            return segment.chains_in([segment.part_of(segment.table_of(rows), slots, after)])
        return chains_of(row for row in rows if (slots is None or row.slot in slots) and row.epoch > after)

    def _say(self, event: Event) -> None:
        if self._alive:
            self._post(event)
