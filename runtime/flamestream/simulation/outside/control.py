"""Connections between workers and coordinators: in order, breakable, with either direction falling silent.

A worker has one connection at a time, to the newest coordinator that it knows of; it says Hello first and
connects again when the connection breaks. A coordinator that is a zombie keeps the connections that nobody
has taken away from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flamestream.core.coordinator import coordination as c
from flamestream.core.protocol.events import Event, FromCoordinator
from flamestream.core.protocol.messages import Hello, ToCoordinator, ToWorker
from flamestream.model.ids import WorkerId
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import World

LATE = (5_000, 80_000)
"""Microseconds by which a late message is late: from a few hops to more than most epochs and recoveries
take."""


class WorkerEnd(Protocol):
    """A worker process, as a connection sees it."""

    id: WorkerId

    def post(self, event: Event) -> None: ...
    def hello(self) -> Hello: ...
    def disconnected(self, link: "ControlLink") -> None: ...


class CoordinatorEnd(Protocol):
    """A coordinator process, as a connection sees it."""

    links: dict[WorkerId, "ControlLink"]

    def post(self, event: c.Event) -> None: ...


@dataclass(slots=True)
class _Way:
    arrives: int = 0
    silent_until: int = 0


class ControlLink:
    """A connection between a worker and a coordinator."""

    def __init__(self, world: World, delay: int, worker: WorkerEnd, coordinator: CoordinatorEnd) -> None:
        self.broken = False
        self.worker = worker
        self.coordinator = coordinator
        self._world = world
        self._delay = delay
        self._up = _Way()
        self._down = _Way()
        self._carry(self._up, self._greet, worker.hello())

    def tell_coordinator(self, message: ToCoordinator) -> None:
        """Send to the coordinator in order; lost if the connection breaks meanwhile."""
        self._carry(self._up, self._arrive_up, message)

    def tell_worker(self, message: ToWorker) -> None:
        """Send to the worker in order; lost if the connection breaks meanwhile."""
        self._carry(self._down, self._arrive_down, message)

    def silence(self, lasts: int) -> None:
        """Let one direction carry nothing for a while."""
        way = self._up if self._world.rng.random() < 0.5 else self._down
        way.silent_until = self._world.now + lasts

    def heal(self) -> None:
        """Nothing more is held back."""
        self._up.silent_until = self._down.silent_until = 0

    def finish(self) -> None:
        """Closed by the coordinator in good order: what it has said still arrives."""
        self._world.after(max(1, self._down.arrives - self._world.now + 1), self.close)

    def close(self) -> None:
        """Broken; each side hears of it in its own time."""
        if not self.broken:
            self.broken = True
            self._world.after(self._time(), self._tell_coordinator_end)
            self._world.after(self._time(), self.worker.disconnected, self)

    def _time(self) -> int:
        return self._world.between(self._delay // 2, 2 * self._delay)

    def _carry(self, way: _Way, arrive: Callable[[object], None], message: object) -> None:
        if not self.broken:
            # Not before what was said before it: a late message holds back all behind it.
            way.arrives = max(
                way.arrives, self._world.now + self._time() + self._late(message), way.silent_until
            )
            self._world.after(way.arrives - self._world.now, arrive, message)

    def _late(self, message: object) -> int:
        world = self._world
        hit = type(message).__name__ in world.faults.late_words and world.hits(Fault.CONTROL_DELAY)
        return world.between(*LATE) if hit else 0

    def _greet(self, hello: object) -> None:
        assert isinstance(hello, Hello)
        if self.broken:
            return
        old = self.coordinator.links.get(self.worker.id)
        if old is not None and old is not self:
            old.broken = True  # a worker has one connection at a time
            self.coordinator.post(c.WorkerDisconnected(self.worker.id))
        self.coordinator.links[self.worker.id] = self
        self.coordinator.post(c.WorkerConnected(hello))

    def _arrive_up(self, message: object) -> None:
        # One that was replaced, or taken away by a Disconnect, says nothing any more.
        if not self.broken and self.coordinator.links.get(self.worker.id) is self:
            self.coordinator.post(c.FromWorker(self.worker.id, message))  # type: ignore[arg-type]

    def _arrive_down(self, message: object) -> None:
        if not self.broken:
            self.worker.post(FromCoordinator(message))  # type: ignore[arg-type]

    def _tell_coordinator_end(self) -> None:
        if self.coordinator.links.get(self.worker.id) is self:
            del self.coordinator.links[self.worker.id]
            self.coordinator.post(c.WorkerDisconnected(self.worker.id))


def break_random(world: World, links: list[ControlLink]) -> None:
    """Break one of them."""
    if links:
        world.faults.happened(Fault.CONTROL_BREAK)
        world.rng.choice(links).close()


def silence_random(world: World, links: list[ControlLink], lasts: int) -> None:
    """Let a random link fall silent in one direction."""
    if links:
        world.faults.happened(Fault.CONTROL_SILENCE)
        world.rng.choice(links).silence(lasts)
