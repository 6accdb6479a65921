"""The simulated object store, and the way of segments into it and out.

The store keeps its promise (create-if-absent, no part of an object is ever visible) and nothing more: it may answer with an error
after it has stored, not answer, store much later, be slow, be full, or damage what it holds. Whoever writes tries a few times, reads
back and compares, and then says that it failed.

Does not: fail to notice damage; a damaged segment is an error with its name, which the broken variant "ignored checksum" shows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from flamestream.core.actions import Load, Upload
from flamestream.core.chain import Chain, Row, chains_of
from flamestream.core.events import Event, Loaded, LoadFailed, Uploaded, UploadFailed
from flamestream.core.messages import SegmentRef
from flamestream.model.ids import Slot
from flamestream.testing.faults import Fault
from flamestream.testing.world import World

MAX_TRIES = 4

_rows = msgspec.msgpack.Decoder(list[Row])


@dataclass(frozen=True, slots=True)
class StoreError:
    """`corrupt`: the object is not there (and must be). Else the store is away, and whether a write took effect is unknown."""

    message: str
    corrupt: bool = False


Answer = Callable[[bytes | StoreError], None]


class Store:
    """Immutable named objects."""

    def __init__(self, world: World, delay: int) -> None:
        self.world = world
        self.objects: dict[str, bytes] = {}
        self.damaged: set[str] = set()
        self.full_until = 0
        self.deleting: Callable[[str], None] = lambda name: None
        self._delay = delay
        self._listing: list[str] = []

    def put_new(self, name: str, data: bytes, answer: Answer) -> None:
        """Create; the answer is what the object holds afterwards (another's bytes if it was there), or an error."""
        world, delay = self.world, self._time()
        if world.hits(Fault.STORE_TIMEOUT):
            world.after(delay * 10, answer, StoreError("timeout"))
        elif world.hits(Fault.STORE_TORN_UPLOAD):
            world.after(delay, answer, StoreError("connection reset during upload"))
        elif world.hits(Fault.STORE_LATE_WRITE):
            world.after(delay * 10, answer, StoreError("timeout"))
            world.after(delay * world.between(5, 60), self._write_late, name, data)
        else:
            world.after(delay, self._put, name, data, answer)

    def get(self, name: str, answer: Answer) -> None:
        """Its bytes, or an error."""
        if self.world.hits(Fault.STORE_TIMEOUT):
            self.world.after(self._time() * 10, answer, StoreError("timeout"))
        else:
            self.world.after(self._time(), lambda: answer(self.objects.get(name, StoreError(f"there is no object {name}", corrupt=True))))

    def delete(self, name: str) -> None:
        """At once, or late, or not at all: nobody waits for it."""
        if self.world.hits(Fault.STORE_DELETE_FAILED):
            return
        if self.world.hits(Fault.STORE_DELETE_LATE):
            self.world.after(self._time() * self.world.between(5, 200), self._delete, name)
        else:
            self._delete(name)

    def _delete(self, name: str) -> None:
        self.deleting(name)
        self.objects.pop(name, None)

    def names(self) -> list[str]:
        """For people; may be stale."""
        if not self.world.hits(Fault.STORE_STALE_LISTING):
            self._listing = sorted(self.objects)
        return self._listing

    def damage(self, name: str) -> None:
        """Flip a bit."""
        data = bytearray(self.objects[name])
        if data:
            data[self.world.between(0, len(data))] ^= 1 << self.world.between(0, 8)
            self.objects[name] = bytes(data)
            self.damaged.add(name)
            self.world.faults.happened(Fault.STORE_DAMAGE)

    def fill(self, lasts: int) -> None:
        """Nothing can be stored for a while."""
        self.full_until = self.world.now + lasts
        self.world.faults.happened(Fault.STORE_FULL)

    def heal(self) -> None:
        """There is room again. Damage stays."""
        self.full_until = 0

    def _time(self) -> int:
        usual = self.world.between(self._delay // 2, 2 * self._delay)
        return usual * 20 if self.world.hits(Fault.STORE_SLOW) else usual

    def _create(self, name: str, data: bytes) -> bool:
        if self.world.now < self.full_until:
            return False
        self.objects.setdefault(name, data)
        return True

    def _write_late(self, name: str, data: bytes) -> None:
        self._create(name, data)

    def _put(self, name: str, data: bytes, answer: Answer) -> None:
        if not self._create(name, data):
            answer(StoreError("no space left on device"))
        elif self.world.hits(Fault.STORE_ERROR_AFTER_SUCCESS):
            answer(StoreError("internal error"))
        else:
            answer(self.objects[name])


def store_surely(store: Store, name: str, data: bytes, done: Callable[[str], None], tries: int = MAX_TRIES) -> None:
    """Create `name`; after any doubt read back and compare. `done` gets "" or what is wrong."""

    def written(result: bytes | StoreError) -> None:
        if result == data:
            done("")
        elif isinstance(result, bytes):
            done(f"{name} exists with other bytes")
        elif tries <= 1:
            done(f"{name}: {result.message}")
        else:
            store.world.trace.cover("store.write tried again")
            store_surely(store, name, data, done, tries - 1)

    store.put_new(name, data, written)


def fetch_surely(store: Store, name: str, done: Answer, tries: int = MAX_TRIES) -> None:
    """Read `name`, trying again while the store is away."""

    def read(result: bytes | StoreError) -> None:
        if isinstance(result, bytes) or result.corrupt or tries <= 1:
            done(result)
        else:
            fetch_surely(store, name, done, tries - 1)

    store.get(name, read)


def checksum(data: bytes) -> str:
    """What refs and the job record carry."""
    return sha256(data).hexdigest()


def damaged(data: bytes, ref: SegmentRef) -> bool:
    """Whether a segment is not what was written."""
    return checksum(data) != ref.checksum


def checked_rows(data: bytes, ref: SegmentRef) -> list[Row]:
    """The rows of a segment. Raises ValueError if it is not what was written."""
    if damaged(data, ref):
        raise ValueError("its checksum is wrong")
    return decode_rows(data)


def decode_rows(data: bytes) -> list[Row]:
    """The rows of a segment."""
    return _rows.decode(data)


class SnapshotPort:
    """One worker process's access to segments (`ports.Snapshots`)."""

    def __init__(self, store: Store, writer: str, post: Callable[[Event], None]) -> None:
        self._store = store
        self._writer = writer
        self._post = post
        self._alive = True
        self._nonce = 0

    def close(self) -> None:
        """The process is gone."""
        self._alive = False

    def upload(self, action: Upload) -> None:
        """One segment of the new rows, or of them merged with what they make superfluous."""
        if action.compact:
            self._read(action.compact, lambda result: self._merge(action, result))
        else:
            self._write(action, list(action.rows), [])

    def load(self, action: Load) -> None:
        """Chains of the slots asked for, checked."""

        def done(result: list[Row] | StoreError) -> None:
            if isinstance(result, StoreError):
                self._say(LoadFailed(action.fence, "corrupt" if result.corrupt else "retryable", result.message))
            else:
                slots = set(action.slots)
                chains = chains_of(row for row in result if row.slot in slots)
                self._read(action.held, lambda held: loaded(chains, held))

        def loaded(chains: list[Chain], held: list[Row] | StoreError) -> None:
            if isinstance(held, StoreError):
                self._say(LoadFailed(action.fence, "corrupt" if held.corrupt else "retryable", held.message))
            else:
                self._say(Loaded(action.fence, chains, chains_of(held)))

        self._read(action.segments, done)

    def _merge(self, action: Upload, result: list[Row] | StoreError) -> None:
        if isinstance(result, StoreError):
            self._say(UploadFailed(action.fence, action.epoch, result.message))
            return
        self._store.world.trace.cover("snapshot.compacted")
        self._write(action, compacted([*result, *action.rows]), [ref.name for ref in action.compact])

    def _write(self, action: Upload, rows: list[Row], replaced: list[str]) -> None:
        def written(segments: list[SegmentRef]) -> None:
            self._put(action, action.held, lambda held: self._say(Uploaded(action.fence, action.epoch, segments, replaced, held)))

        if rows or action.held:
            self._put(action, rows, written)
        else:
            self._store.world.after(1, self._say, Uploaded(action.fence, action.epoch, [], replaced))

    def _put(self, action: Upload, rows: Sequence[Row], written: Callable[[list[SegmentRef]], None]) -> None:
        """One segment, if there are rows."""
        if not rows:
            written([])
            return
        self._nonce += 1
        name = f"segments/e{action.epoch}-a{action.fence.attempt}-{self._writer}-{self._nonce}"
        data = msgspec.msgpack.encode(rows)
        slots = tuple(Slot(slot) for slot in sorted({row.slot for row in rows}))
        ref = SegmentRef(name, len(data), checksum(data), len(rows), slots)

        def done(problem: str) -> None:
            if problem:
                self._store.world.trace.cover("snapshot.upload failed")
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
                except ValueError as error:
                    done(StoreError(f"segment {ref.name} is damaged: {error}", corrupt=True))
                else:
                    next_one()

            fetch_surely(self._store, ref.name, read)

        self._store.world.after(1, next_one)

    def _say(self, event: Event) -> None:
        if self._alive:
            self._post(event)


def compacted(rows: Sequence[Row]) -> list[Row]:
    """Without rows that a newer full row of the same key makes superfluous."""
    newest: dict[tuple[int, bytes], int] = {}
    for row in rows:
        if row.full:
            key = (row.operation, row.key)
            newest[key] = max(newest.get(key, 0), row.epoch)
    return [row for row in rows if row.epoch >= newest.get((row.operation, row.key), 0)]
