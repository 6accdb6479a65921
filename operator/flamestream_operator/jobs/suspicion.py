"""Suspicion: nodes that seem to be lost seconds before Kubernetes says so, by what the coordinator hears of
their workers.

Kubernetes calls a node not ready after 40 s or more without a word; workers are missed after two. What is
done on a suspicion can be taken back: a driver there gets a successor beside it, elsewhere, which is given up
if the node comes back first. Pods of a node are removed only when Kubernetes says that it is not ready.

Does not: suspect anything while nobody at all is connected (then it may be our own network), or
before a new leader's coordinator has found the stream's workers, or recovered it.
"""

from collections.abc import Iterable
from typing import Final

from flamestream_operator.jobs.observed import Observed, ip_of, is_going, node_of, phase_of, was_connected
from flamestream_operator.objects.meta import Object

AWAY_FOR: Final = 2.0
"""Seconds that all workers of a node have been away: a worker alone that is started again by Spark is back
after one."""
_DECIDED: Final = ("running", "recovering")
"""The coordinator knows who is there."""


def suspects(observed: Observed) -> frozenset[str]:
    """Nodes of which every worker that was connected has gone without a word."""
    # perhaps it is us
    if (
        observed.coordinated is None
        or not observed.members
        or observed.coordinated.status.phase not in _DECIDED
    ):
        return frozenset()
    pods = list(_workers(observed))
    nodes = {node_of(pod) for pod in pods} - {""} - observed.dead_nodes
    return frozenset(
        node for node in nodes if all(_is_away(observed, pod) for pod in pods if node_of(pod) == node)
    )


def due_in(observed: Observed) -> float | None:
    """Seconds until time alone may make it a suspicion; None: nobody is away, or it is one."""
    since = [
        observed.away.get(ip_of(pod)) for pod in _workers(observed) if node_of(pod) not in observed.dead_nodes
    ]
    left = [AWAY_FOR - (observed.instant - each) for each in since if each is not None]
    return min((each for each in left if each > 0), default=None)


def _workers(observed: Observed) -> Iterable[Object]:
    """Pods whose workers should be connected."""
    for pod in observed.of_role("worker"):
        if (
            phase_of(pod) == "Running"
            and was_connected(pod)
            and not is_going(pod)
            and ip_of(pod) not in observed.retired
        ):
            yield pod


def _is_away(observed: Observed, pod: Object) -> bool:
    since = observed.away.get(ip_of(pod))
    return since is not None and observed.instant - since >= AWAY_FOR
