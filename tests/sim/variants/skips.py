"""Variants of what `at-most-once` adds to held output: where a front goes on, and what is counted."""

import dataclasses
from random import Random
from typing import Any

from msgspec.structs import replace

from flamestream.core.dataflow.held_outputs import HeldOutputs
from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.protocol.actions import Saved
from flamestream.core.worker import beginning, worker
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.rejoin import Rejoin
from flamestream.core.worker.skipping import gone_on
from flamestream.model.ids import Partition
from flamestream.model.time import END
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.outside.producers import SourceSite
from flamestream.simulation.settings import Plan
from sim.variants.deliveries import _at_the_cut
from sim.variants.variant import BrokenVariant, directed, patch, together, with_fronts

AT_MOST_ONCE = "at-most-once"
FAILURES = directed(
    Fault.WORKER_CRASH,
    Fault.LINK_BREAK,
    spacing=1_000,
    coordinator={"interval_us": 20_000},
    plan={"standbys": 1},
)
"""Workers die between two epochs, while records come all the time."""

STANDSTILLS = directed(
    Fault.WORKER_PAUSE, Fault.CONTROL_SILENCE, Fault.FRAME_DELAY, rate=0.3, times=6, spacing=1_500, clump=2,
    worker={"heartbeat": 5_000},
    coordinator={"interval_us": 5_000, "heartbeat_us": 15_000, "grace_us": 1_000, "workers": 2},
    plan={"workers": 2, "standbys": 1},
)  # fmt: skip


def same_times(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Workers stand still behind a cut, and come back when another attempt has stamped the same times."""
    plan, faults = STANDSTILLS(rng, drawn, chosen)
    fronts = tuple(dataclasses.replace(front, timed=True, run_length=2) for front in plan.worker.fronts)
    return with_fronts(plan, [_timed(site) for site in plan.sites], fronts), faults


def _timed(site: SourceSite) -> SourceSite:
    every = sorted((r for part in site.partitions.values() for r in part), key=lambda r: r.available)
    return dataclasses.replace(
        site, timed=True, replayable=True, open=False, run_length=2, partitions={Partition(""): every}
    )


UNHEARD = directed(
    Fault.WORKER_CRASH, Fault.COORDINATOR_CRASH, spacing=1_000, times=8, coordinator={"interval_us": 5_000},
    plan={"standbys": 1},
)  # fmt: skip
"""Coordinators die with what they had heard."""

_gone_on, _init, _committed = gone_on, Fronts.__init__, Fronts.committed


def _one_too_far(at_cut: Any, reached: Any) -> Any:
    """A report is taken for older than it is: what came since must have entered as well."""
    found = _gone_on(at_cut, reached)
    further = {partition: offset + 1 for partition, offset in found.offsets.items()}
    return found if reached is None else replace(found, offsets=further)


def _uncounted(at_cut: Any, reached: Any) -> Any:
    """Only the newest recovery's are counted."""
    return _gone_on(replace(at_cut, skipped=0), reached)


def _from_the_beginning(
    self: Fronts, fence: Any, settings: Any, mine: Any, positions: Any, *rest: Any
) -> None:
    """State goes back to the cut, and the sources to their first record."""
    _init(self, fence, settings, mine, {}, *rest[:2])


def _saved_when_entered(self: Fronts, cut: Any) -> None:
    """Who gives the records is told that nobody asks for them again as soon as they have entered."""
    _committed(self, cut)
    self.actions = [
        dataclasses.replace(action, offsets=self._fronts[action.front].positions.at(END).offsets)
        if isinstance(action, Saved)
        else action
        for action in self.actions
    ]


VARIANTS = [
    BrokenVariant(
        "at most once: output leaves with the cut",
        patch(HeldOutputs, prepare=_at_the_cut),
        FAILURES,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: output leaves at minimal time, and a front goes on at the cut",
        together(
            patch(worker, HeldOutputs=Outputs),
            patch(beginning, gone_on=lambda at_cut, reached: at_cut),
        ),
        FAILURES,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: sources begin anew, and the state does not",
        patch(Fronts, __init__=_from_the_beginning),
        FAILURES,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: a front goes on behind what is known to have entered",
        patch(beginning, gone_on=_one_too_far),
        FAILURES,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: what earlier recoveries have skipped is not counted",
        patch(beginning, gone_on=_uncounted),
        FAILURES,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: who was left out of an attempt keeps its state",
        patch(Rejoin, left_out=lambda self: None),
        same_times,
        guarantee=AT_MOST_ONCE,
    ),
    BrokenVariant(
        "at most once: who gives records forgets them when they have entered",
        patch(Fronts, committed=_saved_when_entered),
        UNHEARD,
        guarantee=AT_MOST_ONCE,
    ),
]
