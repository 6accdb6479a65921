"""What the shells of all reconcilers work with, and what the handlers of a job's actions share.

Keeps: a handler says whether there is something new to look at; what it may not go on behind, it raises as Stop. Does not: act.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.kube.api import Api
from flamestream_operator.kube.cache import Cluster, Key
from flamestream_operator.objects.meta import Object

Handler = Callable[[Key, Memory, Object, Any], Awaitable[bool]]
"""(job's name, what is remembered, the job, the action)."""


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
    clock: Callable[[], float] = time.time
    """Seconds since 1970: for stamps."""
    instant: Callable[[], float] = time.monotonic
    """Seconds of a clock that nobody sets: for durations."""
