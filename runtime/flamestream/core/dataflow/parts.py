"""Parts: what a worker is made of where there are two ways: the Python modules, which are the reference, or the native kernel.

Does not: choose (native.py, and whoever makes a worker). The simulator runs both, and both must give the same trace.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.dataflow import Dataflow, Output, Work
from flamestream.core.dataflow.delivery import Delivery
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import Time


class Flow(Protocol):
    """The graph on one worker: what dataflow.py says."""

    states: dict[int, Any]
    errors: int

    @property
    def has_work(self) -> bool: ...
    @property
    def waits(self) -> bool: ...
    def reset(self, owners: Sequence[WorkerId], barriers: Mapping[int, Any]) -> None: ...
    def receive(self, message: Data) -> None: ...
    def share(self, runs: list[Work]) -> bool: ...
    def run(self, runs: list[Work]) -> None: ...
    def bad_record(self, cause: Time, meta: Meta, error: ErrorValue) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """How to make each. A barrier's releases go to a delivery of the same parts."""

    dataflow: Callable[[Graph, WorkerSettings, WorkerId, LiveCuts, Output], Flow]
    barrier: Callable[[], Any]
    delivery: Callable[[SinkName, Time, int], Any]


REFERENCE = Parts(Dataflow, Barrier, Delivery)
