"""Where both codes of a canary begin: the committed snapshot, copied, and what has entered behind its cut.

    snapshot of epoch 7 | records behind its cut, up to what can be read now -> both codes

A commit removes the snapshot before it, and trims journals below its cut. So the newest one is all that there is
to begin with, and what came before is read by nobody. It is copied, for two processes to read it while the
stream goes on; journals are read while it is the newest, so nothing of what they had above the cut is gone. A
source that is read in an order of its own has as many records as are asked for, whether the job has come to them
or not.

Keeps: both codes have one state and the same records in one order; what is read is bounded. Does not: read
records, which are of classes of the code (canary_steps.py).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from flamestream.audit.canary_steps import Behind
from flamestream.audit.committed import Savepoint
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.recorded import recorded_sources
from flamestream.job.validation import CheckedJob
from flamestream.journal.places import JournalConfig
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import START, Time, timestamp_of
from flamestream.store.folder import LocalStore
from flamestream.store.places import store_from

MOST_STATE: Final = 64 << 20
"""Bytes of a snapshot: its values are objects in two processes, one behind the other."""
LOOKS: Final = 20
"""How often a snapshot is read that a newer commit has removed meanwhile."""
PATIENCE: Final = 2.0
"""Seconds for which more records are waited for, where journals have fewer than are asked for."""
PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a canary."""

    savepoint: Savepoint
    behind: tuple[Behind, ...]
    rate: float
    """Journalled records a second behind the cut; 0: there are none."""
    began: float
    """When it was, on the monotonic clock."""

    @property
    def epoch(self) -> int:
        return self.savepoint.index.epoch

    @property
    def journalled(self) -> int:
        """Records in journals."""
        return sum(_count(each.entries or ()) for each in self.behind)

    def pace(self, newest: SnapshotIndex | None) -> float:
        """Records a second: of journals, or else by how many more the `newest` snapshot has now; 0: none came."""
        if self.rate or newest is None:
            return self.rate
        came = self._entered(newest) - self._entered(self.savepoint.index)
        return max(0, came) / max(time.monotonic() - self.began, PAUSE)

    def _entered(self, index: SnapshotIndex) -> int:
        fronts = {each.source.front.front for each in self.behind if not each.source.front.of_call}
        return sum(each.records for each in index.fronts if each.front in fronts)


def start(
    checked: CheckedJob, job: str, journal: JournalConfig | None, newest: Callable[[], SnapshotIndex | None],
    most: int, folder: Path,
) -> Start:  # fmt: skip
    """The beginning for the next `most` records. `job`: its identity; `newest` gives the committed snapshot, which
    goes to `folder`. Raises UserError with the reason if there is none, and Corrupt."""
    found, until = None, time.monotonic() + PATIENCE
    for _ in range(LOOKS):
        if (index := newest()) is None:
            raise UserError("the job has saved nothing yet")
        try:
            made = _started(checked, job, journal, index, most, folder)
        except Corrupt:
            if newest() == index:  # (!) nobody has committed meanwhile: it is really damaged
                raise
            continue
        # (!) Behind a newer commit the journals may have been trimmed when they were read.
        if newest() == index and (found is None or made.journalled > found.journalled):
            found = made
        if found is None:
            continue
        timed = any(each.entries is None for each in found.behind)
        if timed or found.journalled >= most or time.monotonic() > until:
            return found
        time.sleep(PAUSE)
    if found is None:
        raise UserError("epochs are committed faster than a snapshot can be read")
    return found


def _started(
    checked: CheckedJob, job: str, journal: JournalConfig | None, index: SnapshotIndex, most: int, folder: Path
) -> Start:  # fmt: skip
    names = () if index.inventory is None else index.inventory.fronts
    if not names:
        raise UserError(
            "its snapshot is of an older release, which has not written down whose its fronts are"
        )
    size = sum(ref.size for ref in index.segments)
    if size > MOST_STATE:
        raise UserError(f"its snapshot has {size >> 20:,} MiB, and a canary reads {MOST_STATE >> 20} at most")
    _copy(index, checked.job.store, folder)
    positions = {each.front: each for each in index.fronts}
    known = replace(checked, known=tuple(KnownFront(name) for name in names))
    behind = [
        _behind(replace(source, journal=journal), index, most)
        for source in recorded_sources(known, job)
        # who has no place there yet is new, and has no records
        if source.front.front in positions
    ]
    return Start(Savepoint("", str(folder), index), tuple(behind), _rate(behind, index.cut), time.monotonic())


def _behind(source: RecordedSource, index: SnapshotIndex, most: int) -> Behind:
    position = next(each for each in index.fronts if each.front == source.front.front)
    if source.front.timed:
        return Behind(source, position)
    if source.journal is None:
        raise UserError(
            f"which records of source {source.front.source!r} have entered is written nowhere: its job has no journal"
        )
    return Behind(source, position, tuple(_first(source.entries_from(index.cut), most)))


def _first(entries: Sequence[Entry], most: int) -> list[Entry]:
    """Whole runs, until there are `most` records."""
    taken, count = list[Entry](), 0
    for entry in entries:
        if count >= most:
            break
        taken.append(entry)
        count += entry.count
    return taken


def _copy(index: SnapshotIndex, store: str, folder: Path) -> None:
    """Copy the segments that a look before has not."""
    there, here = store_from(store), LocalStore(folder, create=True, durable=False)
    for ref in index.segments:
        if not (folder / ref.name).exists():
            here.put_new(ref.name, there.get(ref.name))


def _rate(behind: Sequence[Behind], cut: Time) -> float:
    entries = [entry for each in behind if not each.source.front.of_call for entry in each.entries or ()]
    last = max((entry.time for entry in entries), default=START)
    span = timestamp_of(last) - timestamp_of(cut)
    return _count(entries) * 1e6 / span if span > 0 else 0.0


def _count(entries: Sequence[Entry]) -> int:
    return sum(entry.count for entry in entries)
