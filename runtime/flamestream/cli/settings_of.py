"""From a checked manifest to what workers and the coordinator must know: the one place that decides it.

Keeps: front `i` belongs to the graph's source number `i`. Does not: start anything.
"""

import sys
from typing import Final

from flamestream.cli.manifest import DeadLetter
from flamestream.cli.validation import CheckedJob
from flamestream.core.coordination import Settings
from flamestream.core.settings import FrontSettings, WorkerSettings
from flamestream.model.ids import SinkName, SourceName
from flamestream.model.time import FrontId

HEARTBEAT: Final = 100_000
"""Microseconds; shorter where epochs are, because an epoch waits for word that minimal time has moved."""
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


def fronts_of(checked: CheckedJob) -> tuple[FrontSettings, ...]:
    """A front for each source, in the graph's order."""
    return tuple(
        FrontSettings(FrontId(number), SourceName(vertex.name), traits.timed, traits.run_length, traits.replayable)
        for number, vertex in enumerate(checked.graph.sources)
        for traits in [checked.sources[vertex.name]]
    )


def worker_settings(checked: CheckedJob) -> WorkerSettings:
    """The same for each worker."""
    spec = checked.job.spec
    interval = int(spec.checkpoint.interval * 1_000_000)
    return WorkerSettings(
        job=checked.job.name,
        slots=spec.workers.slots,
        fronts=fronts_of(checked),
        python=PYTHON,
        exactly_once=spec.guarantee in ("exactly-once", "micro-batch"),
        durable=spec.guarantee != "none",
        dead_letter=SinkName(spec.on_error.dead_letter) if isinstance(spec.on_error, DeadLetter) else None,
        credit_runs=spec.limits.runs,
        credit_bytes=spec.limits.bytes,
        heartbeat=min(HEARTBEAT, interval),
        debug=spec.debug,
    )


def coordinator_settings(checked: CheckedJob) -> Settings:
    """For core.coordinator."""
    spec = checked.job.spec
    return Settings(
        job=checked.job.name,
        graph=checked.graph.identity,
        python=PYTHON,
        workers=spec.workers.replicas,
        fronts=len(checked.graph.sources),
        slots=spec.workers.slots,
        interval_us=int(spec.checkpoint.interval * 1_000_000) if spec.guarantee != "none" else None,
    )
