"""A job that goes on, and other code for it: all that a shadow has beside it, made up here.

It has delivered BEGIN runs of ten, and delivers and commits more when it is told (`commit`).

Does not: run anything, or compare.
"""

from pathlib import Path

import msgspec

from flamestream.audit.shadow.kept import Kept
from flamestream.audit.shadow.session import Shadow
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.snapshot import FrontPosition, SnapshotIndex
from flamestream.job.journal_of import journal_of
from flamestream.job.settings import inventory
from flamestream.model.ids import Epoch, Offset, Partition
from flamestream.model.payload import encode
from flamestream.model.payloads.state import encode_state
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of
from flamestream.store.snapshots import put_segment
from support.runs.past_run import (
    FRONT,
    WORDS,
    Kind,
    PastRun,
    deliver,
    finished,
    run_time,
    slot_of_word,
)

BEGIN = 4
"""Runs below the cut with which it begins; there are ten."""


class ShadowedJob:
    """A job that goes on: it has delivered BEGIN runs, and commits when it is told; and other code for it."""

    def __init__(self, folder: Path, *edits: tuple[str, str], kind: Kind = "followed") -> None:
        length = 64 if kind == "timed" else 4
        self.past: PastRun = finished(kind, 10 * length)
        self.results, self.past.given = self.past.given, self.past.given[:BEGIN]
        self.sink = {"files": {"path": str(folder / "out"), "fsync": False}}
        first = self.past.leave(folder, self.sink)
        self.fronts = inventory(first)
        store = LocalStore(folder / "snapshots", create=True, durable=False)
        below = [line.split()[0] for line in self.past.lines[: BEGIN * length]]
        (operation,) = first.graph.operations
        rows = [
            Row(operation.number, slot_of_word(word), encode(word), Epoch(1), True, encode_state(below.count(word)))
            for word in WORDS
        ]  # fmt: skip
        self.segments = (put_segment(store, "segments/one", table_of(rows)),)
        self.index = self.at(BEGIN)
        self.checked = self.past.edited(first, edits)
        self.folder = folder

    def at(self, runs: int) -> SnapshotIndex:
        """The snapshot with so many runs below its cut."""
        found = self.past.index()
        assert found is not None
        records = runs * self.past.length
        offsets = {Partition(name): Offset(records) for name in self.past.positions}
        place = FrontPosition(FRONT, run_time(runs - 1), offsets, records=records)
        return msgspec.structs.replace(
            found, epoch=Epoch(runs), cut=run_time(runs), fronts=(place,), segments=self.segments, inventory=self.fronts
        )  # fmt: skip

    def commit(self, runs: int) -> None:
        """All that comes of so many runs is delivered, and they are below the cut."""
        had = self.index.epoch
        deliver(self.sink, self.results[had:runs], attempt=runs)
        self.index = self.at(runs)

    def shadow(self, kept: Kept | None = None) -> Shadow:
        """One that begins now, or goes on."""
        return Shadow(
            self.checked, journal_of(self.checked.job), lambda: self.index, lambda: self.index, self.folder / "copy",
            kept=kept,
        )  # fmt: skip
