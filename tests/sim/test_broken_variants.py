"""Every rule of the protocol is needed: take one away, and the simulator notices within a few seeds.

The table in docs/reliability.md says which seed and invariant; `make reliability-table` writes it.
"""

from pathlib import Path

import pytest

from sim.variants import VARIANTS
from sim.variants.variant import BrokenVariant

TABLE = Path(__file__).parents[2] / "docs" / "reliability.md"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_is_caught(variant: BrokenVariant) -> None:
    caught = variant.caught()
    assert caught is not None, f"{variant.name!r} was not noticed within {variant.seeds} seeds"


def test_the_table_has_every_variant() -> None:
    rows = [line.split("|")[1].strip() for line in TABLE.read_text().splitlines() if line.startswith("| ") and line.count("|") == 6]
    assert [row for row in rows if row in {variant.name for variant in VARIANTS}] == [variant.name for variant in VARIANTS]
