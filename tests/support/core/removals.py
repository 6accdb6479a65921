"""Transactions that are taken back, counted while a test runs, whoever simulates them.

Does not: know of the kernel's.
"""

from collections import Counter
from typing import Any

import pytest

from flamestream.core.dataflow.tables.transactions import Transactions
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta


def counted_removals(monkeypatch: pytest.MonkeyPatch) -> Counter[Slot]:
    """How many there were, by slot; it grows."""
    found, remove = Counter[Slot](), Transactions.remove

    def noted(self: Transactions, slot: Slot, meta: Meta, payload: Any) -> Any:
        found[slot] += 1
        return remove(self, slot, meta, payload)

    monkeypatch.setattr(Transactions, "remove", noted)
    return found
