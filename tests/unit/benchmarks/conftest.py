"""The benchmarks' modules are scripts beside each other: they are found by their folder, behind everything
else."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "jobs")]
