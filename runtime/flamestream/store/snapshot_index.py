"""Snapshot indexes in the object store: what a committed snapshot consists of, and how objects leave the
store.

An index is JSON, written once under its name; the job record holds the name and the SHA-256 of its bytes,
so an index that is damaged, exchanged or half written is told from the committed one. For the coordinator's
shell; all calls block.

Keeps: what `read_index` gives is what was committed (invariant 4). Does not: choose names or decide what
is superfluous. Format: docs/reference/formats.md.
"""

from collections.abc import Sequence

import msgspec

from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, StoreUnavailable
from flamestream.model.payloads.older import know
from flamestream.model.time import moment, timestamp_of
from flamestream.ports import ObjectStore
from flamestream.store.snapshots import checksum_of, put_and_compare


def encode_index(index: SnapshotIndex) -> bytes:
    """The bytes of an index: equal indexes have equal ones."""
    return msgspec.json.format(msgspec.json.encode(index, order="deterministic"), indent=1)


def write_index(store: ObjectStore, name: str, index: SnapshotIndex) -> str:
    """Create an index, durably, and return its hash. Writing the same again is fine; other bytes under the
    name are Corrupt."""
    data = encode_index(index)
    put_and_compare(store, name, data)
    return checksum_of(data)


def read_index(store: ObjectStore, name: str, expected_hash: str) -> SnapshotIndex:
    """The index whose hash the job record has. Raises Corrupt if it is another."""
    data = store.get(name)
    if checksum_of(data) != expected_hash:
        raise Corrupt(
            f"index {name} is damaged or foreign: its SHA-256 is {checksum_of(data)[:16]}..., "
            f"the job record says {expected_hash[:16]}...; restore it from a backup"
        )
    try:
        return index_of(data)
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"index {name} was written by another version: {error}; "
            "resume the job with the version that wrote it"
        ) from error


def index_of(data: bytes) -> SnapshotIndex:
    """The index with these bytes. Values of the classes that it names can be read from now on, with the fields
    that they had. Raises DecodeError."""
    index = from_json(data, SnapshotIndex)
    if index.inventory is not None:
        know(index.inventory.classes or ())
    return index


def delete_objects(store: ObjectStore, names: Sequence[str]) -> Sequence[str]:
    """Remove objects; absent ones are fine. The names that may be left: orphans, harmless but for their
    room."""
    try:
        store.delete(*names)
    except StoreUnavailable:
        return names
    return ()


def summary_of(name: str, index: SnapshotIndex) -> dict[str, object]:
    """A snapshot in a listing."""
    return {
        "name": name,
        "epoch": index.epoch,
        "attempt": index.fence.attempt,
        "cut": moment(timestamp_of(index.cut)),
        "segments": len(index.segments),
        "rows": sum(segment.rows for segment in index.segments),
        "bytes": sum(segment.size for segment in index.segments),
    }
