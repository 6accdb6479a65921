"""Slots that move for their load, and workers that come and go for it, change no byte of output, whatever
crashes meanwhile."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.simulation.changes.loads import loaded
from flamestream.simulation.graphs import inverted_index
from flamestream.simulation.settings import Adjust, promising
from flamestream.testing import simulate
from sim.variants.loads import CRASHES
from support.seeds import chunks


def covered(seeds: Iterable[int], adjust: Adjust = loaded) -> Counter[str]:
    """The coverage of runs that all ended as they should: `simulate` raises where one does not."""
    found = Counter[str]()
    for seed in seeds:
        found.update(simulate(seed, adjust=adjust).coverage)
    return found


@pytest.mark.parametrize("first", chunks(0, 400, 40, at_push=80))
def test_slots_move_and_workers_come_and_go_without_changing_a_byte(first: int) -> None:
    found = covered(range(first, first + 40))
    assert found["recovery.moved"] and found["coordinator.wants more"] and found["coordinator.wants fewer"]
    assert found["epoch.moved slots"] and found["peer.Paused"]


@pytest.mark.parametrize(
    "guarantee", ["exactly-once-2pc", "at-most-once", "at-least-once", "strong-productions"]
)
def test_under_every_guarantee(guarantee: str) -> None:
    assert covered(range(30), promising(guarantee, loaded))["recovery.moved"]


def test_without_state_nothing_moves() -> None:
    found = covered(range(30), promising("none", loaded))
    assert found["said.Busy"] and not found["recovery.moved"] and not found["coordinator.wants more"]


def test_whoever_is_lost_while_slots_are_about_to_move() -> None:
    found = Counter[str]()
    for seed in range(60):
        found.update(simulate(seed, adjust=CRASHES, job=inverted_index(Random(seed))).coverage)
    assert found["recovery.moved"] and found["standby.took over warm"]


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
def test_the_kernel_tells_the_same_loads() -> None:
    assert kernel is not None
    for seed in range(40):
        ours, theirs = (simulate(seed, adjust=loaded, parts=parts) for parts in (REFERENCE, native(kernel)))
        assert (seed, ours.trace_hash) == (seed, theirs.trace_hash)
