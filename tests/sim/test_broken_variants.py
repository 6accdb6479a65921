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


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_is_caught_by_the_seed_that_the_table_names(variant: BrokenVariant) -> None:
    assert row(variant) in TABLE, "write the table again: make reliability-table"


def test_the_table_has_every_variant() -> None:
    assert [line.split("|")[1].strip() for line in TABLE] == [variant.name for variant in VARIANTS]
