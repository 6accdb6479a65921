"""A broken variant of what happens while the image changes."""

from collections.abc import Callable, Sequence

from flamestream.core.coordinator import healing
from flamestream.model.ids import WorkerId
from flamestream.simulation.changes.releases import rolling
from sim.variants.variant import BrokenVariant, patch


def _of_any(
    survivors: Sequence[WorkerId],
    spares: Sequence[WorkerId],
    places: int,
    vocabulary: Callable[[WorkerId], str],
) -> tuple[list[WorkerId], list[WorkerId]]:
    return [*survivors], [*spares]


VARIANTS = [
    BrokenVariant("an attempt of workers of two releases", patch(healing, of_one_release=_of_any), rolling)
]
