"""What all figures share: one run of one system between an outside producer and consumer, and the tables of
what came out."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]
JOBS = BENCHMARKS / "jobs"
"""Applications, which are files: each has one module name, wherever it is loaded."""
PATHS = [str(BENCHMARKS.parent / "runtime"), str(BENCHMARKS), str(JOBS)]
"""Where a process of a benchmark finds its modules."""
