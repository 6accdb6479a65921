"""The outside that outlives every simulated process: network, journals, store, job record, consumers and
sources."""

from collections.abc import Mapping
from dataclasses import dataclass

from flamestream.model.ids import SinkName
from flamestream.model.time import FrontId
from flamestream.simulation.outside.consumers import ConsumerSite
from flamestream.simulation.outside.journals import Journals
from flamestream.simulation.outside.network import Network
from flamestream.simulation.outside.producers import SourceSite
from flamestream.simulation.outside.records import Records
from flamestream.simulation.outside.services import Service
from flamestream.simulation.outside.stores import Store


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that outlives every process."""

    network: Network
    journals: Journals
    store: Store
    records: Records
    consumers: Mapping[SinkName, ConsumerSite]
    sources: Mapping[FrontId, SourceSite]
    service: Service
    delay: int
    """The usual one of anything, in microseconds."""
    turn: int
    """The most that a process waits before its next pass."""
