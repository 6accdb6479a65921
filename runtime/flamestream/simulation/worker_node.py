"""A worker process: the real core, with every action handed to a simulated port.

A node is one life: `flamestream.core.worker.worker.Worker` under the ports, exactly as the shell in
`flamestream.spark` runs it.

Does not: decide who is started again when (cluster.py).
"""

from collections.abc import Callable, Sequence

import msgspec

from flamestream.core.dataflow.meter import Cost, OperationCount
from flamestream.core.dataflow.parts import Flow, Parts
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.protocol import actions as a
from flamestream.core.protocol.events import Event, FromCoordinator, JournalAppended, Woken
from flamestream.core.protocol.messages import Hello, Progress, Recover, ToCoordinator
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.worker import Worker
from flamestream.model.calls.call import calls_of
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Offset, Partition, WorkerId
from flamestream.model.time import FrontId, Instant
from flamestream.node.busy_meter import BusyMeter
from flamestream.simulation.faults import Fault
from flamestream.simulation.outside.consumers import ConsumerPort
from flamestream.simulation.outside.control import ControlLink
from flamestream.simulation.outside.journals import JournalPort
from flamestream.simulation.outside.outside import Outside
from flamestream.simulation.outside.producers import ProducerPort
from flamestream.simulation.outside.services import CallPort
from flamestream.simulation.outside.snapshots import SnapshotPort
from flamestream.simulation.process import Process
from flamestream.simulation.world import World


class WorkerNode(Process):
    """The life of one worker process."""

    crash_in_step = Fault.WORKER_CRASH_IN_STEP
    stall_in_step = Fault.WORKER_STALL_IN_STEP

    def __init__(
        self, world: World, me: WorkerId, graph: Graph, settings: WorkerSettings, outside: Outside,
        ended: Callable[["WorkerNode"], None], parts: Parts,
    ) -> None:  # fmt: skip
        super().__init__(world, me, outside.turn)
        self.id = me
        self._graph = graph
        self.exit: a.Exit | None = None
        self.link: ControlLink | None = None
        self.core = Worker(me, graph, settings, parts)
        self.vocabulary = ""
        """The messages that it says it knows; "": those of the release."""
        self.answered: Callable[[a.Answered | a.NotAnswered], None] = lambda action: None
        """Is shown each answer to a client."""
        self._ended = ended
        self._heartbeat = settings.heartbeat
        self._network = outside.network
        self._journal = JournalPort(outside.journals, self.post)
        self._snapshots = SnapshotPort(outside.store, me, self.post)
        self._consumers = {sink: ConsumerPort(site, self.post) for sink, site in outside.consumers.items()}
        self._producers = {
            front: ProducerPort(world, site, outside.delay, self.post)
            for front, site in outside.sources.items()
        }
        never = {name for name, call in calls_of(graph).items() if call.settings.doubt == "never"}
        self._caller = CallPort(outside.service, self.post, frozenset(never))
        self._meter: BusyMeter | None = None
        self._appended: dict[FrontId, list[tuple[int, Partition, Offset]]] = {}
        self._network.join(me, self.post)
        self._beat()

    def measure(self, entrance_us: int) -> None:
        """Tell the coordinator what slots cost, at so many microseconds an item."""
        load = VirtualLoad(self.core.flow, entrance_us, lambda: self.instant)
        self._meter = BusyMeter(
            load, self._graph, load.waited, self.instant, private=True, every_us=self._heartbeat
        )

    def hello(self) -> Hello:
        """First on every connection."""
        hello = self.core.hello(self.id)
        return msgspec.structs.replace(hello, vocabulary=self.vocabulary or hello.vocabulary)

    def step(self, events: Sequence[Event]) -> Sequence[a.Action]:
        """Take a pass of the core."""
        for event in events:
            self._seen(event)
        return self.core.step(self.clock, self.instant, events)

    def disconnected(self, link: ControlLink) -> None:
        """A connection to a coordinator has ended; cluster.py connects again."""
        if self.link is link:
            self.link = None

    def carry_out(self, action: a.Action) -> None:
        """Hand it to its port."""
        self.world.trace.note(self.world.now, self.name, type(action).__name__, action)
        match action:
            case a.ToPeer():
                self._network.send(self.id, action.peer, action.frame)
            case a.ToldCoordinator():
                self.world.trace.cover(f"said.{type(action.message).__name__}")
                self._tell(action.message)
            case a.Deliver():
                self._consumers[action.sink].deliver(action)
            case a.MakeCall():
                self.world.trace.cover("worker.MakeCall")
                self._caller.make(action)
            case a.Pull():
                self._pull(action)
            case a.Append():
                self._append(action)
            case a.Saved():
                self._producers[action.front].saved(action)
            case a.Wake():
                self.post_later(1, Woken())
            case a.WakeAt():
                self.post_later(max(1, action.time - self.clock), Woken())
            case _:
                self._carry_out_rarely(action)

    def _tell(self, message: ToCoordinator) -> None:
        if self.link is None:
            return
        self.link.tell_coordinator(message)
        if not isinstance(message, Progress):
            return
        if self._meter is not None and (load := self._meter.report(message.fence, self.instant)) is not None:
            self.world.trace.cover("said.Busy")
            self.link.tell_coordinator(load)

    def _pull(self, action: a.Pull) -> None:
        if not action.records:
            self.world.trace.cover("front.out of credit")
        if self._meter is not None:
            self._meter.pulled(action.front, action.records, self.instant)
        self._producers[action.front].pull(action)

    def _append(self, action: a.Append) -> None:
        entry = action.entry
        # A producer may forget what its entry holds only when that is durable (!): which offset goes with
        # which time is the shell's to know.
        if entry.moves:
            self._appended.setdefault(action.front, []).append((entry.time, entry.partition, entry.next))
        self._journal.append(action)

    def _carry_out_rarely(self, action: a.Action) -> None:
        self.world.trace.cover(f"worker.{type(action).__name__}")
        match action:
            case a.LinkPeers():
                self._network.link(self.id, action.fence, action.addresses, self.vocabulary)
            case a.SealJournal():
                self._journal.seal(action)
            case a.TrimJournal():
                self._journal.trim(action)
            case a.ReadRun():
                self._producers[action.front].read(action)
            case a.Follow():
                self._producers[action.front].follow(action)
            case a.OpenSink():
                self._consumers[action.sink].open(action)
            case a.Upload():
                self._snapshots.upload(action)
            case a.Load():
                self._snapshots.load(action)
            case a.Prefetch():
                self._snapshots.prefetch(action)
            case a.Answered() | a.NotAnswered():
                self.answered(action)
            case a.Exit():
                self.exit = action
                self.close()
            case _:
                raise AssertionError(f"unknown action {action}")

    def _seen(self, event: Event) -> None:
        """Note an event for readers of a trace, and do with it what the shell itself does."""
        self.world.trace.note(self.world.now, self.name, f"<- {type(event).__name__}", event)
        if isinstance(event, FromCoordinator):
            self.world.trace.cover(f"heard.{type(event.message).__name__}")
            if isinstance(event.message, Recover):
                # Entries of the attempt before: what of them counts is said by the seal.
                self._appended.clear()
                if self.core.fence != NO_FENCE:
                    self.world.trace.cover("recovery.of a survivor")
        if isinstance(event, JournalAppended):
            waiting = self._appended.get(event.front, [])
            while waiting and waiting[0][0] <= event.time:
                _, partition, upto = waiting.pop(0)
                self._producers[event.front].durable(event.time, partition, upto)

    def _beat(self) -> None:
        if self.alive:
            self.post(Woken())
            self.world.after(self._heartbeat, self._beat)

    def close(self) -> None:
        """The process ends; what it had open breaks."""
        self.alive = False
        self._inbox.clear()
        self._network.leave(self.id)
        self._journal.close()
        self._snapshots.close()
        self._caller.close()
        for consumer in self._consumers.values():
            consumer.close()
        for producer in self._producers.values():
            producer.close()
        if self.link is not None:
            self.link.close()
        self._ended(self)


class VirtualLoad:
    """The load of one worker's life (`node.busy_meter.Measured`): its passes take no time, but each item at the
    door of a slot counts for some microseconds, so what is told follows from the run alone."""

    def __init__(self, flow: Flow, entrance_us: int, now: Callable[[], Instant]) -> None:
        flow.measure(1)
        self._flow, self._each, self._now = flow, entrance_us, now
        self._costs: list[Cost] = []
        self._busy = self._waited = 0

    def waited(self) -> int:
        """Microseconds that are left of its time."""
        taken = [(slot, count * self._each * 1000, None) for slot, count, _ in self._flow.measured()]
        self._costs += taken
        self._busy += sum(cost for _, cost, _ in taken) // 1000
        self._waited = max(self._waited, self._now() - self._busy)
        return self._waited

    def measured(self) -> list[Cost]:
        """The cost of each slot since the last call."""
        costs, self._costs = self._costs, []
        return costs

    def by_operation(self) -> list[OperationCount]:
        """As `Dataflow.by_operation`."""
        return self._flow.by_operation()

    def contended(self) -> Contended:
        """How often transactions were decided."""
        return self._flow.contended()
