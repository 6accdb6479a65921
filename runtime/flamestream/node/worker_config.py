"""From a checked manifest to what a worker's process is told.

Does not: decide what the worker's core is told (job/settings.py).
"""

from dataclasses import replace

import msgspec

from flamestream.job.journal_of import journal_of
from flamestream.job.manifest import STRONG
from flamestream.job.settings import Fixed, worker_settings
from flamestream.job.validation import CheckedJob
from flamestream.model.ids import WorkerId
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess


def worker_config(
    checked: CheckedJob, *, coordinator: str = "", token: str = "", job: str = "", kept: str = "",
    zookeeper: ZooKeeperAccess = NOWHERE,
) -> WorkerProcessConfig:  # fmt: skip
    """The configuration of all workers of a job, who add their names. `job`: its identity in a cluster, whose
    status others see as well. `kept`: where copies of its application are."""
    described, spec = checked.job, checked.job.spec
    settings = worker_settings(checked, shared=bool(job))
    return WorkerProcessConfig(
        worker=WorkerId(""),
        coordinator=coordinator,
        token=token,
        application=str(described.path(spec.application.file)),
        graph=spec.application.graph,
        py_files=checked.py_files,
        code=checked.code if kept else "",
        kept=kept,
        productions=spec.guarantee == STRONG,
        settings=replace(settings, job=job or settings.job),
        private=bool(job),
        sources={name: described.source(name) for name in spec.sources},
        sinks={name: described.sink(name) for name in spec.sinks},
        clients={name: described.client(name) for name in spec.clients},
        queries=described.queries,
        tracing=spec.tracing,
        store=described.store,
        journal=journal_of(described, zookeeper),
        beside=0 if spec.workers.max is not None else spec.workers.least,
    )


def as_told(config: WorkerProcessConfig) -> Fixed:
    """Fields that a running stream cannot change, as workers were told them."""
    its, journal = config.settings, config.journal
    if journal is not None and journal.zookeeper is not None:  # of a run: the next one has another
        journal = msgspec.structs.replace(journal, zookeeper=NOWHERE)
    promise = (its.exactly_once, its.two_phase, its.skips, its.durable, config.productions)
    return Fixed(promise, its.slots, config.store, journal, its.dead_letter, config.sources, config.sinks)
