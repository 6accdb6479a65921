"""The reconciler of FlameStreamSnapshots, and the clock that makes them for `spec.savepoints`.

A savepoint is taken once: its name in the store is the object's uid, so a second try after a crash finds what the first one wrote.

Keeps: a completed snapshot is never taken again; one whose object is deleted goes from the store only if its policy says so.
Does not: copy anything (coordination/coordinators.py).
"""

import asyncio
import logging
from concurrent.futures import Future
from typing import Final

import msgspec
from msgspec.structs import replace

from flamestream.job.moments import written
from flamestream.model.errors import FlameStreamError, Retryable, UserError
from flamestream_operator.api.conditions import conditions_of_ending
from flamestream_operator.api.snapshot import SnapshotSpec, SnapshotStatus
from flamestream_operator.coordination.hosting import JobToCoordinate, Savepoint
from flamestream_operator.jobs.decide import desired_of, status_of
from flamestream_operator.jobs.effects import settings_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import FINALIZER, Object, part
from flamestream_operator.site import Site

MOST_TRIES: Final = 5

log = logging.getLogger(__name__)


class SnapshotReconciler:
    """`reconcile(key)` for every change of a FlameStreamSnapshot."""

    def __init__(self, jobs: JobReconciler, site: Site, tools: Tools) -> None:
        self._api, self._cluster, self._hosting, self._jobs, self._site = tools.api, tools.cluster, tools.hosting, jobs, site
        self._check, self._clock = tools.check, tools.clock

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, or None."""
        thing = self._cluster.snapshots.get(key)
        if thing is None:
            return None
        status = _status(thing)
        if thing["metadata"].get("deletionTimestamp"):
            return await self._deleted(key, thing, status)
        if FINALIZER not in (thing["metadata"].get("finalizers") or ()):
            await self._finalize(key, thing, there=True)
            return 0.1
        if status.phase in ("Completed", "Failed"):
            return None
        return await self._take(key, thing, status)

    async def _take(self, key: Key, thing: Object, status: SnapshotStatus) -> float | None:
        spec = msgspec.convert(thing["spec"], SnapshotSpec)
        settings = await self._settings((key[0], spec.job))
        if isinstance(settings, str):
            await self._write(thing, replace(status, phase="Pending", message=settings))
            return 5.0
        name = f"{thing['metadata']['name']}-{thing['metadata']['uid'][:8]}"
        if status.phase != "Taking":
            thing = await self._write(thing, replace(status, phase="Taking", name=name, message="", tries=status.tries + 1))
            status = _status(thing)
        try:
            self._check()
            saved = await asyncio.wrap_future(self._hosting.savepoint(settings, name))
        except FlameStreamError as error:
            return await self._failed(thing, status, error)
        await self._write(thing, self._completed(status, saved, self._secret_of((key[0], spec.job))))
        return None

    async def _failed(self, thing: Object, status: SnapshotStatus, error: FlameStreamError) -> float | None:
        if error.category == "retryable" and status.tries < MOST_TRIES:
            await self._write(thing, replace(status, phase="Pending", message=f"{error}; it is tried again"))
            return 5.0 * status.tries
        await self._write(thing, replace(status, phase="Failed", message=str(error)[:1000]))
        return None

    def _completed(self, status: SnapshotStatus, saved: Savepoint, secret: str) -> SnapshotStatus:
        return replace(
            status, phase="Completed", message="", job=saved.job, name=saved.name, epoch=saved.epoch, cut=str(saved.cut), store=saved.store,
            secret=secret, manifest=saved.manifest, manifest_hash=saved.manifest_hash, graph=saved.graph, size=saved.size,
            objects=saved.objects, time=written(self._clock()),
        )  # fmt: skip

    async def _settings(self, job: Key) -> JobToCoordinate | str:
        """How the job's store is reached, or why it is not."""
        thing = self._cluster.jobs.get(job)
        if thing is None:
            return f"there is no FlameStreamJob {job[1]!r}: create it, or delete this snapshot"
        memory, status = self._jobs.memory_of(job), status_of(thing)
        observed = Observed(now=self._clock(), job=thing, site=self._site, app_digest=memory.app_digest if memory else "")
        desired = desired_of(observed, status)
        if desired.plan is None:
            return f"the job's spec cannot be used now: {desired.refusal or desired.waits_for}"
        if not status.run.number:
            return "the job has not started yet: it has nothing to save"
        return await self._reading(job[0], settings_of(observed, desired.plan), desired.plan.spec.checkpoint.secret or "")

    async def _reading(self, namespace: str, settings: JobToCoordinate, secret: str) -> JobToCoordinate | str:
        try:
            return await self._jobs.reading(namespace, settings, secret)
        except LookupError as problem:
            return str(problem.args[0])

    def _secret_of(self, job: Key) -> str:
        thing = self._cluster.jobs.get(job)
        return str(part(thing, "spec", "checkpoint", "secret") or "")

    # --- deletion, writing ----------------------------------------------------------------------------------------------------------

    async def _deleted(self, key: Key, thing: Object, status: SnapshotStatus) -> float | None:
        if FINALIZER not in (thing["metadata"].get("finalizers") or ()):
            return None
        keep = part(thing, "spec", "deletionPolicy") == "Keep" or not status.manifest
        if not keep:
            try:
                keys = await self._jobs.keys(key[0], status.secret)
            except LookupError as problem:
                why = {"snapshot": key[1], "why": str(problem.args[0])}
                log.warning("a savepoint stays in the store: its job is gone, and with it the keys", extra=why)
            else:
                await self._remove(key, keys, status)
        await self._finalize(key, thing, there=False)
        return None

    async def _remove(self, key: Key, keys: tuple[str, str], status: SnapshotStatus) -> None:
        """The status may have been written by others: a store that is not to be opened keeps what it has."""
        self._check()
        future: Future[None] = self._hosting.delete_savepoint(keys, self._savepoint(status))
        try:
            await asyncio.wrap_future(future)
        except UserError as error:
            log.warning("a savepoint stays in the store", extra={"snapshot": key[1], "why": str(error)})

    def _savepoint(self, status: SnapshotStatus) -> Savepoint:
        return Savepoint(
            job=status.job, name=status.name, store=status.store, epoch=status.epoch, cut=int(status.cut or 0), manifest=status.manifest,
            manifest_hash=status.manifest_hash, graph=status.graph, size=status.size, objects=status.objects,
        )  # fmt: skip

    def savepoint_named(self, snapshot: Object | None, name: str) -> Savepoint:
        """The savepoint that a completed FlameStreamSnapshot stands for."""
        return self._savepoint(checked_status(snapshot, name))

    async def _finalize(self, key: Key, thing: Object, *, there: bool) -> None:
        known = [each for each in thing["metadata"].get("finalizers") or () if each != FINALIZER]
        meta = {"finalizers": [*known, FINALIZER] if there else known, "resourceVersion": thing["metadata"]["resourceVersion"]}
        new = await self._api.patch("FlameStreamSnapshot", *key, {"metadata": meta})
        if there:
            self._cluster.snapshots.put(new)
        else:
            self._cluster.snapshots.forget(key)

    async def _write(self, thing: Object, status: SnapshotStatus) -> Object:
        """A compare-and-set; a conflict ends this try, and the next look sees what was."""
        now = written(self._clock())
        generation = int(thing["metadata"].get("generation", 0))  # `kubectl wait` does not believe a condition of an older one
        completed, failed, before = status.phase == "Completed", status.phase == "Failed", _status(thing).conditions
        conditions = conditions_of_ending(completed, failed, status.phase, status.message, before, now, generation)
        status = replace(status, conditions=conditions, observed_generation=generation)
        if status == _status(thing):
            return thing
        try:
            new = await self._api.replace_status({**thing, "status": msgspec.to_builtins(status)})
        except ApiProblem as problem:
            fresh = await self._api.get("FlameStreamSnapshot", thing["metadata"]["namespace"], thing["metadata"]["name"])
            if fresh is not None:
                self._cluster.snapshots.put(fresh)
            raise problem
        self._cluster.snapshots.put(new)
        return new


def checked_status(snapshot: Object | None, name: str) -> SnapshotStatus:
    """The status of a FlameStreamSnapshot that can be restored. Raises Retryable while it may still come, UserError if it will not."""
    if snapshot is None:
        raise Retryable(f"spec.restoreFrom: there is no FlameStreamSnapshot {name!r} in this namespace: create one, or remove the field")
    status = _status(snapshot)
    if status.phase == "Failed":
        raise UserError(f"spec.restoreFrom: FlameStreamSnapshot {name!r} has failed: {status.message}: take another")
    if status.phase != "Completed":
        raise Retryable(f"spec.restoreFrom: FlameStreamSnapshot {name!r} is {status.phase}: {status.message or 'wait for it'}")
    return status


def _status(thing: Object) -> SnapshotStatus:
    try:
        return msgspec.convert(thing.get("status") or {}, SnapshotStatus)
    except msgspec.ValidationError:
        return SnapshotStatus()
