"""The simulated object store.

It keeps its promise (create-if-absent, no part of an object is ever visible) and nothing more: it may answer
with an error after it has stored, not answer, store much later, be slow, be full, or damage what it holds.
Whoever writes tries a few times, reads back and compares, and then says that it failed.

Does not: know what objects hold (snapshots.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from flamestream.model.errors import Corrupt, StoreUnavailable
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

MAX_TRIES = 4


@dataclass(frozen=True, slots=True)
class StoreError:
    """`corrupt`: the object is not there (and must be). Else the store is away, and whether a write took
    effect is unknown."""

    message: str
    corrupt: bool = False


Answer = Callable[[bytes | StoreError], None]


class Store:
    """Immutable named objects."""

    def __init__(self, world: World, delay: int, parquet: bool) -> None:
        self.world = world
        self.parquet = parquet
        """Segments are what they really are, not packed rows."""
        self.objects: dict[str, bytes] = {}
        self.damaged: set[str] = set()
        self.full_until = 0
        self.deleting: Callable[[str], None] = lambda name: None
        self._delay = delay
        self._listing: list[str] = []

    def put_new(self, name: str, data: bytes, answer: Answer) -> None:
        """Create; the answer is what the object holds afterwards (another's bytes if it was there), or an
        error."""
        world, delay = self.world, self.time()
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
        """Answer with an object's bytes, or with an error."""
        if self.world.hits(Fault.STORE_TIMEOUT):
            self.world.after(self.time() * 10, answer, StoreError("timeout"))
        else:
            self.world.after(
                self.time(),
                lambda: answer(
                    self.objects.get(name, StoreError(f"there is no object {name}", corrupt=True))
                ),
            )

    def get_now(self, name: str) -> bytes:
        """Bytes of an object, for a helper thread that waits for them. Raises as `ports.ObjectStore.get`."""
        if self.world.hits(Fault.STORE_TIMEOUT):
            raise StoreUnavailable("timeout")
        if name not in self.objects:
            raise Corrupt(f"there is no object {name}")
        return self.objects[name]

    def delete(self, name: str) -> None:
        """At once, or late, or not at all: nobody waits for it."""
        if self.world.hits(Fault.STORE_DELETE_FAILED):
            return
        if self.world.hits(Fault.STORE_DELETE_LATE):
            self.world.after(self.time() * self.world.between(5, 200), self._delete, name)
        else:
            self._delete(name)

    def _delete(self, name: str) -> None:
        self.deleting(name)
        self.objects.pop(name, None)

    def names(self) -> list[str]:
        """A listing for people, which may be stale."""
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

    def time(self) -> int:
        """The duration of a request, in microseconds."""
        usual = self.world.between(self._delay // 2, 2 * self._delay)
        return usual * 20 if self.world.hits(Fault.STORE_SLOW) else usual

    def _create(self, name: str, data: bytes) -> bool:
        if self.world.now < self.full_until:
            return False
        self.objects.setdefault(name, data)  # create-if-absent is all that a store promises (!)
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


def store_surely(
    store: Store, name: str, data: bytes, done: Callable[[str], None], tries: int = MAX_TRIES
) -> None:
    """Create `name`; after any doubt read back and compare. `done` gets "" or what is wrong."""

    def written(result: bytes | StoreError) -> None:
        # Also if an earlier try has stored it, and its answer was lost.
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
    """The checksum that refs and the job record carry."""
    return sha256(data).hexdigest()
