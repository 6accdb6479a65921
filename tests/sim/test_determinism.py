"""The same seed gives the same trace, in this process and in one with another hash seed (invariant 10)."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.settings import Plan
from flamestream.testing import simulate

SEEDS = range(40, 60)
RUNTIME = Path(__file__).parents[2] / "runtime"
PROGRAM = (
    "from flamestream.testing import simulate\nprint([simulate(seed).trace_hash for seed in range(40, 60)])"
)


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_a_seed_is_one_run(seed: int) -> None:
    first, again = simulate(seed), simulate(seed)
    assert (first.trace_hash, first.events) == (again.trace_hash, again.events)


def test_keeping_the_lines_changes_nothing() -> None:
    assert simulate(41, trace=True).trace_hash == simulate(41).trace_hash


def test_parquet_files_and_packed_rows_are_one_run() -> None:
    """By the product's code and by the core's own: so they have the same chains, whatever is merged or at
    hand."""
    of_both = [
        [simulate(seed, adjust=partial(_segments, kind)).trace_hash for seed in SEEDS]
        for kind in (True, False)
    ]
    assert of_both[0] == of_both[1]


def _segments(parquet: bool, rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
    return replace(plan, parquet=parquet), faults


def test_a_process_with_another_hash_seed_runs_the_same() -> None:
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME), "PYTHONHASHSEED": "12345"}
    other = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert other.stdout.strip() == str([simulate(seed).trace_hash for seed in SEEDS])
