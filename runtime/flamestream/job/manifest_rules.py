"""Settings that would do nothing beside others: refused, with what to do instead.

Keeps: what no part of the engine would look at is an error. Does not: know sources and sinks (each spec
checks itself; validation.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from flamestream.job.located import Path
from flamestream.job.manifest_tracing import idle_tracing

if TYPE_CHECKING:
    from flamestream.job.manifest import JournalSettings, Limits, Spec

ZOOKEEPER: Final = "zookeeper://"
UNJOURNALLED: Final = ("at-most-once", "none")
"""Guarantees without a journal."""
_WORKERS: Final = ("spec", "workers")
_JOURNAL: Final = ("spec", "journal")


def idle_settings(spec: "Spec", usual: "Limits") -> Iterator[tuple[Path, str]]:
    """Each by its place, with the sentence that refuses it. `usual`: what limits are where nobody has written
    any."""
    if spec.journal is not None:
        yield from _of_journal(spec.journal, spec.guarantee)
    yield from _of_workers(spec)
    yield from idle_tracing(spec)
    if spec.batches:
        if spec.queries is not None:
            yield (
                ("spec", "queries"),
                "a micro-batch job has no worker that could be asked: remove it; `flamestream query` reads its store",
            )
        if spec.take_over is not None:
            yield (
                ("spec", "takeOver"),
                "a micro-batch job ends at a batch: stop it, and begin the other with its savepoint; remove the line",
            )
        if spec.transactions.patience is not None:
            yield (
                ("spec", "transactions", "patience"),
                "a micro-batch decides each transaction once, in order: remove the line",
            )
        if spec.workers.standby:
            yield ("spec", "workers", "standby"), "a micro-batch job has no standbys: remove the line"
        if spec.limits.bytes != usual.bytes:
            yield (
                ("spec", "limits", "bytes"),
                "a micro-batch is bounded by limits.runs alone: remove the line",
            )
    resources = spec.workers.resources
    if "memory" in resources.requests and resources.requests["memory"] != resources.limits.get(
        "memory", resources.requests["memory"]
    ):
        message = (
            "Spark gives a worker one amount of memory, as request and limit: remove requests.memory, "
            "limits.memory counts"
        )
        yield ("spec", "workers", "resources", "requests", "memory"), message


def _of_workers(spec: "Spec") -> Iterator[tuple[Path, str]]:
    workers, elastic = spec.workers, spec.workers.max is not None
    if (workers.replicas is None) != elastic or (workers.min is not None) != elastic:
        yield (
            _WORKERS,
            "say how many: replicas: 2, or min: 1 and max: 8 for as many as there is work for",
        )
        return
    for name, most in (("replicas", workers.replicas), ("max", workers.max)):
        if most is not None and most > workers.slots:
            yield (*_WORKERS, name), f"a worker without slots would be idle: at most {workers.slots}"
    if workers.max is not None and workers.max < workers.least:
        yield (*_WORKERS, "max"), f"less than min: write {workers.least} or more"
    if spec.batches or spec.guarantee == "none":
        why = (
            "the executors of a batch share its work anew each time"
            if spec.batches
            else "under none a recovery begins with empty state"
        )
        if elastic:
            yield (*_WORKERS, "max"), f"{why}: write replicas instead of min and max"
        if workers.balance_after is not None:
            yield (*_WORKERS, "balanceAfter"), f"{why}, so no slots move: remove the line"


def _of_journal(journal: "JournalSettings", guarantee: str) -> Iterator[tuple[Path, str]]:
    if guarantee in UNJOURNALLED:
        yield _JOURNAL, f"under {guarantee} there is no journal: remove it"
    elsewhere = "the brokers' own settings decide when they write" if journal.kafka is not None else ""
    if journal.folder == ZOOKEEPER:
        elsewhere = "ZooKeeper's own settings decide when it writes"
    if elsewhere and not journal.fsync:
        yield (*_JOURNAL, "fsync"), f"fsync is of a folder: {elsewhere}. Remove the line"
    if elsewhere and journal.shared:
        yield (*_JOURNAL, "shared"), "shared is of a folder: remove the line"


def why_not_audited(guarantee: str) -> str:
    """Why the output of a job with this guarantee cannot be audited; "": it may be."""
    if guarantee != "at-most-once":
        return ""
    return (
        "under at-most-once no journal says which records have entered, and in which order, so nobody can say what "
        "has to be there; `flamestream status` counts what was skipped"
    )
