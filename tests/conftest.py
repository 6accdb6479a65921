"""Rules for all tests: which may run side by side, and how examples are drawn.

With `-n 2 --dist loadgroup`, everything that starts real servers or Spark is one group, so it has one of the two cores for itself,
one test after the other, while the pure tests use the other core.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from sim import commit_seeds
from support import skips

# The same examples every time, judged by what they show and not by how long a busy machine takes for them.
settings.register_profile("flamestream", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("flamestream")
# Nor may they depend on which modules are loaded: hypothesis draws constants of their source, also of one that a thread imports meanwhile.
providers._get_local_constants = lambda: providers._local_constants

INTEGRATION = Path(__file__).parent / "integration"


def pytest_configure(config: pytest.Config) -> None:
    skips.register(config)


def pytest_report_header() -> str:
    return commit_seeds.told()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if INTEGRATION in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("real servers"))
