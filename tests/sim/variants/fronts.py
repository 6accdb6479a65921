"""Variants of how fronts are found when sources come to a stream that runs: by which number, and where they begin."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from flamestream.core.coordinator import healing, recovery
from flamestream.core.coordinator.coordination import Settings
from flamestream.core.coordinator.healing import Healing
from flamestream.core.coordinator.recovery import Recovery
from flamestream.core.protocol import known_fronts
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.messages import Replay
from flamestream.core.worker import worker
from flamestream.model.time import FrontId, Time
from flamestream.simulation.changes.restarts import changing_job, restarting
from flamestream.simulation.faults import Fault
from flamestream.simulation.jobs.ticks import growing, growing_job
from sim.variants.variant import BrokenVariant, directed, patch

_replay = Recovery.replay
COMING = growing(timed=1.0)
CRASHES = growing(directed(Fault.WORKER_CRASH, Fault.STORE_FULL, times=6, spacing=1_000), timed=1.0)
"""Attempts end above the committed cut, with results of new fronts that have left."""


def _from_the_start(self: Recovery, known: Sequence[KnownFront], *, drained: bool) -> Replay:
    return replace(_replay(self, known, drained=drained), begins={})


def _told_alone(self: Healing, attempt: Recovery) -> bool:
    """Each attempt finds out anew where fronts begin."""
    context = self._context
    fronts = attempt.begun(healing._part(context.record.fronts, context.settings), ())
    context.instructions.tell(context.workers, attempt.replay(fronts, drained=self.drained))
    self._step_ends("seal")
    return True


def _in_order(old: JobRecord | None, settings: Settings) -> tuple[KnownFront, ...]:
    assert settings.inventory is not None
    return tuple(map(KnownFront, settings.inventory.fronts))


def _by_place(fronts: Any, known: Sequence[str]) -> Any:
    return fronts


def _whatever_is_left(
    self: Recovery, part: Collection[FrontId], drop: Collection[str]
) -> tuple[KnownFront, ...]:
    return known_fronts.begun(self._known, part, self._bound())


def _where_it_was(
    known: Sequence[KnownFront], part: Collection[FrontId], bound: Time
) -> tuple[KnownFront, ...]:
    """Who comes back goes on at its own times."""
    found = known_fronts.begun(known, part, bound)
    return tuple(
        replace(front, begins=before.begins) if before.away and before.begins is not None else front
        for before, front in zip(known, found, strict=True)
    )


NUMBERS: Mapping[str, Any] = {"numbered": _by_place}
VARIANTS = [
    BrokenVariant(
        "a front that comes, and begins at the beginning of all times", patch(Recovery, replay=_from_the_start),
        COMING, growing_job,
    ),
    BrokenVariant(
        "a front that comes, and each attempt says anew where it begins", patch(Healing, _replay=_told_alone),
        CRASHES, growing_job,
    ),
    BrokenVariant(
        "a record that numbers fronts by their places in the graph", patch(healing, _next_fronts=_in_order), COMING,
        growing_job,
    ),
    BrokenVariant(
        "workers that number fronts by their places in the graph", patch(worker, **NUMBERS), COMING, growing_job,
    ),
    BrokenVariant(
        "a source that goes, whatever it has left", patch(Recovery, begun=_whatever_is_left), restarting(),
        changing_job,
    ),
    BrokenVariant(
        "a source that comes back, and goes on at its own times", patch(recovery, begun=_where_it_was),
        restarting(most=10), changing_job, seeds=400,
    ),
]  # fmt: skip
