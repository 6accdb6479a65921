"""The bank as one ordinary fold over all rows, which its transactions are measured beside, gives the same bytes."""

from typing import Any

import bank_graphs
import pytest
from bank import alone

import flamestream as fs
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions

TRANSFERS = 600


class Delivered(alone.Worker):
    """Notes what leaves."""

    def __init__(self, parts: Parts, graph: fs.Graph) -> None:
        self.bundles = list[Any]()
        super().__init__(parts, graph)

    def _act(self, action: actions.Action) -> None:
        if isinstance(action, actions.Deliver):
            self.bundles += [(action.sink, bundle) for bundle in action.bundles]
        super()._act(action)


def delivered(parts: Parts, graph: fs.Graph) -> list[Any]:
    worker = Delivered(parts, graph)
    alone._enter(worker, alone._texts(TRANSFERS))
    worker.epoch()
    return worker.bundles


@pytest.mark.parametrize("parts", [FASTEST, REFERENCE])
def test_a_composition_delivers_the_same_bytes_as_transactions(parts: Parts) -> None:
    found = delivered(parts, alone.composed())
    assert found == delivered(parts, bank_graphs.bank)
    assert sum(len(bundle.items) for _, bundle in found) >= TRANSFERS
