"""Leadership by Leases: one operator acts at a time for each shard of the jobs, and one that may not any more
ends at once.

Each shard has a Lease (NAME, NAME-1, ...), and a process leads one shard at most: whoever leads none waits
for any of them. The holder renews every second and counts from the moment before its last successful write;
whoever finds a Lease unchanged for its whole duration, by its own clock, takes it with a compare-and-set. So
no two clocks are compared. A holder whose time has run out (the process was stopped, the API server was away)
begins its process anew without another word: what was under way is fenced by the job records.

A Lease also says how many shards its holder divides the jobs by. Where those are other numbers, two could
lead the same job under Leases of two shards. So whoever has taken a Lease looks at all of them once more
before it acts, and lets go if a live one says another number:

    write mine ──▶ read all ──▶ another number, and not run out? let go, wait : lead

Of two that take Leases at the same time the one that wrote later reads what the other wrote; both may let go,
and try again after pauses of chance. Who leads already is not disturbed: it wrote before.

Keeps: `valid` is false from the moment on at which another could lead a job of its shard. Does not: use
kopf's peering, or say which job is in which shard (shards.py).
Measured: 4.3 s from kill -9 of a leader to the next one with a duration of 4 s.
"""

import asyncio
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Final

from flamestream_operator import metrics
from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.objects.meta import GROUP, MANAGED, Object, api_version, part
from flamestream_operator.shards import MOST, name_of

_LEASE: Final = {"apiVersion": api_version("Lease"), "kind": "Lease"}
LABELS: Final = {**MANAGED, "app.kubernetes.io/component": "operator"}
"""A person finds who leads by them, whatever the release is called."""
SHARDS: Final = f"{GROUP}/shards"
"""The annotation with the number of shards; one without it is of a version that knew one shard."""
RENEW: Final = 1.0
RETRY: Final = 0.5
LEAST: Final = 0.05
"""Whoever waits asks again just when a Lease runs out, not up to RETRY later."""

LOST: Final = 75
"""The exit code where the program cannot begin anew."""
log = logging.getLogger(__name__)


class Leadership:
    """A contender for the Leases of all shards. `lost` is called once, when it has led and may not any more; it does
    not return."""

    def __init__(
        self, api: Api, namespace: str, name: str, identity: str, seconds: float, lost: Callable[[str], None],
        shards: int = 1,
    ) -> None:  # fmt: skip
        """`name`: the first shard's Lease."""
        self._api, self._namespace, self._identity, self._seconds = api, namespace, identity, seconds
        self._name, self._shards, self._lost = name, shards, lost
        metrics.shards.set(shards)
        self.shard = 0
        """Led, once `acquire` has returned."""
        self._held_until = 0.0
        self._seen: dict[str, tuple[str, float]] = {}
        """Each Lease's version, and when it was first seen."""
        self._runs_out = 0.0
        """When the first of those that others hold may be taken, as far as is known."""
        self._waits_for: dict[str, int] = {}
        """Leases of those who divide the jobs otherwise, with their numbers of shards, as was said last."""

    @property
    def valid(self) -> bool:
        """Whether nobody else can lead this shard now."""
        return time.monotonic() < self._held_until

    def check(self) -> None:
        """Before every effect."""
        if not self.valid:
            self._lost("the Lease ran out")

    async def acquire(self) -> None:
        """Until this process leads a shard."""
        while True:
            try:
                if await self._take():
                    metrics.leader.set(1)
                    return
            except (ApiProblem, TimeoutError) as problem:
                log.warning("no word of the Lease", extra={"problem": str(problem)})
            await asyncio.sleep(min(RETRY, max(LEAST, self._runs_out - time.monotonic())))

    async def hold(self) -> None:
        """Renew the Lease for as long as that works; calls `lost` otherwise."""
        while True:
            await asyncio.sleep(RENEW)
            # Behind the sleep (!): the process may have stood still for longer than the Lease lasts.
            self.check()
            await self._renew()

    async def release(self) -> None:
        """A planned end: whoever waits may lead at once."""
        if not self.valid:
            return
        try:
            async with asyncio.timeout(max(0.1, self._held_until - time.monotonic())):
                lease = await self._api.get("Lease", self._namespace, name_of(self._name, self.shard))
                if lease is not None and _holder(lease) == self._identity:
                    # With the version that was just read: a successor's Lease is left as it is.
                    await self._api.replace(
                        {**lease, **_LEASE, "spec": {**lease["spec"], "holderIdentity": ""}}
                    )
        except (ApiProblem, TimeoutError) as problem:
            log.warning("the Lease was not released: it runs out", extra={"problem": str(problem)})
        self._held_until = 0.0

    # --- taking ---------------------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Any Lease that is free, or has run out."""
        began = time.monotonic()
        leases = await self._look()
        if self._divided_otherwise(leases, began):
            return False
        for shard in range(self._shards):
            name = name_of(self._name, shard)
            # by our own clock alone (!): no two clocks are compared
            if self._is_live(lease := leases.get(name), began) and _holder(lease) != self._identity:
                continue
            if await self._write(name, lease, began):
                self.shard = shard
                return await self._stays()
        return False

    async def _stays(self) -> bool:
        """Whether the Lease that was just written is to be kept. Else it is free again."""
        stays = False
        try:
            async with asyncio.timeout(max(0.1, self._held_until - time.monotonic())):
                began = time.monotonic()
                # Behind the write (!): of two that write, one at least reads the other's.
                stays = not self._divided_otherwise(await self._look(), began) and self.valid
        finally:
            if not stays:
                await self.release()
        if not stays:
            # the other one waits for less, or for more
            await asyncio.sleep(secrets.randbelow(1000) / 1000 * RETRY)
        return stays

    async def _look(self) -> dict[str, Object]:
        """The Leases of this installation, by name, also those of shards that there are no more."""
        found = await self._api.list_all("Lease", self._namespace)
        # From the answer (!): a renewal may have begun after our request.
        now = time.monotonic()
        names = {name_of(self._name, shard) for shard in range(MOST)}
        leases = {name: each for each in found if (name := str(each["metadata"]["name"])) in names}
        for name, lease in leases.items():
            self._note(name, lease, now)
        ends = [self._end(lease) for lease in leases.values() if _holder(lease) not in ("", self._identity)]
        self._runs_out = min((end for end in ends if end >= now), default=0.0)
        return leases

    def _note(self, name: str, lease: Object, now: float) -> None:
        version = lease["metadata"]["resourceVersion"]
        if self._seen.get(name, ("", 0.0))[0] != version:  # it was renewed: its duration begins anew
            self._seen[name] = (version, now)

    def _end(self, lease: Object) -> float:
        """The moment from which on its holder, which has not renewed it since, does not lead."""
        seen = self._seen[str(lease["metadata"]["name"])][1]
        return seen + float(part(lease, "spec", "leaseDurationSeconds") or self._seconds)

    def _is_live(self, lease: Object | None, began: float) -> bool:
        """Whether it was held when the request began that it was read by."""
        return lease is not None and bool(_holder(lease)) and began <= self._end(lease)

    def _divided_otherwise(self, leases: dict[str, Object], began: float) -> bool:
        """Whether somebody leads by another number of shards."""
        others = {
            name: number
            for name, lease in leases.items()
            if self._is_live(lease, began) and (number := _shards(lease)) != self._shards
        }
        if others != self._waits_for:
            self._waits_for = others
            log.info("who divides the jobs otherwise leads", extra={"shards": self._shards, "others": others})
        return bool(others)

    # --- renewing -------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        while True:
            began = time.monotonic()
            try:
                # An answer that comes later says nothing any more: another may have taken it meanwhile.
                async with asyncio.timeout(max(0.1, self._held_until - began)):
                    if not await self._write_again(began):
                        self._lost("another operator has the Lease")
                return
            except (ApiProblem, TimeoutError) as problem:
                self.check()
                log.warning("the Lease was not renewed", extra={"problem": str(problem)})
                await asyncio.sleep(RETRY)
                self.check()

    async def _write_again(self, began: float) -> bool:
        name = name_of(self._name, self.shard)
        lease = await self._api.get("Lease", self._namespace, name)
        if lease is not None and _holder(lease) not in ("", self._identity):
            return False
        return await self._write(name, lease, began)

    async def _write(self, name: str, lease: Object | None, began: float) -> bool:
        """Whether it is ours then: it still was as it was read."""
        try:
            if lease is None:
                await self._api.create(
                    self._written({"metadata": {"name": name, "namespace": self._namespace}})
                )
            else:
                await self._api.replace(self._written(lease))
        except ApiProblem as problem:
            if problem.conflict or problem.exists:
                return False
            raise
        # from before the request (!): others may count from its arrival
        self._held_until = began + self._seconds
        return True

    def _written(self, lease: Object) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before, meta = lease.get("spec") or {}, lease["metadata"]
        took = _holder(lease) != self._identity
        spec = {
            **before, "holderIdentity": self._identity, "leaseDurationSeconds": ceil(self._seconds),
            "renewTime": now, "acquireTime": now if took else before.get("acquireTime", now),
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (1 if took and before else 0),
        }  # fmt: skip
        marks = {
            "labels": {**(meta.get("labels") or {}), **LABELS},
            "annotations": {**(meta.get("annotations") or {}), SHARDS: str(self._shards)},
        }
        return {**_LEASE, "metadata": {**meta, **marks}, "spec": spec}


def _holder(lease: Object | None) -> str:
    return str(part(lease, "spec", "holderIdentity") or "")


def _shards(lease: Object) -> int:
    """The number that its holder divides the jobs by; 0: it cannot be read, and is nobody's here."""
    text = str(part(lease, "metadata", "annotations", SHARDS) or "1")
    return int(text) if text.isdigit() else 0


def end_process(why: str) -> None:
    """Nothing of ours may run on: not a callback, not a thread of a coordinator.

    The same program begins anew in the same process, as after an exit. A container that exits again and again
    is kept away for up to five minutes by its kubelet: on a cluster so busy that Leases run out, both
    replicas were.
    """
    log.critical("this operator leads no more and ends", extra={"why": why})
    logging.shutdown()
    # exec drops what is still buffered.
    sys.stdout.flush()
    try:
        os.execv(sys.executable, sys.orig_argv)  # every thread ends, every file and connection is closed
    finally:
        os._exit(LOST)
