"""What every reconciler works with.

Does not: do anything.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.kube.api import Api
from flamestream_operator.kube.cache import Cluster, Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """One process's."""

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
