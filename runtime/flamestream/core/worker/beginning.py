"""The fronts of a worker as an attempt begins: each where the cut has it, or behind what a recovery skips.

Keeps: only what is skipped moves a front on, and never what its giver has to keep: that is as at the cut.
Does not: read on from there (fronts.py), or decide what is skipped (skipping.py).
"""

from collections.abc import Collection, Mapping
from typing import Final

from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import Front, JournalledFront, TimedFront
from flamestream.core.worker.skipping import gone_on
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import START, FrontId

NOWHERE: Final[Mapping[FrontId, FrontPosition]] = {}


def fronts_at(
    settings: WorkerSettings, its: Mapping[FrontId, FrontSettings],
    positions: Mapping[FrontId, FrontPosition], reached: Mapping[FrontId, FrontPosition],
    timed: Collection[FrontId],
) -> dict[FrontId, Front]:  # fmt: skip
    """The fronts, each at its place. `positions`: at the cut; `reached`: how far they had come above it,
    where that is skipped; `timed`: those whose source has event time."""
    pledging, beside_timed = settings.pledging, settings.beside_timed
    return {
        number: _front(
            front,
            gone_on(_at_cut(number, positions), reached.get(number)),
            pledges=number in pledging,
            beside_timed=number in beside_timed,
            tells_time=number in timed,
        )
        for number, front in its.items()
    }


def pledging_of(settings: WorkerSettings, fronts: Mapping[FrontId, Front]) -> list[JournalledFront]:
    """Those that journal what they promise."""
    pledging = settings.pledging
    return [
        front for number, front in fronts.items() if number in pledging and isinstance(front, JournalledFront)
    ]


def saved_at(
    settings: WorkerSettings, its: Mapping[FrontId, FrontSettings], positions: Mapping[FrontId, FrontPosition]
) -> dict[FrontId, Mapping[Partition, Offset]]:
    """The offsets below which whoever gives the records of a front, which nobody can read again, need not
    keep them."""
    return {
        number: _at_cut(number, positions).offsets
        for number, front in its.items()
        if settings.skips and not front.replayable
    }


def _at_cut(number: FrontId, positions: Mapping[FrontId, FrontPosition]) -> FrontPosition:
    return positions.get(number) or FrontPosition(number, START, {})


def _front(
    its: FrontSettings, position: FrontPosition, *, pledges: bool, beside_timed: bool, tells_time: bool
) -> Front:
    if its.timed:
        return TimedFront(position, its.run_length, step=its.step, tells_time=tells_time)
    return JournalledFront(position, pledges=pledges, beside_timed=beside_timed, tells_time=tells_time)
