"""The worker's host: between the reactor and the pure worker. All events of a turn go into one `step`; its
actions go to the ports.

One `step` a turn is the natural batching of the design: whatever has arrived together is processed together,
and everything it makes leaves together. An action's type selects its port from a table.

The garbage collector never runs by itself (collector.py).

Keeps: actions are carried out in the order of the step, and nothing behind Exit; `step` is never entered
twice at once. Does not: catch what the worker or a port raises (a bug ends the process), or know any
protocol.
"""

import logging
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import msgspec

from flamestream.core.protocol import actions, events, messages
from flamestream.core.protocol.actions import Action
from flamestream.core.protocol.events import Event
from flamestream.loop.collector import Collector
from flamestream.machine.process_identity import resident_bytes
from flamestream.model.ids import Offset, Partition, SinkName, WorkerId
from flamestream.model.time import FrontId, Instant, Time, Timestamp
from flamestream.node.busy_meter import BusyMeter
from flamestream.node.discretion import Discretion
from flamestream.ports import Asking, Caller, Consumer, Grouped, Journal, Links, Producer, Reactor, Snapshots

HEARTBEAT_SECONDS: Final = 0.1
_SWITCH_INTERVAL: Final = 0.0005
"""Seconds after which a busy helper thread must hand the interpreter back to the loop."""


log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class OnDemand(dict[K, V]):
    """A mapping that makes a value when its key is first asked for."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        self[key] = value = self._make(key)
        return value


class Stepped(Protocol):
    """The worker as the host needs it: `core.worker.worker.Worker`."""

    me: WorkerId

    def step(self, now: Timestamp, instant: Instant, events: list[Event], took: int, /) -> list[Action]: ...


class Loop(Reactor, Protocol):
    """A reactor that can be told to end."""

    def stop(self) -> None: ...


class Control(Protocol):
    """The link to the coordinator as the host needs it."""

    def tell(self, action: actions.ToldCoordinator) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of one worker."""

    links: Links
    journals: Mapping[FrontId, Journal]
    producers: dict[FrontId, Producer]
    """Producers, made when first asked for (OnDemand), so a worker has those of its own fronts."""
    consumers: Mapping[SinkName, Consumer]
    snapshots: Snapshots
    control: Control
    problems: Callable[[], Iterable[str]] = tuple
    """Lasting troubles of the ports that do not stop the worker; they travel with its heartbeat."""
    caller: Caller | None = None
    """The caller, if the graph has calls."""
    discretion: Discretion = field(default_factory=lambda: Discretion(private=False))
    """Takes users' data out of what the coordinator is told, where others read that."""
    busy: BusyMeter | None = None
    """The meter of where the worker's time goes; None: nobody is told."""
    asking: Asking | None = None
    """The clients that ask for states; None: nobody may."""


class WorkerHost:
    """`inbox` is the list whose `append` the ports were given as `post`."""

    def __init__(self, worker: Stepped, reactor: Loop, inbox: list[Event], ports: Ports) -> None:
        self._worker, self._reactor, self._inbox = worker, reactor, inbox
        self._outside = ports
        self._durable: OnDemand[FrontId, _Durable] = OnDemand(lambda front: _Durable(ports.producers[front]))
        self._collector = Collector()
        self._beat = events.Woken()
        """The heartbeat's own event, told from the wake-ups that a worker asks for itself, in the middle of
        its work."""
        self._took = 0
        """Microseconds of the last turn's step, and of carrying it out."""
        self._accepted: messages.Accepted | None = None
        """The newest epoch that this worker has accepted."""
        self.exit: actions.Exit | None = None
        """The reason why the loop has stopped; None while it turns."""
        self._ports: dict[type[Action], Callable[[Any], None]] = {
            actions.ToldCoordinator: self._tell,
            actions.ToPeer: ports.links.send,
            actions.LinkPeers: ports.links.link,
            actions.SealJournal: lambda action: ports.journals[action.front].seal(action),
            actions.Append: self._append,
            actions.TrimJournal: lambda action: ports.journals[action.front].trim(action),
            actions.Saved: self._saved,
            actions.ReadRun: lambda action: ports.producers[action.front].read(action),
            actions.Follow: lambda action: ports.producers[action.front].follow(action),
            actions.Pull: self._pull,
            actions.OpenSink: lambda action: ports.consumers[action.sink].open(action),
            actions.Deliver: lambda action: ports.consumers[action.sink].deliver(action),
            actions.MakeCall: self._make_call,
            actions.Upload: ports.snapshots.upload,
            actions.Load: ports.snapshots.load,
            actions.Prefetch: ports.snapshots.prefetch,
            actions.Answered: self._told_client,
            actions.NotAnswered: self._told_client,
            actions.Wake: self._wake,
            actions.WakeAt: self._wake_at,
        }

    def start(self) -> None:
        """Begin the heartbeats, and take over the garbage collector."""
        sys.setswitchinterval(_SWITCH_INTERVAL)
        self._collector.start()
        self._reactor.soon(self._heartbeat)

    def turn(self) -> None:
        """The reactor's pass hook: one step over everything that was posted."""
        if not self._inbox or self.exit is not None:
            return
        batch = self._inbox.copy()
        self._inbox.clear()  # not a new list: the ports hold this one's `append`
        self._notice(batch)
        began = self._reactor.instant()
        for action in self._worker.step(self._reactor.now(), began, batch, self._took):
            if type(action) is actions.Exit:
                self.exit = action
                self._reactor.stop()
                return
            self._ports[type(action)](action)
        self._tell_clients(batch)
        self._took = self._reactor.instant() - began
        self._collector.turn(idle=len(batch) == 1 and batch[0] is self._beat)

    def _heartbeat(self) -> None:
        self._inbox.append(self._beat)
        self._reactor.later(HEARTBEAT_SECONDS, self._heartbeat)

    def _tell(self, action: actions.ToldCoordinator) -> None:
        message = action.message
        if type(message) is messages.Accepted:
            self._accepted = message
        if type(message) is messages.Progress:
            told = "; ".join(filter(None, [message.problem, *self._outside.problems()]))
            action = actions.ToldCoordinator(
                msgspec.structs.replace(message, problem=told, memory=resident_bytes())
            )
        self._outside.control.tell(actions.ToldCoordinator(self._outside.discretion.about(action.message)))
        if type(message) is messages.Progress and self._outside.busy is not None:
            busy = self._outside.busy.report(message.fence, self._reactor.instant())
            if busy is not None:
                self._outside.control.tell(actions.ToldCoordinator(busy))

    def _pull(self, action: actions.Pull) -> None:
        if self._outside.busy is not None:
            self._outside.busy.pulled(action.front, action.records, self._reactor.instant())
        self._outside.producers[action.front].pull(action)

    def _make_call(self, action: actions.MakeCall) -> None:
        assert self._outside.caller is not None, "a graph with calls has a caller"
        self._outside.caller.make(action)

    def _told_client(self, action: actions.Answered | actions.NotAnswered) -> None:
        assert self._outside.asking is not None, "somebody has asked"
        self._outside.asking.told(action)

    def _wake(self, _: actions.Wake) -> None:
        self._reactor.soon(self._woken)

    def _wake_at(self, action: actions.WakeAt) -> None:
        self._reactor.later(max(0, action.time - self._reactor.now()) / 1e6, self._woken)

    def _woken(self) -> None:
        self._inbox.append(events.Woken())

    # --- what a journal or a snapshot has made durable, for clients that wait for it ------------------------

    def _append(self, action: actions.Append) -> None:
        self._durable[action.front].appended(action)
        self._outside.journals[action.front].append(action)

    def _tell_clients(self, batch: list[Event]) -> None:
        """Tell producers what is durable now: behind the step, whose results others wait for more."""
        for event in batch:
            if isinstance(event, events.JournalAppended):
                self._durable[event.front].durable(event)

    def _saved(self, action: actions.Saved) -> None:
        for partition, upto in action.offsets.items():
            self._outside.producers[action.front].durable(action.cut, partition, upto)

    def _notice(self, batch: list[Event]) -> None:
        """Do what the shell itself has to do with some events."""
        for event in batch:
            if isinstance(event, events.Loaded):
                log.info("loaded", extra={"attempt": event.fence.attempt, "chains": len(event.chains)})
                # behind the step that takes it: the restored state is never looked at
                self._reactor.soon(self._collector.settle)
            elif isinstance(event, events.FromCoordinator) and isinstance(event.message, messages.Committed):
                self._tell_groups(event.message)
            elif isinstance(event, events.FromCoordinator) and isinstance(
                event.message, messages.Recover | messages.Replay
            ):
                log.info("told", extra={"message_": type(event.message).__name__})
                if isinstance(event.message, messages.Recover):
                    layout = event.message.assignment.layout
                    self._let_go(layout.fronts_of(self._worker.me))
                    if self._outside.asking is not None:
                        self._outside.asking.serve(self._worker.me in layout.workers)

    def _tell_groups(self, committed: messages.Committed) -> None:
        """Tell producers that want it how far their fronts are in the committed epoch."""
        accepted = self._accepted
        if accepted is None or (accepted.fence, accepted.epoch) != (committed.fence, committed.epoch):
            return
        for position in accepted.fronts:
            producer = self._outside.producers.get(position.front)
            if isinstance(producer, Grouped):
                producer.committed(position.offsets)

    def _let_go(self, mine: Collection[FrontId]) -> None:
        """Close the producers of fronts that another worker has from now on."""
        for front in [front for front in self._outside.producers if front not in mine]:
            # made anew if the front comes back
            self._outside.producers.pop(front).close()
            self._durable.pop(front, None)


class _Durable:
    """The entries of one front on their way into its journal: it answers with times, the producer wants
    offsets."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._fence: object = None
        self._under_way: deque[tuple[Time, Partition, Offset]] = deque()

    def appended(self, action: actions.Append) -> None:
        if action.fence != self._fence:
            # an entry of an older attempt may be lost: an answer to a later one must not stand for it
            self._fence = action.fence
            self._under_way.clear()
        if (entry := action.entry).moves:
            self._under_way.append((entry.time, entry.partition, entry.next))

    def durable(self, event: events.JournalAppended) -> None:
        if event.fence != self._fence:
            return
        reached: dict[Partition, tuple[Time, Offset]] = {}
        while self._under_way and self._under_way[0][0] <= event.time:
            time, partition, upto = self._under_way.popleft()
            reached[partition] = (time, upto)
        for partition, (time, upto) in reached.items():
            self._producer.durable(time, partition, upto)
