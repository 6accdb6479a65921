"""Variants of state that becomes another version's: what rows say of theirs, and which must be full."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from flamestream.core.dataflow.accumulators import Accumulation, Accumulators
from flamestream.core.dataflow.keyed_state import KeyedState
from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol import inventory
from flamestream.model.state_names import Operation
from flamestream.simulation.faults import Fault
from flamestream.simulation.jobs.ticks import migrated_job, ticking
from sim.variants.variant import BrokenVariant, directed, patch

_load, _restore, _migrated = KeyedState.load, Accumulators.restore, Reading._migrated
UPGRADES = ticking()
ABORTED_EPOCHS = ticking(
    directed(Fault.STORE_FULL, Fault.STORE_ERROR_AFTER_SUCCESS, rate=0.5, times=8, spacing=1_000)
)
"""Epochs are made and come to nothing, while the stream goes on."""


def _stored_as_it_is(self: Any, chains: Any) -> None:
    """What was loaded counts as stored of the version of now, so a change may stand behind it."""
    _load(self, chains)
    for bucket in self.buckets.values():
        bucket.full, bucket.older = bucket.full or 1000, False


def _by_the_last_row(self: Accumulators, bucket: Accumulation, states: Sequence[bytes]) -> None:
    """A full row of the new version counts as soon as it is made."""
    _restore(self, bucket, states)
    bucket.older = False


def _unnoted(each: Operation, old: Operation | None, first: int) -> Operation:
    """The snapshot goes on saying the version that the state had at first."""
    version = each.version if old is None else old.version
    return replace(each, migrates=(), version=version, versions=() if old is None else old.versions)


def _last_step(self: Reading, value: Any, version: int) -> Any:
    """A state that has missed a version is given the newest step alone."""
    return _migrated(self, value, max(version, self._version - 1))


VARIANTS = [
    BrokenVariant(
        "rows that do not say their version", patch(Operation, version_at=lambda self, epoch: self.version),
        UPGRADES, migrated_job,
    ),
    BrokenVariant(
        "a key whose first row of a version is a change", patch(KeyedState, load=_stored_as_it_is), UPGRADES,
        migrated_job,
    ),
    BrokenVariant(
        "a key whose first row of a version counts before its commit", patch(Accumulators, restore=_by_the_last_row),
        ABORTED_EPOCHS, migrated_job, seeds=400,
    ),
    BrokenVariant(
        "a version that its snapshot does not note", patch(inventory, versioned=_unnoted), UPGRADES,
        migrated_job,
    ),
    BrokenVariant(
        "a state that skips a version", patch(Reading, _migrated=_last_step), UPGRADES, migrated_job,
    ),
]  # fmt: skip
