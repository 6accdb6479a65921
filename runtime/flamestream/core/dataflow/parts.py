"""Parts: what a worker is made of where there are two ways: the Python modules, which are the reference, or
the native kernel.

Does not: choose (native.py, and whoever makes a worker). The simulator runs both, and both must give the same
trace.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flamestream.core.dataflow.barrier import Barrier, Result
from flamestream.core.dataflow.dataflow import NO_DOORS, Dataflow, Output, Work
from flamestream.core.dataflow.delivery import Delivery
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.meter import Clock, Cost, OperationCount
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import LastBundle
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.queries import Matching
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.protocol.snapshot import SlotOutput
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, SinkName, Slot, WorkerId
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import Time


class States(Protocol):
    """The keyed state of one vertex: see keyed_state.py."""

    def rows(self, number: int, epoch: Epoch, cut: Time) -> Iterator[Row | None]: ...
    def committed(self, cut: Time) -> Iterator[None]: ...
    def go_back(self, cut: Time) -> None: ...
    def keep(self, slots: Iterable[Slot]) -> None: ...
    def load(self, chains: Sequence[Chain]) -> None: ...
    def complete(self, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]: ...
    def state_at(self, key: bytes, cut: Time) -> Any: ...
    def states_at(self, keys: Sequence[bytes], cut: Time) -> list[bytes | None]: ...
    def order(self, count: int) -> bool: ...
    def page(self, after: bytes, count: int, matching: Matching) -> tuple[list[bytes], bool]: ...


class Released(Protocol):
    """Results that are final, ascending."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Result]: ...


class Holding(Protocol):
    """The results of one sink until minimal time passes them: see barrier.py."""

    @property
    def dropped(self) -> int: ...
    def release(self, minimal: Time, /) -> Released: ...


class Delivering(Protocol):
    """The results of one sink on their way to its consumer: see delivery.py."""

    sink: SinkName
    number: int

    @property
    def settled(self) -> Time: ...
    def opened(self, last: Mapping[Slot, LastBundle], compare: bool) -> None: ...
    def outputs(self) -> list[SlotOutput]: ...
    def put(self, released: Any, /) -> None:
        """Take what a barrier of the same parts has released, in whatever form that is."""

    def passed(self, minimal: Time, /) -> None: ...
    def next_call(self) -> tuple[Bundle, ...] | None: ...
    def acknowledged(self, number: int) -> None: ...
    def waiting_times(self) -> set[Time]: ...


class Flow(Protocol):
    """The graph on one worker: see dataflow.py."""

    errors: int

    @property
    def states(self) -> Mapping[int, States]: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def waits(self) -> bool: ...
    @property
    def undecided(self) -> Time: ...
    def reset(
        self,
        owners: Sequence[WorkerId],
        barriers: Mapping[int, Any],
        doors: Mapping[int, Sequence[WorkerId]] = NO_DOORS,
        /,
    ) -> None: ...
    def receive(self, message: Data) -> None: ...
    def share(self, runs: list[Work]) -> bool: ...
    def run(self, runs: list[Work]) -> None: ...
    def bad_record(self, cause: Time, meta: Meta, error: ErrorValue) -> None: ...
    def contended(self) -> Contended: ...
    def measure(self, every: int, clock: Clock | None = None) -> None: ...
    def measured(self) -> list[Cost]: ...
    def by_operation(self) -> list[OperationCount]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """How to make each. A barrier's releases go to a delivery of the same parts."""

    dataflow: Callable[[Graph, WorkerSettings, WorkerId, LiveCuts, Output], Flow]
    barrier: Callable[[], Holding]
    delivery: Callable[[SinkName, Time, int], Delivering]


REFERENCE = Parts(Dataflow, Barrier, Delivery)
