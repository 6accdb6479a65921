"""Snapshots: rows to segments in the object store, and back.

Everything that takes time runs in a helper thread: encode, merge, checksum, upload, download, decode. Per
fence one action is under way; a newer fence does not wait for an older one's, whose work gives up at its next
slice and whose answer is dropped.

An upload writes the rows of an epoch as one segment (several if big). Segments to compact are merged into the
same upload, so that the result replaces them. After "exists" or a lost answer the object is read back and
compared; a nonce in the name keeps two writers apart in the first place.

Keeps: Uploaded only names objects that are durable; Loaded only has states whose segment has the size and
checksum that the index says (invariant 4). Does not: decide what to compact or delete, or retry longer
than the store does (the epoch aborts instead). Format: docs/reference/formats.md.
"""

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from flamestream.core.protocol.actions import Load, Prefetch, Upload
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import Event, Loaded, LoadFailed, Prefetched, Uploaded, UploadFailed
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.errors import Corrupt, FlameStreamError, StoreUnavailable
from flamestream.model.ids import NO_FENCE, Epoch, Fence, Slot, WorkerId
from flamestream.ports import ObjectStore, Post, Reactor
from flamestream.store.object_names import plain
from flamestream.store.segment import (
    Part,
    chains_in,
    merged,
    of_operations,
    part_of,
    pause,
    read_segment,
    slots_in,
    table_of,
    written,
)
from flamestream.store.segment_cache import SegmentCache

if TYPE_CHECKING:  # a worker's start does not wait for Arrow
    from pyarrow import Table

log = logging.getLogger(__name__)
SEGMENT_BYTES: Final = 64 << 20
"""Bytes of keys and states in one segment, before encoding; a greater upload is cut."""
MAX_MERGE: Final = 512 << 20
"""Encoded bytes that are merged at once; greater segments are left as they are."""
AT_ONCE: Final = 4
"""Segments that are read at the same time."""
CACHED: Final = 8 << 20
"""Bytes of this worker's own last segments, as tables, that are kept for the next merge."""
MAX_WAITING: Final = 16
"""Actions of one fence that may wait for the one under way."""


class StoreSnapshots:
    """`ports.Snapshots` over an object store. `nonce` gives a new short string at each call."""

    def __init__(
        self,
        store: ObjectStore,
        reactor: Reactor,
        post: Post,
        *,
        job: str,
        writer: WorkerId,
        nonce: Callable[[], str],
    ) -> None:
        self._store = store
        self._reactor = reactor
        self._post = post
        self._prefix = f"{plain(job)}/segments"
        self._writer = plain(writer)
        self._nonce = nonce
        self._newest = NO_FENCE
        self._under_way = False
        self._waiting: deque[Upload | Load] = deque()
        self._cache = SegmentCache(CACHED)

    def upload(self, action: Upload) -> None:
        """Write rows as segments. Answer: Uploaded or UploadFailed."""
        self._take(action)

    def load(self, action: Load) -> None:
        """Read the chains of slots. Answer: Loaded or LoadFailed."""
        self._take(action)

    def prefetch(self, action: Prefetch) -> None:
        """Read the chains of slots that this worker may get, beside all else. Answer: Prefetched."""
        parts = partial(self._parts, action.segments, action.slots, action.after)
        self._reactor.background(lambda: chains_in(parts()), partial(self._read_ahead, action))

    def _take(self, action: Upload | Load) -> None:
        if action.fence < self._newest:
            return
        if action.fence > self._newest:  # what is under way for an older one gives up at its next slice
            self._newest = action.fence
            self._waiting.clear()
            self._under_way = False
        if len(self._waiting) >= MAX_WAITING:
            problem = StoreUnavailable(
                f"{MAX_WAITING} snapshot actions wait for a store that does not keep up"
            )
            # never from within the call (ports.py)
            self._reactor.soon(partial(self._post, _failed(action, problem)))
            return
        self._waiting.append(action)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._waiting and not self._under_way:
            self._under_way = True
            action = self._waiting.popleft()
            work = self._upload if isinstance(action, Upload) else self._load
            self._reactor.background(partial(work, action), partial(self._done, action))  # type: ignore[arg-type]

    def _done(self, action: Upload | Load, result: Event | Exception) -> None:
        # Of an older fence: `_under_way` speaks of the newer one's action by now.
        if action.fence != self._newest:
            return
        self._under_way = False
        self._begin_next()
        if isinstance(result, FlameStreamError):
            self._post(_failed(action, result))
        elif isinstance(result, Exception):
            raise result
        else:
            self._post(result)

    def _read_ahead(self, action: Prefetch, result: list[Chain] | Exception) -> None:
        if isinstance(result, FlameStreamError):
            log.info("the committed snapshot is not at hand: %s", result)
            self._post(Prefetched(action.number, None))
        elif isinstance(result, Exception):
            raise result
        else:
            self._post(Prefetched(action.number, result))

    # --- in a helper thread ---------------------------------------------------------------------------------

    def _upload(self, action: Upload) -> Event:
        merge = list(action.compact) if sum(ref.size for ref in action.compact) <= MAX_MERGE else []
        between = partial(self._between, action.fence)
        # without a merge, one at a time is in memory
        tables: Iterable[Table] = (table_of(rows, between) for rows in _cut(action.rows))
        if merge:
            old = (of_operations(self._table(ref), action.kept) for ref in merge)
            tables = [merged([*old, *tables])]
        segments = [self._put(action, table) for table in tables if table.num_rows]
        # If the epoch is aborted they are asked for once more, and read from the store then.
        for ref in merge:
            self._cache.remove(ref.name)
        held = [self._put(action, table_of(rows, between)) for rows in _cut(action.held)]
        requests = [self._put(action, table_of(rows, between)) for rows in _cut(action.requests)]
        return Uploaded(action.fence, action.epoch, segments, [ref.name for ref in merge], held, requests)

    def _put(self, action: Upload, table: "Table") -> SegmentRef:
        self._between(action.fence)
        name = segment_name(self._prefix, action.epoch, action.fence, self._writer, self._nonce())
        ref = put_segment(self._store, name, table)
        self._cache.add(name, table)
        return ref

    def _table(self, ref: SegmentRef) -> "Table":
        cached = self._cache.get(ref.name)
        return segment_table(self._store, ref) if cached is None else cached

    def _load(self, action: Load) -> Event:
        between = partial(self._between, action.fence)
        parts = self._parts(action.segments, action.slots, action.after, between)
        chains = chains_in(parts, between)
        held = chains_in(self._parts(action.held)) if action.held else ()
        requests = chains_in(self._parts(action.requests)) if action.requests else ()
        return Loaded(action.fence, chains, held, requests)

    def _parts(
        self,
        refs: Sequence[SegmentRef],
        slots: Collection[Slot] | None = None,
        after: int = -1,
        between: Callable[[], None] = pause,
    ) -> list[Part]:
        """The wanted rows of some segments, several read at a time: waiting, checksums and decoding all let
        the interpreter go."""

        def part(ref: SegmentRef) -> Part:
            between()
            return part_of(segment_table(self._store, ref), slots, after, between)

        if len(refs) < 2:
            return [part(ref) for ref in refs]
        with ThreadPoolExecutor(AT_ONCE, "segments") as pool:
            return list(pool.map(part, refs))

    def _between(self, fence: Fence) -> None:
        """Let the loop have the interpreter; give up if nobody waits for the answer any more."""
        if fence != self._newest:
            raise StoreUnavailable(f"given up: attempt {self._newest.attempt} has begun")
        pause()


def segment_name(prefix: str, epoch: Epoch, fence: Fence, writer: str, nonce: str) -> str:
    """A segment's name, of epoch, attempt, writer and a nonce: no two writers ever mean the same object."""
    return f"{prefix}/{epoch:012d}-{fence.attempt}-{writer}-{nonce}.parquet"


def checksum_of(data: bytes | memoryview) -> str:
    """The hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def put_segment(store: ObjectStore, name: str, table: "Table") -> SegmentRef:
    """Have the object `name` hold the table, durably (`put_and_compare`)."""
    data = written(table)
    put_and_compare(store, name, data)
    return SegmentRef(name, len(data), checksum_of(data), table.num_rows, slots_in(table))


def segment_table(store: ObjectStore, ref: SegmentRef) -> "Table":
    """The rows of a segment as an Arrow table (segment.py). Raises Corrupt as `segment_bytes` does."""
    return read_segment(segment_bytes(store, ref), ref.name, verified=True)


def segment_bytes(store: ObjectStore, ref: SegmentRef) -> bytes:
    """The bytes of a segment in the store. Raises Corrupt if they are not what the index says."""
    return checked(store.get(ref.name), ref)


def checked(data: bytes, ref: SegmentRef) -> bytes:
    """The bytes of a segment. Raises Corrupt if they are not what the index says."""
    if len(data) != ref.size or checksum_of(data) != ref.checksum:
        raise Corrupt(
            f"segment {ref.name} is damaged: it has {len(data)} bytes with SHA-256 "
            f"{checksum_of(data)[:16]}..., the index says "
            f"{ref.size} bytes with {ref.checksum[:16]}...; restore it from a backup, "
            "or choose an older snapshot"
        )
    return data


def put_and_compare(store: ObjectStore, name: str, data: bytes | memoryview) -> None:
    """Have `name` hold `data`, durably. An existing object with other bytes is Corrupt; a lost answer is
    settled by reading back and asking again."""
    try:
        created = store.put_new(name, data)
    except StoreUnavailable:
        if not _holds(store, name, data):
            raise
        # That it can be read does not say that it is durable (!): `put_new` does, also of what is there.
        created = store.put_new(name, data)
    if not created and store.get(name) != data:
        raise Corrupt(
            f"object {name!r} exists with other bytes: something else writes to this store; give the job a "
            "folder of its own"
        )


def _holds(store: ObjectStore, name: str, data: bytes | memoryview) -> bool:
    try:
        return store.get(name) == data
    # Corrupt is what a store says of an object that is not there: nothing was written.
    except (StoreUnavailable, Corrupt):
        return False


def _cut(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows in parts of about `SEGMENT_BYTES`; nothing for no rows."""
    start = size = 0
    for end, row in enumerate(rows):
        size += len(row.key) + len(row.state)
        if size > SEGMENT_BYTES and end > start:
            yield rows[start:end]
            start, size = end, len(row.key) + len(row.state)
    if start < len(rows):
        yield rows[start:]


def _failed(action: Upload | Load, error: FlameStreamError) -> Event:
    if isinstance(action, Upload):
        return UploadFailed(action.fence, action.epoch, str(error))
    return LoadFailed(action.fence, error.category, str(error))
