"""The tools that the shells of all reconcilers work with, and the form that handlers of actions have.

Keeps: a handler says (True) if there is something new to look at; what it may not go on behind, it raises as
Stop. Does not: act.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.kube.cache import Cluster, Key, Store, key_of
from flamestream_operator.objects.meta import FINALIZER, Object

Handler = Callable[[Key, Memory, Object, Any], Awaitable[bool | None]]
"""Takes the job's name, what is remembered of it, the job, and an action."""


class Stop(Exception):
    """Look again: what was seen is old, or an effect was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The process's own, the same for every reconciler."""

    api: Api
    cluster: Cluster
    hosting: Hosting
    check: Callable[[], None]
    """Does not return if this process may not act any more."""
    again: Callable[[Key], None]
    """Reconcile it again."""
    mine: Callable[[Object], bool] = lambda _: True
    """Whether a job is of the shard that this process leads."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970: for stamps."""
    instant: Callable[[], float] = time.monotonic
    """Seconds of a clock that nobody sets: for durations."""

    async def write_status(self, store: Store, thing: Object, status: Object) -> Object:
        """Compare-and-set the status of `thing`, which `store` has. Raises ApiProblem; the next look then
        sees what is there."""
        try:
            new = await self.api.replace_status({**thing, "status": status})
        except ApiProblem:
            if (fresh := await self.api.get(thing["kind"], *key_of(thing))) is not None:
                store.put(fresh)
            raise
        store.put(new)
        return new

    async def finalize(self, thing: Object, *, there: bool) -> Object:
        """Add our finalizer to `thing` as it was seen, or take it away. The object as it is then. Raises
        ApiProblem."""
        known = [each for each in thing["metadata"].get("finalizers") or () if each != FINALIZER]
        # With the version that was seen: the list is replaced whole, and without it somebody's newer
        # finalizer would be lost.
        meta = {
            "finalizers": [*known, FINALIZER] if there else known,
            "resourceVersion": thing["metadata"]["resourceVersion"],
        }
        return await self.api.patch(thing["kind"], *key_of(thing), {"metadata": meta})
