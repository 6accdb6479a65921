"""The effects of a job on its coordinator: start, drain, end it; the long operations beside it, restore and
forget.

Keeps: one that has ended stays readable until another starts; an operation that failed for good is not tried
again. Does not: coordinate (coordination/hosting.py).
"""

import asyncio
import logging
from concurrent.futures import Future
from typing import Final

from msgspec.structs import replace

from flamestream.model.errors import FlameStreamError, Retryable
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Handler, Tools
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.jobs.observed import Operation
from flamestream_operator.jobs.savepoints import restorable, savepoint_in
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import Object, part

HANDED_OVER_WITHIN: Final = 60.0
LOOK: Final = 0.1
"""Seconds between two looks at a record."""
OPERATE_AGAIN: Final = 5.0
"""Seconds until an operation that failed is tried again."""

log = logging.getLogger(__name__)


class JobStreams:
    """Handlers by action."""

    def __init__(self, tools: Tools) -> None:
        self._api, self._hosting, self._again, self._instant = (
            tools.api,
            tools.hosting,
            tools.again,
            tools.instant,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self.handlers: Final[dict[type[object], Handler]] = {
            do.Coordinate: self._coordinate, do.Upgrade: self._upgrade, do.Suspend: self._suspend, do.End: self._end,
            do.GiveLeave: self._give_leave,
            do.Abandon: self._abandon, do.Retire: self._retire, do.Gone: self._gone, do.Begin: self._begin,
        }  # fmt: skip

    async def _coordinate(self, key: Key, memory: Memory, job: Object, action: do.Coordinate) -> bool:
        settings = with_secrets(action.job, memory)
        hosted = memory.hosted
        if hosted is not None and hosted.is_like(settings) and self._hosting.status(settings.job) is not None:
            return False  # one that has ended must stay readable: a second start would begin anew
        self._hosting.start(settings)
        memory.hosted, memory.hosted_run, memory.hosted_since = settings, action.run, self._instant()
        memory.upgrading = None  # a coordinator that begins knows of none
        if not part(job, "spec", "handOver"):
            # one that a leader before has given, and has not lived to take away
            self._in_background(self._hosting.give_leave(settings.identity, None))
        return True

    def _in_background(self, answer: "Future[str]") -> None:
        def settled(answer: "Future[str]") -> None:
            if problem := answer.exception():
                log.warning("a leave cannot be taken away", extra={"reason": str(problem)})

        answer.add_done_callback(settled)

    async def _give_leave(self, key: Key, memory: Memory, job: Object, action: do.GiveLeave) -> None:
        me, leave = ".".join(key), action.leave
        try:
            asker = await asyncio.wrap_future(self._hosting.give_leave(action.job, leave))
        except FlameStreamError as problem:
            log.warning("a leave cannot be given", extra={"job": me, "reason": str(problem)})
            return
        memory.given = leave
        # (!) By the spec of now: who asks has read a leave that may have been taken away since.
        if leave is not None and asker == leave.to:
            self._hosting.hand_over(me, asker)
            memory.asked = True
        elif memory.asked:
            self._hosting.hand_over(me, "")
            memory.asked = False

    async def _upgrade(self, key: Key, memory: Memory, job: Object, action: do.Upgrade) -> None:
        if action.job != memory.upgrading:
            memory.upgrading = action.job
            # (!) As it is begun later, or its coordinator is taken for another, which knows of no watch.
            wanted = None if action.job is None else with_secrets(action.job, memory)
            self._hosting.upgrade(".".join(key), wanted)

    async def _suspend(self, key: Key, memory: Memory, job: Object, action: do.Suspend) -> None:
        intent = status_of(job).intent.key
        if memory.suspended != intent:  # a second request would begin a second drain
            memory.suspended = intent
            self._hosting.suspend(".".join(key))

    async def _end(self, key: Key, memory: Memory, job: Object, action: do.End) -> None:
        self._hosting.end(".".join(key))

    async def _abandon(self, key: Key, memory: Memory, job: Object, action: do.Abandon) -> None:
        self._hosting.stop(".".join(key))
        memory.hosted, memory.hosted_run, memory.upgrading = None, -1, None
        memory.retired.clear()

    async def _retire(self, key: Key, memory: Memory, job: Object, action: do.Retire) -> None:
        # Not those beside: their stop is only expected, and counts once more when it comes.
        memory.retired.update(action.ips)
        self._hosting.retire(".".join(key), [*action.ips, *action.beside])

    async def _gone(self, key: Key, memory: Memory, job: Object, action: do.Gone) -> None:
        self._hosting.gone(".".join(key), action.ip)

    async def _begin(self, key: Key, memory: Memory, job: Object, action: do.Begin) -> None:
        known = memory.operations.get(action.key)
        # Under way, done, or failed for good: only one whose pause after a failure is over begins again.
        if known is not None and (not known.done or not known.problem or known.final):
            return
        memory.operations[action.key] = Operation(problem=known.problem if known else "")
        settings = with_secrets(action.settings, memory)
        task = asyncio.create_task(self._operate(key, memory, action, settings))
        self._tasks.add(task)  # a task that nobody holds may be collected while it runs
        task.add_done_callback(self._tasks.discard)

    async def _operate(self, key: Key, memory: Memory, action: do.Begin, settings: JobToCoordinate) -> None:
        try:
            if action.what == "forget":
                await asyncio.wrap_future(self._hosting.forget(settings, begins_anew=action.begins_anew))
            elif action.what == "take over":
                await self._take_over(action.other, settings, elsewhere=action.elsewhere)
            else:
                await self._restore(key, action, settings)
            memory.operations[action.key] = Operation(done=True)
        except Exception as error:  # whatever it is, or the operation would be under way for ever
            known = isinstance(error, FlameStreamError | ApiProblem | LookupError)
            more = {"job": ".".join(key), "operation": action.key, "error": str(error)}
            log.warning("operation failed", extra=more, exc_info=None if known else error)
            text, final = str(error)[:1000], getattr(error, "category", "") in ("user", "corrupt")
            if not final:
                memory.operations[action.key] = Operation(False, text)
                self._again(key)
                # Not done for so long: nobody begins it anew before.
                await asyncio.sleep(OPERATE_AGAIN)
            memory.operations[action.key] = Operation(True, text, final)
        self._again(key)

    async def _restore(self, key: Key, action: do.Begin, settings: JobToCoordinate) -> None:
        """Restore a completed snapshot; a job that has state already keeps it."""
        if await asyncio.wrap_future(self._hosting.record(settings.identity)) is not None:
            return
        snapshot = await self._api.get("FlameStreamSnapshot", key[0], action.snapshot)
        await asyncio.wrap_future(
            self._hosting.restore(settings, savepoint_in(restorable(snapshot, action.snapshot)))
        )

    async def _take_over(self, other: str, settings: JobToCoordinate, *, elsewhere: bool) -> None:
        """Have the other job end, until its record says who holds it. `elsewhere`: by the operator of its cluster."""
        to, until = settings.settings.takes_over_as, self._instant() + HANDED_OVER_WITHIN

        async def ask(to: str) -> None:
            if elsewhere:
                await asyncio.wrap_future(self._hosting.ask(settings.identity, to))
            else:
                self._hosting.hand_over(other, to)

        try:
            while self._instant() < until:
                record = await asyncio.wrap_future(self._hosting.record(settings.identity))
                if record is not None and record.holder == to:
                    return
                await ask(to)
                await asyncio.sleep(LOOK)
        finally:
            await ask("")  # of one that has ended nobody hears this
        raise Retryable(f"job {other} was not handed over within {HANDED_OVER_WITHIN:g} s, and runs on")


def with_secrets(job: JobToCoordinate, memory: Memory) -> JobToCoordinate:
    """The job's settings with its token and its keys."""
    return replace(job, token=memory.token, keys=memory.keys)
