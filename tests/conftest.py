"""Rules for all tests: which may run side by side, and how examples are drawn.

Tests are dealt out to processes by files (`--dist loadfile`): a file's servers are started once, its seeds
are run once, and what its tests say together (which figures were looked at) is known to the last of them.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from sim import commit_seeds
from support import skips

# The benchmarks' modules are scripts beside each other: the attacks use their arithmetic.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
# The same examples every time, judged by what they show and not by how long a busy machine takes for them.
settings.register_profile(
    "flamestream", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flamestream")
# Nor may they depend on which modules are loaded: hypothesis draws constants of their source, also of one
# that a thread imports meanwhile.
providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    skips.register(config)


def pytest_report_header() -> str:
    return commit_seeds.told()
