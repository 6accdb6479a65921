"""From a checked manifest to what the cores of workers and coordinator must know: the one place that decides
it.

Keeps: fronts stand in the order of the graph's sources; those of one source are neighbours, and have these
places for numbers until a job says which they have in it. Does not:
say where a process finds what it needs (node/worker_config.py).
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flamestream.connectors.sources import SourceTraits
from flamestream.core.coordinator.coordination import BALANCE_US, Settings
from flamestream.core.protocol.inventory import inventory_of, source_keys
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import with_new
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings, numbered
from flamestream.core.protocol.snapshot import Inventory
from flamestream.job.manifest import EXACT, HELD, DeadLetter, Spec, changes_of_calls
from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.validation import CheckedJob
from flamestream.model.ids import SinkName, SourceName
from flamestream.model.time import ROOM, FrontId

HEARTBEAT: Final = 100_000
"""Microseconds; shorter where epochs are, because an epoch waits for word that minimal time has moved."""
REPORT: Final = 500_000
"""Microseconds between reports in a cluster, where one loop hears the workers of all jobs: at ten a second those of a
thousand jobs would take more than a processor. A worker counts as silent after four of them."""
BATCH: Final = 24 * 3600 * 1_000_000
"""Microseconds that a batch may take."""
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


def fronts_of(checked: CheckedJob) -> tuple[FrontSettings, ...]:
    """A front for each source, or as many as share it, in the graph's order, with the numbers of
    `checked.known`."""
    keys = source_keys(checked.graph)
    names = [
        vertex.name for vertex in checked.graph.sources for _ in range(checked.sources[vertex.name].fronts)
    ]
    calls = checked.graph.calls
    fronts = tuple(
        FrontSettings(
            FrontId(number),
            SourceName(name),
            traits.timed,
            traits.run_length,
            traits.replayable,
            of_call=name in calls,
            in_sequence=traits.in_sequence,
            step=ROOM if calls else 1,
            key="" if keys[name] == name else keys[name],
        )
        for number, name in enumerate(names)
        for traits in [checked.sources[name]]
    )
    names = [front.name for front in checked.known]
    return numbered(fronts, with_new(names, [front.known_as for front in fronts]) if names else ())


def known_to(record: JobRecord | None, checked: CheckedJob) -> CheckedJob:
    """The job with the numbers that its fronts have by its record."""
    return checked if record is None else replace(checked, known=record.fronts)


def worker_settings(checked: CheckedJob, *, shared: bool = False) -> WorkerSettings:
    """Settings that every worker of a job has. `shared`: its coordinator's process has those of other jobs too."""
    spec = checked.job.spec
    interval = int(spec.checkpoint.interval * 1_000_000)
    # What was not reported is read again where a recovery skips, so there nobody waits with it.
    seldom = shared and spec.guarantee != "at-most-once"
    return WorkerSettings(
        job=checked.job.identity, slots=spec.workers.slots, fronts=fronts_of(checked), python=PYTHON,
        exactly_once=spec.guarantee in EXACT, two_phase=spec.guarantee in HELD,
        skips=spec.guarantee == "at-most-once", durable=spec.guarantee != "none",
        remembered=all(sink.fences for sink in checked.sinks.values()),
        dead_letter=dead_letter(spec),
        calls=changes_of_calls(spec), egress=None if spec.egress is None else tuple(spec.egress),
        credit_runs=spec.limits.runs, credit_bytes=spec.limits.bytes, heartbeat=min(HEARTBEAT, interval),
        report=min(REPORT, interval // 2) if seldom else 0, debug=spec.debug,
        patience=spec.transactions.patience,
    )  # fmt: skip


def local_coordinator(checked: CheckedJob, *, changed: bool = False) -> Settings:
    """The settings of the launcher's coordinator. `changed`: the application may be another than that of the
    last run."""
    settings = coordinator_settings(checked.job.spec, checked.job.identity, checked.sources.values())
    workers = checked.job.spec.workers
    # in a cluster the operator stops who is one too many
    standbys = workers.standby if workers.max is not None else None
    return replace(
        settings, standbys=standbys, graph=checked.graph.identity, inventory=inventory(checked), python=PYTHON,
        code=checked.code, code_changed=changed,
        takes_over_as="" if checked.job.spec.take_over is None else checked.job.name,
    )  # fmt: skip


def inventory(checked: CheckedJob) -> Inventory:
    """Contents of a snapshot of the job."""
    return inventory_of(checked.graph, dead_letter(checked.job.spec), fronts_of(checked))


def dead_letter(spec: Spec) -> SinkName | None:
    """The sink of error items; None: there is none."""
    return SinkName(spec.on_error.dead_letter) if isinstance(spec.on_error, DeadLetter) else None


def dropped(spec: Spec) -> tuple[str, ...]:
    """Names of operations whose state may go."""
    return () if spec.upgrade is None else tuple(spec.upgrade.drop)


def coordinator_settings(spec: Spec, job: str, sources: Iterable[SourceTraits]) -> Settings:
    """The settings of core.coordinator, on one machine and in a cluster. `job` is the job's identity.

    Graph, Python and code are still to be said: a cluster's coordinator loads no application, and hears of
    them from the first worker.
    """
    upgrade = spec.upgrade or Upgrade()
    workers = spec.workers
    after = BALANCE_US if workers.balance_after is None else int(workers.balance_after * 1_000_000)
    settings = Settings(
        job=job, graph="", python="", workers=workers.least, least_workers=workers.least,
        most_workers=workers.max, balance_us=None if spec.guarantee == "none" else after,
        fronts=sum(source.fronts for source in sources), slots=spec.workers.slots,
        interval_us=int(spec.checkpoint.interval * 1_000_000) if spec.guarantee != "none" else None,
        exactly_once=spec.guarantee in EXACT, two_phase=spec.guarantee in HELD, drop=dropped(spec),
        watch_us=int(upgrade.watch * 1_000_000), keep_us=int((upgrade.keep or 0) * 1_000_000),
    )  # fmt: skip
    # One worker has all slots (core/worker/batch_worker.py), and its epochs last as long as batches do.
    return replace(settings, workers=1, epoch_timeout_us=BATCH) if spec.batches else settings


@dataclass(frozen=True, slots=True)
class Fixed:
    """Fields that a stream which runs on cannot change: its sinks and journals were written under them. As a
    manifest says them, or as workers were told: only those of one kind can be compared. Sources and sinks that come
    with other code are no change; which may go is said elsewhere (core/protocol/inventory.py)."""

    guarantee: object
    slots: int
    store: str
    journal: object
    on_error: object
    sources: Mapping[str, object]
    sinks: Mapping[str, object]


def as_written(spec: Spec) -> Fixed:
    """Those that a manifest says."""
    return Fixed(
        spec.guarantee, spec.workers.slots, spec.checkpoint.store, spec.journal, spec.on_error, spec.sources, spec.sinks
    )  # fmt: skip


def changed(runs: Fixed, wanted: Fixed) -> str:
    """The first field of the manifest that is another than that of the stream that runs; "" if there is none."""
    old, new = fields_of(runs), fields_of(wanted)
    return next((field for field, value in new.items() if field in old and old[field] != value), "")


def fields_of(fixed: Fixed) -> dict[str, object]:
    """The values, by the fields of the manifest."""
    named = {
        "guarantee": fixed.guarantee, "workers.slots": fixed.slots, "checkpoint.store": fixed.store,
        "journal": fixed.journal, "onError": fixed.on_error,
        **{f"sources.{name}": its for name, its in fixed.sources.items()},
        **{f"sinks.{name}": its for name, its in fixed.sinks.items()},
    }  # fmt: skip
    return {f"spec.{field}": value for field, value in named.items()}
