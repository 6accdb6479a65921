"""The worker's host: between the reactor and the pure worker. All events of a turn go into one `step`; its actions go to the ports.

One `step` a turn is the natural batching of the design: whatever has arrived together is processed together, and everything it makes
leaves together. An action's type selects its port from a table.

The garbage collector never runs by itself (collector.py).

Keeps: actions are carried out in the order of the step, and nothing behind Exit; `step` is never entered twice at once. Does not:
catch what the worker or a port raises (a bug ends the process), or know any protocol.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from flamestream.adapters.collector import Collector
from flamestream.core import actions, events
from flamestream.core.actions import Action
from flamestream.core.events import Event
from flamestream.model.ids import Offset, Partition, SinkName
from flamestream.model.time import FrontId, Time, Timestamp
from flamestream.ports import Consumer, Journal, Links, Producer, Reactor, Snapshots

HEARTBEAT_SECONDS: Final = 0.1
_SWITCH_INTERVAL: Final = 0.0005
"""Seconds after which a busy helper thread must hand the interpreter back to the loop."""


class Stepped(Protocol):
    """What the host needs of `core.worker.Worker`."""

    def step(self, now: Timestamp, batch: list[Event], /) -> list[Action]: ...


class Control(Protocol):
    """What the host needs of the link to the coordinator."""

    def tell(self, action: actions.ToldCoordinator) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of one worker."""

    links: Links
    journals: Mapping[FrontId, Journal]
    producers: Mapping[FrontId, Producer]
    consumers: Mapping[SinkName, Consumer]
    snapshots: Snapshots
    control: Control


class WorkerHost:
    """`inbox` is the list whose `append` the ports were given as `post`."""

    def __init__(self, worker: Stepped, reactor: Reactor, inbox: list[Event], ports: Ports) -> None:
        self._worker, self._reactor, self._inbox = worker, reactor, inbox
        self._durable = {front: _Durable(producer) for front, producer in ports.producers.items()}
        self._journals = ports.journals
        self._collector = Collector()
        self.exit: actions.Exit | None = None
        """Why the loop has stopped."""
        self._ports: dict[type[Any], Callable[[Any], None]] = {
            actions.ToldCoordinator: ports.control.tell,
            actions.ToPeer: ports.links.send,
            actions.LinkPeers: ports.links.link,
            actions.SealJournal: lambda action: ports.journals[action.front].seal(action),
            actions.Append: self._append,
            actions.TrimJournal: lambda action: ports.journals[action.front].trim(action),
            actions.ReadRun: lambda action: ports.producers[action.front].read(action),
            actions.Follow: lambda action: ports.producers[action.front].follow(action),
            actions.Pull: lambda action: ports.producers[action.front].pull(action),
            actions.OpenSink: lambda action: ports.consumers[action.sink].open(action),
            actions.Deliver: lambda action: ports.consumers[action.sink].deliver(action),
            actions.Upload: ports.snapshots.upload,
            actions.Load: ports.snapshots.load,
            actions.Wake: self._wake,
        }

    def start(self) -> None:
        """Heartbeats from now on, and the collector under this host's rule."""
        sys.setswitchinterval(_SWITCH_INTERVAL)
        self._collector.start()
        self._heartbeat()

    def turn(self) -> None:
        """The reactor's pass hook: one step over everything that was posted."""
        if not self._inbox or self.exit is not None:
            return
        batch = self._inbox.copy()
        self._inbox.clear()
        self._notice_journal(batch)
        for action in self._worker.step(self._reactor.now(), batch):
            if type(action) is actions.Exit:
                self.exit = action
                self._reactor.stop()
                return
            self._ports[type(action)](action)
        self._collector.turn(idle=len(batch) == 1 and type(batch[0]) is events.Woken)

    def _heartbeat(self) -> None:
        self._inbox.append(events.Woken())
        self._reactor.later(HEARTBEAT_SECONDS, self._heartbeat)

    def _wake(self, _: actions.Wake) -> None:
        self._reactor.soon(self._woken)

    def _woken(self) -> None:
        self._inbox.append(events.Woken())

    # --- what a journal has made durable, for clients that wait for it ------------------------------------------------------------

    def _append(self, action: actions.Append) -> None:
        self._durable[action.front].appended(action)
        self._journals[action.front].append(action)

    def _notice_journal(self, batch: list[Event]) -> None:
        for event in batch:
            if type(event) is events.JournalAppended:
                self._durable[event.front].durable(event)
            elif type(event) is events.Loaded:
                self._reactor.soon(self._collector.settle)


class _Durable:
    """The entries of one front on their way into its journal: it answers with times, the producer wants offsets."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._fence: object = None
        self._under_way: deque[tuple[Time, Partition, Offset]] = deque()

    def appended(self, action: actions.Append) -> None:
        if action.fence != self._fence:
            self._fence = action.fence
            self._under_way.clear()
        entry = action.entry
        self._under_way.append((entry.time, entry.partition, Offset(entry.first + entry.count)))

    def durable(self, event: events.JournalAppended) -> None:
        if event.fence != self._fence:
            return
        reached: dict[Partition, tuple[Time, Offset]] = {}
        while self._under_way and self._under_way[0][0] <= event.time:
            time, partition, upto = self._under_way.popleft()
            reached[partition] = (time, upto)
        for partition, (time, upto) in reached.items():
            self._producer.durable(time, partition, upto)
