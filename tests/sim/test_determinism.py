"""The same seed gives the same trace, in this process and in one with another hash seed (invariant 10)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flamestream.testing import simulate

SEEDS = range(40, 60)
RUNTIME = Path(__file__).parents[2] / "runtime"
PROGRAM = "from flamestream.testing import simulate\nprint([simulate(seed).trace_hash for seed in range(40, 60)])"


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_a_seed_is_one_run(seed: int) -> None:
    first, again = simulate(seed), simulate(seed)
    assert (first.trace_hash, first.events) == (again.trace_hash, again.events)


def test_keeping_the_lines_changes_nothing() -> None:
    assert simulate(41, trace=True).trace_hash == simulate(41).trace_hash


def test_a_process_with_another_hash_seed_runs_the_same() -> None:
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME), "PYTHONHASHSEED": "12345"}
    other = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert other.stdout.strip() == str([simulate(seed).trace_hash for seed in SEEDS])
