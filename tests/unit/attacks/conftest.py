"""The benchmarks' modules are scripts beside each other: the attacks use their arithmetic."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
