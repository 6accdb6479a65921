"""Gathering: what a new coordinator does before it has recovered or adopted anything.

If every worker of the record's layout reports that it runs under the record's fence, the stream is adopted as
it is: nobody is disturbed. One write of the record (its `writer`) makes sure that no write of the predecessor
can come through after that. If they are all there but not all running, or do not come within the discovery
time, a recovery begins: at once if some are there, otherwise when as many workers are there as the job wants
(or it has been waited for them long enough).

Keeps: taking over never disturbs a running stream. Does not: recover (healing.py).
"""

import msgspec

from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.healing import Healing
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.time import Instant


class Gathering:
    """Waits for workers, from the moment the record is known."""

    def __init__(self, context: Context, healing: Healing) -> None:
        self.since = Instant(0)
        self._first: Instant | None = None
        """The moment at which the first worker was there."""
        self._context, self._healing = context, healing
        self.adopted = False

    def go_on(self) -> None:
        """Adopt, or begin the first recovery, or wait. `adopted` is set when the adoption is certain."""
        context, record = self._context, self._context.keeper.record
        if self._first is None and context.members.connected:
            self._first = context.time.now
        if not context.keeper.idle:
            return
        survivors = [worker for worker in context.workers if worker in context.members]
        if record and self._all_running(record):
            # (!) the predecessor's last write may still be on its way: behind this one it is a conflict
            context.keeper.write(msgspec.structs.replace(record, writer=context.nonce), self._adopt)
        elif not self._awaits_members():
            # with survivors `_awaits_members` has waited for the others already
            waited = bool(survivors) or context.time.due_in(self.since, context.settings.gather_us)
            if chosen := self._healing.successors(waited=waited):
                self._healing.recover(chosen, "start", self.since, "start")

    def _all_running(self, record: JobRecord) -> bool:
        if self._context.members.lost(record.layout.workers):
            return False
        # Who has handed the job over may still have workers that do not know.
        return not record.outcome and self._runs_what_is_there(record)

    def _runs_what_is_there(self, record: JobRecord) -> bool:
        members = self._context.members
        hellos = [members[worker].hello for worker in record.layout.workers if worker in members]
        return all(hello.ready and hello.fence == record.fence for hello in hellos)

    def _awaits_members(self) -> bool:
        """Whether a worker of the layout that is not there may still come."""
        context = self._context
        record = context.keeper.record
        # Of a job that was handed over nobody comes who could take part.
        over = context.members.all_gone(context.workers) or bool(record is not None and record.outcome)
        if over or not context.members.lost(context.workers):
            return False
        # `max`: a worker may have come before the record was known, when nobody could say who is missed
        settled = self._first is not None and context.time.due_in(
            max(self._first, self.since), context.settings.settle_us
        )
        return not settled and not context.time.due_in(self.since, context.settings.discovery_us)

    def _adopt(self) -> None:
        """Adopt, unless a worker has greeted again while the record was written, and runs no more; a lost one
        is healed as ever."""
        self.adopted = self._runs_what_is_there(self._context.record)
