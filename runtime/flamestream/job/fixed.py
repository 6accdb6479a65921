"""Fields of a manifest that a stream which runs on cannot change: its sinks and journals were written under them.

Other code takes over at a tick with all of this as it is; where something is another, the job needs a stop and a
start. Sources and sinks that come with other code are no change.

Does not: know what workers were told (node/worker_config.py), or which source may go (core/protocol/inventory.py);
say what follows (cli/changes/upgrade.py refuses, the operator stops and starts).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from flamestream.job.manifest import Spec


@dataclass(frozen=True, slots=True)
class Fixed:
    """As a manifest says it, or as workers were told: only those of one kind can be compared."""

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
    pairs = [
        ("guarantee", runs.guarantee, wanted.guarantee), ("workers.slots", runs.slots, wanted.slots),
        ("checkpoint.store", runs.store, wanted.store), ("journal", runs.journal, wanted.journal),
        ("onError", runs.on_error, wanted.on_error),
    ]  # fmt: skip
    for kind, old, new in (("sources", runs.sources, wanted.sources), ("sinks", runs.sinks, wanted.sinks)):
        pairs += [(f"{kind}.{name}", old[name], its) for name, its in new.items() if name in old]
    return next((f"spec.{field}" for field, one, other in pairs if one != other), "")
