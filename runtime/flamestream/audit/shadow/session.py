"""A shadow: other code goes from each committed cut of a running job to the next, with a state of its own, and what it
gives is compared with what the job has delivered.

    snapshot -> [cut 1, cut 2) -> [cut 2, cut 3) -> ...      the code's own state goes on
                     |                 |
                 the sinks         the sinks

It begins with a copy of a committed snapshot. Below a committed cut all results are with their consumers, so nothing
is sampled. Each round is a process of its own, and goes as far as it comes in ROUND seconds: a shadow that is slower
than the stream falls behind, says by how much, and begins anew with the newest snapshot when more waits for it than
it may keep, or than journals have.

Keeps: delivers nothing, calls nobody, holds up nobody. Does not: say when it is enough (whoever runs it), or judge what
differs.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from flamestream.audit.canary import Pace, compared
from flamestream.audit.canary_run import code_now, request_of, why_not
from flamestream.audit.canary_start import start
from flamestream.audit.canary_steps import Behind, CanaryRequest, Tried
from flamestream.audit.shadow.delivered import Delivered
from flamestream.audit.shadow.entered import Entered, LeftBehind
from flamestream.audit.shadow.kept import Kept
from flamestream.audit.shadow.total import Round, Total
from flamestream.audit.span_process import tried
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.manifest import Spec
from flamestream.job.validation import CheckedJob
from flamestream.journal.places import JournalConfig
from flamestream.model.time import START, FrontId, Time

ROUND: Final = 10.0
"""Seconds in which records are interpreted."""
AT_MOST: Final = 120.0
"""Seconds that a round has in all, with reading and writing the state."""
MOST_RECORDS: Final = 100_000
"""Records of a round."""
_WITH_CONSUMERS: Final = ("exactly-once", "at-least-once")
"""Guarantees under which all results below a committed cut have left, and of all records."""

Newest = Callable[[], SnapshotIndex | None]


def why_not_own(spec: Spec) -> str:
    """Why no shadow of such a job has a state of its own; "": one may have."""
    if spec.guarantee not in _WITH_CONSUMERS:
        return (
            f"under guarantee: {spec.guarantee} the sinks do not have just the results below a committed cut"
        )
    return why_not(spec, 1)


class Shadow:
    """A shadow of one job, with one code. Only for the main thread."""

    def __init__(
        self, checked: CheckedJob, journal: JournalConfig | None, newest: Newest, committed: Newest, folder: Path,
        job: str = "", kept: Kept | None = None,
    ) -> None:  # fmt: skip
        """`newest`: the newest snapshot, committed or about to be; `committed`: the one that is committed, None
        while that cannot be told; `journal`: where it is reached; `folder`: for a copy of a snapshot; `job`: the
        identity in a cluster; `kept`: it goes on there, and not at the newest snapshot. Raises UserError with the
        reason if there is nothing to begin with."""
        self._checked, self._journal, self._job = checked, journal, job
        self._newest, self._committed, self._folder = newest, committed, folder
        self._until = START
        """Below it all was interpreted."""
        self.total = Total(epoch=self._begin())
        self.last: Round | None = None
        """The last round here."""
        if kept is not None:
            self._take_up(kept)

    @property
    def unread(self) -> Sequence[str]:
        """Sinks that nobody can read back: what goes there is not compared."""
        return self._delivered.unread

    def say_unread(self, say: Callable[[str], None]) -> None:
        """Say of each such sink that it is one."""
        for sink in self.unread:
            say(f"shadow: sink {sink!r} cannot be read back, so what goes there is not compared")

    def step(self, say: Callable[[str], None]) -> bool:
        """The next round, or a new beginning where that has to be, said in words. Whether there was either. Raises
        UserError as `round`, or if there is nothing to begin anew with."""
        try:
            found = self.round()
        except LeftBehind as why:
            say(f"shadow: it begins anew with the newest snapshot: {why}")
            self.begin_anew()
            return True
        if found is not None:
            self.last = found
            say(str(found))
        return found is not None

    @property
    def kept(self) -> Kept:
        """The place and the state with which another one goes on."""
        span = self._request.span
        return Kept(
            code=span.code, since=span.begin, until=self._until,
            places=self._entered.places, awaited=self._request.awaited, state=span.state, total=self.total,
        )  # fmt: skip

    @property
    def has_begun(self) -> bool:
        """Whether it has a state of its own: there was a round."""
        return self._request.span.savepoint is None

    def look(self) -> None:
        """Note what is new; to be called often. Raises LeftBehind."""
        self._entered.look()

    def round(self) -> Round | None:
        """The next one; None: nothing has come, and is committed, behind its place. Raises UserError if the code does
        not come to an end; LeftBehind if it can only `begin_anew`."""
        self.look()
        index = self._committed()
        if index is None or index.cut <= self._until:
            return None
        # (!) behind the commit: all runs below its cut are in the journal by now, or trimmed
        self._entered.look(due=True)
        behind = self._entered.below(index)
        if not any(each.there or each.entries for each in behind):
            self._until = index.cut
            return None
        self._delivered.look()
        found = tried(self._asked(behind, index.cut), AT_MOST, self.look)
        self._goes_on(found, index)
        results, errors = self._delivered.take(self._until)
        ours = [row for row in found.results if self._delivered.compares(row.sink)]
        canary = compared(
            Tried(results=results, errors=errors, until=self._until, records=found.records),
            msgspec.structs.replace(found, results=ours, until=self._until),
            Pace(self._rate(index), self._checked.job.spec.workers.least), index.epoch,
        )  # fmt: skip
        self.total = self.total.plus(canary)
        return Round(canary, self._records_at(index) - self._passed, self.total)

    def begin_anew(self) -> None:
        """With the newest snapshot. Raises as the constructor."""
        self._begin()
        self.total = self.total.anew()

    def _begin(self) -> int:
        """The epoch whose snapshot it is."""
        shutil.rmtree(self._folder, ignore_errors=True)
        begins = start(self._checked, self._job, self._journal, self._newest, 0, self._folder)
        index, behind = begins.savepoint.index, begins.behind
        self._request: CanaryRequest = request_of(
            self._checked, begins, code_now(self._checked), MOST_RECORDS
        )
        self._until = index.cut
        self._seen: tuple[float, SnapshotIndex] = (time.monotonic(), index)
        self._fronts: dict[FrontId, bool] = {
            each.source.front.front: each.source.front.of_call for each in behind
        }
        self._entered: Entered = Entered(behind, index.cut)
        self._delivered: Delivered = Delivered(self._checked, index.cut, self._job)
        return begins.epoch

    def _take_up(self, kept: Kept) -> None:
        """Go on where another process has stopped. Runs that were trimmed since are met by the first look."""
        self.total, self._until = kept.total, kept.until
        span = msgspec.structs.replace(self._request.span, begin=kept.since, savepoint=None, state=kept.state)
        self._request = msgspec.structs.replace(self._request, span=span, awaited=kept.awaited)
        self._entered = Entered(self._entered.places_at(kept.places), kept.until)
        self._delivered = Delivered(self._checked, kept.until, self._job)

    def _asked(self, behind: tuple[Behind, ...], end: Time) -> CanaryRequest:
        span = msgspec.structs.replace(self._request.span, end=end)
        return msgspec.structs.replace(self._request, span=span, behind=behind, within=ROUND, goes_on=True)

    def _goes_on(self, found: Tried, index: SnapshotIndex) -> None:
        """Behind what a round has come to: with its state, at its places."""
        self._until = index.cut if found.through else found.until
        self._entered.pass_by(self._until, found.places)
        span = msgspec.structs.replace(self._request.span, savepoint=None, state=found.state)
        self._request = msgspec.structs.replace(self._request, span=span, awaited=found.awaited)

    def _records_at(self, index: SnapshotIndex) -> int:
        """Records, and answers, that had entered the job at a cut."""
        return sum(each.records for each in index.fronts if each.front in self._fronts)

    @property
    def _passed(self) -> int:
        """The same of its place."""
        return sum(place.records for place in self._entered.places)

    def _rate(self, index: SnapshotIndex) -> float:
        """Records a second that have entered since the commit before."""
        (then, before), self._seen = self._seen, (time.monotonic(), index)
        sources = [front for front, of_call in self._fronts.items() if not of_call]
        now, once = (
            sum(each.records for each in its.fronts if each.front in sources) for its in (index, before)
        )
        return (now - once) / max(self._seen[0] - then, 1.0)
