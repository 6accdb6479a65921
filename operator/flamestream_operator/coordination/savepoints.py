"""Savepoints: copies of a committed snapshot that no later commit and no end of the job removes.

A savepoint is an index of its own and copies of the segments that it names, below `savepoints/JOB/NAME/` in
the job's store. A restore copies them back into the new job's part of its store, under names that the job
itself would never use, and writes the index as that job's: only then is there a job record. All calls
block; for helper threads.

Keeps: what is copied is compared with its checksum; a restore of one savepoint into one job twice writes the
same bytes. Does not: hold up the job (its coordinator holds its deletions meanwhile), or decide when.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

import msgspec

from flamestream.core.coordinator.coordination import NO_EPOCH
from flamestream.core.protocol.inventory import known_fronts
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.errors import UserError
from flamestream.model.ids import Attempt, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START
from flamestream.ports import ObjectStore
from flamestream.store.object_names import plain
from flamestream.store.snapshot_index import encode_index, read_index, write_index
from flamestream.store.snapshots import checksum_of, put_and_compare, segment_bytes
from flamestream_operator.coordination.hosting import Savepoint

NOBODY: Final = WorkerId("savepoint")
"""Owns every slot of a record that no worker has ever run under."""


def take(store: ObjectStore, url: str, record: JobRecord, job: str, name: str) -> Savepoint:
    """Copy the snapshot that `record` has committed; where an earlier try has taken this savepoint, that one
    is the answer. Raises UserError if nothing is committed."""
    if not record.index:
        raise UserError(f"job {job!r} has not committed an epoch yet: take the savepoint when it has")
    found = read_index(store, record.index, record.index_hash)
    folder = f"savepoints/{job}/{name}"
    copied, held, requests = (
        _copied(store, store, parts, folder) for parts in (found.segments, found.held, found.requests)
    )
    index = f"{folder}/index.json"
    # last: without it there is no savepoint. One that is there counts (!): an earlier try has made it.
    taken_now = msgspec.structs.replace(found, segments=copied, held=held, requests=requests)
    store.put_new(index, encode_index(taken_now))
    digest = checksum_of(store.get(index))
    taken = read_index(store, index, digest)
    segments = taken.parts
    return Savepoint(
        job=job, name=name, store=url, epoch=taken.epoch, cut=taken.cut, index=index,
        index_hash=digest, graph=taken.graph, size=sum(segment.size for segment in segments),
        objects=len(segments) + 1,
    )  # fmt: skip


def restore(source: ObjectStore, savepoint: Savepoint, target: ObjectStore, job: str) -> JobRecord:
    """The first record of `job`, which begins where `savepoint` was taken. Its objects are in `target`
    then."""
    found = read_index(source, savepoint.index, savepoint.index_hash)
    folder = f"{plain(job)}/restored/{savepoint.name}"
    # another job's sinks have never had anything
    outputs, held = (found.outputs, found.held) if job == savepoint.job else ((), ())
    copied, held, requests = (
        _copied(source, target, parts, folder) for parts in (found.segments, held, found.requests)
    )
    index = msgspec.structs.replace(
        found, job=job, segments=copied, outputs=outputs, held=held, requests=requests
    )
    name = f"{folder}/index.json"
    digest = write_index(target, name, index)
    fronts = known_fronts(found)
    layout = _nobodys(LayoutVersion(0), found.slots, len(fronts))
    # Epochs go on behind the snapshot's: its rows carry their numbers, and only greater ones are newer.
    return JobRecord(
        attempt=Attempt(0), layout=layout, announced=found.epoch, committed=found.epoch, cut=found.cut,
        index=name, index_hash=digest, job=job, writer=f"savepoint {savepoint.name}", fronts=fronts,
    )  # fmt: skip


def delete(store: ObjectStore, savepoint: Savepoint) -> None:
    """Remove it; what is gone already is fine."""
    store.delete(*store.names(f"savepoints/{savepoint.job}/{savepoint.name}/"))


def delete_job(store: ObjectStore, job: str, record: JobRecord | None) -> None:
    """Everything of a job that nobody runs any more, but for its savepoints: its part of the store, and the
    newest index."""
    index = [record.index] if record is not None and record.index else []
    # By a listing, as nothing rests on it any more: a job that runs removes by name alone (!).
    store.delete(*store.names(f"{plain(job)}/"), *index)


def emptied(record: JobRecord) -> JobRecord:
    """The record of a job that begins anew under its name: nothing is committed, nobody has a slot; attempts
    and epochs go on."""
    before = record.layout
    layout = _nobodys(before.version, len(before.owners), len(before.fronts))
    return msgspec.structs.replace(
        record,
        layout=layout,
        committed=NO_EPOCH,
        cut=START,
        index="",
        index_hash="",
        outcome="",
        code="",
        writer="begins anew",
        fronts=(),
    )


def _nobodys(version: LayoutVersion, slots: int, fronts: int) -> Layout:
    return Layout(version, (NOBODY,) * slots, (NOBODY,) * fronts, NOBODY)


def _copied(
    source: ObjectStore, target: ObjectStore, segments: Iterable[SegmentRef], folder: str
) -> tuple[SegmentRef, ...]:
    """Copy the segments into a folder of `target`. What they are called there."""
    copied = []
    for segment in segments:
        # The last part has epoch, attempt, writer and a nonce, so that no two meet here.
        name = f"{folder}/{PurePosixPath(segment.name).name}"
        put_and_compare(target, name, segment_bytes(source, segment))
        copied.append(msgspec.structs.replace(segment, name=name))
    return tuple(copied)
