"""The reconciler of FlameStreamSnapshots, and the clock that makes them for `spec.savepoints`.

A savepoint is taken once: its name in the store has the object's uid, so a second try after a crash finds
what the first one wrote.

Keeps: a completed snapshot is never taken again; one whose object is deleted goes from the store only if its
policy says so, and what is left of one that failed with it. Does not: copy anything
(coordination/coordinators.py).
"""

import asyncio
import logging
from typing import Final

import msgspec
from msgspec.structs import replace

from flamestream.job.moments import written
from flamestream.model.errors import FlameStreamError, UserError
from flamestream_operator.api.conditions import conditions_of_ending
from flamestream_operator.api.snapshot import SnapshotSpec, SnapshotStatus
from flamestream_operator.coordination.hosting import JobToCoordinate, Savepoint
from flamestream_operator.jobs.effects import settings_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.jobs.savepoints import savepoint_in, snapshot_status
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import FINALIZER, Object, part

MOST_TRIES: Final = 5

log = logging.getLogger(__name__)


class SnapshotReconciler:
    """`reconcile(key)` for every change of a FlameStreamSnapshot."""

    def __init__(self, jobs: JobReconciler, tools: Tools) -> None:
        self._tools, self._cluster, self._hosting, self._jobs = tools, tools.cluster, tools.hosting, jobs
        self._check, self._clock = tools.check, tools.clock

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        thing = self._cluster.snapshots.get(key)
        if thing is None:
            return None
        status = snapshot_status(thing)
        if thing["metadata"].get("deletionTimestamp"):
            return await self._deleted(key, thing, status)
        # Before the copy is begun (!): an object that could just go would leave one that nobody removes.
        if FINALIZER not in (thing["metadata"].get("finalizers") or ()):
            self._cluster.snapshots.put(await self._tools.finalize(thing, there=True))
            return 0.1
        if status.phase in ("Completed", "Failed"):
            await self._write(thing, status)  # an edit of what it may still say was seen
            return None
        return await self._take(key, thing, status)

    async def _take(self, key: Key, thing: Object, status: SnapshotStatus) -> float | None:
        spec = msgspec.convert(thing["spec"], SnapshotSpec)
        settings = await self._settings((key[0], spec.job))
        if isinstance(settings, str):
            await self._write(thing, replace(status, phase="Pending", message=settings))
            return 5.0
        # the same at every try: one copy
        name = f"{thing['metadata']['name']}-{thing['metadata']['uid'][:8]}"
        secret = part(self._cluster.jobs.get((key[0], spec.job)), "spec", "checkpoint", "secret") or ""
        if status.phase != "Taking":
            # Its place before the copy is begun (!): what a try leaves there goes with the object.
            taking = replace(
                status, phase="Taking", message="", job=settings.job, name=name, store=settings.store,
                secret=str(secret), tries=status.tries + 1,
            )  # fmt: skip
            thing = await self._write(thing, taking)
            status = snapshot_status(thing)
        try:
            self._check()
            saved = await asyncio.wrap_future(self._hosting.savepoint(settings, name))
        except FlameStreamError as error:
            return await self._failed(thing, status, error)
        await self._write(thing, self._completed(status, saved, str(secret)))
        return None

    async def _failed(self, thing: Object, status: SnapshotStatus, error: FlameStreamError) -> float | None:
        if error.category == "retryable" and status.tries < MOST_TRIES:  # a store that is away
            await self._write(thing, replace(status, phase="Pending", message=f"{error}; it is tried again"))
            return 5.0 * status.tries
        await self._write(thing, replace(status, phase="Failed", message=str(error)[:1000]))
        return None

    def _completed(self, status: SnapshotStatus, saved: Savepoint, secret: str) -> SnapshotStatus:
        return replace(
            status, phase="Completed", message="", job=saved.job, name=saved.name, epoch=saved.epoch,
            cut=str(saved.cut), store=saved.store, secret=secret, index=saved.index,
            index_hash=saved.index_hash, graph=saved.graph, size=saved.size, objects=saved.objects,
            time=written(self._clock()),
        )  # fmt: skip

    async def _settings(self, job: Key) -> JobToCoordinate | str:
        """The settings by which the job's store is reached, or why it is not."""
        thing = self._cluster.jobs.get(job)
        if thing is None:
            return f"there is no FlameStreamJob {job[1]!r}: create it, or delete this snapshot"
        observed, status, desired = self._jobs.planned(thing)
        if desired.plan is None:
            return f"the job's spec cannot be used now: {desired.refusal or desired.waits_for}"
        if not status.run.number:
            return "the job has not started yet: it has nothing to save"
        try:
            keys = await self._jobs.inputs.keys(job[0], desired.plan.spec.checkpoint.secret or "")
        except LookupError as problem:
            return str(problem.args[0])
        return replace(settings_of(observed, desired.plan), keys=keys)

    # --- deletion, writing ----------------------------------------------------------------------------------

    async def _deleted(self, key: Key, thing: Object, status: SnapshotStatus) -> float | None:
        if FINALIZER not in (thing["metadata"].get("finalizers") or ()):
            return None
        # Without a place nothing was begun.
        keep = part(thing, "spec", "deletionPolicy") == "Keep" or not status.store
        if not keep:
            try:
                keys = await self._jobs.inputs.keys(key[0], status.secret)
            except LookupError as problem:
                why = {"snapshot": key[1], "why": str(problem.args[0])}
                log.warning(
                    "a savepoint stays in the store: its job is gone, and with it the keys", extra=why
                )
            else:
                await self._remove(key, keys, status)
        await self._tools.finalize(thing, there=False)
        self._cluster.snapshots.forget(key)
        return None

    async def _remove(self, key: Key, keys: tuple[str, str], status: SnapshotStatus) -> None:
        """The status may have been written by others: a store that is not to be opened keeps what it has."""
        self._check()
        try:
            await asyncio.wrap_future(self._hosting.delete_savepoint(keys, savepoint_in(status)))
        except UserError as error:
            log.warning("a savepoint stays in the store", extra={"snapshot": key[1], "why": str(error)})

    async def _write(self, thing: Object, status: SnapshotStatus) -> Object:
        """A compare-and-set; a conflict ends this try, and the next look sees what was."""
        now = written(self._clock())
        # `kubectl wait` does not believe a condition of an older one
        generation = int(thing["metadata"].get("generation", 0))
        completed, failed, before = (
            status.phase == "Completed",
            status.phase == "Failed",
            snapshot_status(thing),
        )
        conditions = conditions_of_ending(
            completed, failed, status.phase, status.message, before.conditions, now, generation
        )
        status = replace(status, conditions=conditions, observed_generation=generation)
        if status == before:
            return thing
        return await self._tools.write_status(self._cluster.snapshots, thing, msgspec.to_builtins(status))
