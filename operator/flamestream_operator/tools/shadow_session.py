"""A session of a shadow in the pod of a trial: it goes on where the pod before has stopped, for SECONDS, and leaves its
place and its state for the next one in the store of the other job.

Keeps: delivers nothing; what it writes is below `shadows/` alone. Does not: say when the next pod comes
(jobs/lifecycle.py), or compare (audit/shadow).
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from flamestream.audit.canary import Canary
from flamestream.audit.shadow import kept
from flamestream.audit.shadow.session import Shadow
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.journal_of import journal_of
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import FlameStreamError, UserError
from flamestream.model.quoted import plain
from flamestream.store.places import store_from
from flamestream.store.zookeeper_access import ZooKeeperAccess

SECONDS: Final = 45.0
"""A pod's; the operator makes the next one when a minute has passed since it made this one."""
LOOK: Final = 0.1


def name_of(checked: CheckedJob, job: str) -> str:
    """The name under which a shadow leaves its state: that of the job beside which it is, and its own."""
    return f"{job}/{checked.job.name}"


@dataclass(frozen=True, slots=True)
class Session:
    """A part of a shadow, in one pod."""

    checked: CheckedJob
    job: str
    """The identity of the job beside which it is."""
    zookeeper: ZooKeeperAccess
    committed: Callable[[], SnapshotIndex | None]

    def run(self, seconds: float = SECONDS) -> Canary:
        """All that it has found, and those before it. An obstacle is a reason why nothing was compared."""
        until = time.monotonic() + seconds
        with TemporaryDirectory(prefix="flamestream-shadow-") as place:
            try:
                shadow = self._begun(Path(place) / "snapshot")
            except FlameStreamError as error:
                return Canary(untried=str(error))
            try:
                while time.monotonic() < until:
                    if not shadow.step(_say):
                        time.sleep(LOOK)
            except UserError as error:
                return Canary(failed=str(error))
            except FlameStreamError as error:
                return Canary(untried=str(error))
            if shadow.has_begun:
                kept.keep(store_from(self.checked.job.store), self._name, shadow.kept)
        return _canary(shadow)

    @property
    def _name(self) -> str:
        return name_of(self.checked, self.job)

    def _begun(self, folder: Path) -> Shadow:
        store = store_from(self.checked.job.store)
        journal = journal_of(self.checked.job, self.zookeeper)
        left = kept.kept_of(store, self._name, self.checked.code)
        shadow = Shadow(self.checked, journal, self.committed, self.committed, folder, self.job, left)
        shadow.say_unread(_say)
        return shadow


def _canary(shadow: Shadow) -> Canary:
    total, last = shadow.total, shadow.last
    behind = "" if last is None else f"; {last.behind:,} behind"
    return Canary(
        records=total.records, epoch=total.epoch, equal=total.equal, differ=total.differ,
        only_before=total.only_before, only_after=total.only_after, new_errors=total.new_errors,
        first_error="" if last is None else last.canary.first_error,
        micros_after=0.0 if last is None else last.canary.micros_after,
        differences=() if last is None else last.canary.differences,
        notes=(f"shadow with a state of its own: {total}{behind}", *(() if last is None else last.canary.notes)),
    )  # fmt: skip


def _say(text: str) -> None:
    sys.stderr.write(f"{plain(text)}\n")
