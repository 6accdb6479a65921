"""Every rule of the protocol is needed: take one away, and the simulator notices within a few seeds.

The table in docs/explanation/reliability.md says which seed is the first to notice, and how; `make
reliability-table` writes it. A change of the engine or the simulator that moves a seed must write it again,
and whoever reads the change sees what moved.
"""

from pathlib import Path

import pytest

from sim.variants import VARIANTS
from sim.variants.table import PAGE, row, rows
from sim.variants.variant import BrokenVariant

TABLE = rows(Path(PAGE).read_text())
SEEDS = {name: int(seed) for name, _, _, seed, *_ in (line.strip("| ").split(" | ") for line in TABLE)}
ALL = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
STALE = "write the table again: make reliability-table"


@ALL
def test_is_caught_by_the_seed_that_the_table_names(variant: BrokenVariant) -> None:
    assert row(variant, SEEDS[variant.name]) in TABLE, STALE


@pytest.mark.slow
@ALL
def test_no_seed_before_that_catches_it(variant: BrokenVariant) -> None:
    assert row(variant) in TABLE, STALE


def test_the_table_has_every_variant() -> None:
    assert [line.split("|")[1].strip() for line in TABLE] == [variant.name for variant in VARIANTS]
