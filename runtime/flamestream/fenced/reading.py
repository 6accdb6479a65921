"""The reader of a files sink, for people and audits: every bundle that counts, or all items in the total
order.

A reader takes no lock and writes nothing. It notes which logs count and how far, makes sure that no fence was
announced meanwhile (then it looks again), and reads up to there: everything it gives was or will be
acknowledged, and stays. Sequence numbers are checked on the way, so a lost log is an error and not a gap.

Keeps: per slot, bundles come in the order of their numbers, each once. Does not: follow a sink that grows
while it is read.
"""

from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from heapq import merge
from io import FileIO
from pathlib import Path
from typing import Any, Final

from flamestream.fenced.fences import Counted, FencedFolder, ordered_logs
from flamestream.fenced.log import Delivered, Record, scan
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.model.payload import decode_items

CACHED_RECORDS: Final = 1024
_LOOKS: Final = 20

Item = tuple[Meta, Slot, SequenceNumber, Any]
"""An item that was delivered: meta, slot, sequence of its bundle, payload."""
Written = tuple[Slot, SequenceNumber, int]
"""A bundle, and when it was written: microseconds since 1970, by the writer's clock."""


def read_all(folder: Path) -> Iterator[Delivered]:
    """Every bundle that counts, log by log. Raises Corrupt where one is missing."""
    for _, record in _records(folder):
        yield from record.delivery.bundles


def read_items(folder: Path, of: tuple[str, str] | None = None) -> Iterator[Item]:
    """All items in the total order. Holds two numbers a bundle, and some records. Raises UserError if they
    are not `of` a job and sink."""
    if of is not None:
        check_owner(str(folder), of, owner_of(folder))
    logs: list[str] = []
    where: dict[Slot, array[int]] = {}
    for name, record in _records(folder):
        if not logs or logs[-1] != name:
            logs.append(name)
        # Once a record: `_items_of` takes all bundles of a slot that are in it.
        for slot in dict.fromkeys(bundle[0] for bundle in record.delivery.bundles):
            where.setdefault(slot, array("q")).extend((len(logs) - 1, record.start))

    # A record has bundles of many slots, and the merge comes to them at about the same time.
    @lru_cache(CACHED_RECORDS)
    def bundles_at(log: int, start: int) -> list[Delivered]:
        with FileIO(folder / logs[log]) as file:
            return next(scan(file, logs[log], start)).delivery.bundles

    return merge(
        *(_items_of(slot, places, bundles_at) for slot, places in where.items()), key=lambda item: item[0]
    )


def read_moments(folder: Path) -> Iterator[Written]:
    """When each bundle was written, as far as its record says it."""
    for _, record in _records(folder):
        if moment := record.delivery.written:
            for slot, sequence, *_ in record.delivery.bundles:
                yield slot, sequence, moment


def _items_of(
    slot: Slot, places: "array[int]", bundles_at: Callable[[int, int], list[Delivered]]
) -> Iterator[Item]:
    for i in range(0, len(places), 2):
        for found, sequence, _, items in bundles_at(places[i], places[i + 1]):
            if found == slot:
                for meta, value in decode_items(items):
                    yield Meta(meta), slot, sequence, value


def _records(folder: Path) -> Iterator[tuple[str, Record]]:
    counted = counted_now(FencedFolder(folder))
    had: dict[Slot, int] = {}
    for name in ordered_logs(counted.lengths):
        for record in _log(folder / name, counted.lengths[name]):
            for slot, sequence, *_ in record.delivery.bundles:
                if sequence != had.get(slot, 0) + 1:
                    raise Corrupt(
                        f"{folder / name}: bundle {sequence} of slot {slot} follows {had.get(slot, 0)}: "
                        "is a log missing?"
                    )
                had[slot] = sequence
            yield name, record


def _log(path: Path, length: int) -> Iterator[Record]:
    try:
        with FileIO(path) as file:
            yield from scan(file, str(path), 0, length)
    except FileNotFoundError:
        raise Corrupt(f"{path} is gone, and {length} bytes of it count; restore it from a backup") from None


def check_owner(place: str, of: tuple[str, str], found: tuple[str, str]) -> None:
    """Raises UserError if `place` holds what another job or sink has written."""
    if found != of:
        raise UserError(
            f"{place} holds the output of job {found[0]!r}, sink {found[1]!r}, and not that of job "
            f"{of[0]!r}, sink {of[1]!r}: has its path in the manifest changed?"
        )


def owner_of(folder: Path) -> tuple[str, str]:
    """The job and sink whose output a folder holds. Raises Corrupt if it is not the folder of a files
    sink."""
    try:
        found = FencedFolder(folder).owner()
    except FileNotFoundError:
        raise _unopened(folder) from None
    return found.job, found.sink


def counted_now(folder: FencedFolder) -> Counted:
    """Everything that counts now: stable, unless recoveries come faster than it looks; then that of the last
    look."""
    try:
        folder.owner()
        for _ in range(_LOOKS):
            newest = folder.newest_announced()
            counted = folder.counted()
            if folder.newest_announced() == newest:
                break
    except FileNotFoundError:
        raise _unopened(folder.root) from None
    return counted


def _unopened(folder: Path) -> Corrupt:
    return Corrupt(
        f"{folder} is not the folder of a files sink: it has no sink.msgpack or no fences; has the job run?"
    )
