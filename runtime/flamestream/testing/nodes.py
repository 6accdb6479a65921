"""Worker and coordinator processes: the real cores, with every action handed to a simulated port.

A worker node is one life of one worker process: `flamestream.core.worker.Worker` under the ports, exactly as the shell in
`flamestream.spark` runs it. A coordinator node is the same for `flamestream.core.coordinator.Coordinator`.

Does not: decide who is started again when (cluster.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from flamestream.core import actions as a
from flamestream.core import coordination as c
from flamestream.core.coordinator import Coordinator
from flamestream.core.events import Event, FromCoordinator, JournalAppended, Woken
from flamestream.core.messages import Hello, Manifest, Recover
from flamestream.core.settings import WorkerSettings
from flamestream.core.worker import Worker
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Offset, Partition, SinkName, WorkerId
from flamestream.model.time import FrontId, Timestamp
from flamestream.testing.consumers import ConsumerPort, ConsumerSite
from flamestream.testing.control import ControlLink
from flamestream.testing.faults import Fault
from flamestream.testing.journals import JournalPort, Journals
from flamestream.testing.network import Network
from flamestream.testing.process import Process
from flamestream.testing.producers import ProducerPort, SourceSite
from flamestream.testing.records import Records
from flamestream.testing.stores import SnapshotPort, Store, StoreError, checksum, fetch_surely, store_surely
from flamestream.testing.world import World

_manifests = msgspec.msgpack.Decoder(Manifest)


@dataclass(frozen=True, slots=True)
class Outside:
    """What outlives every process."""

    network: Network
    journals: Journals
    store: Store
    records: Records
    consumers: Mapping[SinkName, ConsumerSite]
    sources: Mapping[FrontId, SourceSite]
    delay: int
    """The usual one of anything, in microseconds."""
    turn: int
    """The most that a process waits before its next pass."""


class WorkerNode(Process):
    """One life of one worker process."""

    crash_in_step = Fault.WORKER_CRASH_IN_STEP

    def __init__(self, world: World, me: WorkerId, graph: Graph, settings: WorkerSettings, outside: Outside, ended: Callable[["WorkerNode"], None]) -> None:
        super().__init__(world, me, outside.turn)
        self.id = me
        self.exit: a.Exit | None = None
        self.link: ControlLink | None = None
        self.core = Worker(me, graph, settings)
        self._ended = ended
        self._heartbeat = settings.heartbeat
        self._network = outside.network
        self._journal = JournalPort(outside.journals, self.post)
        self._snapshots = SnapshotPort(outside.store, me, self.post)
        self._consumers = {sink: ConsumerPort(site, self.post) for sink, site in outside.consumers.items()}
        self._producers = {front: ProducerPort(world, site, outside.delay, self.post) for front, site in outside.sources.items()}
        self._appended: dict[FrontId, list[tuple[int, Partition, Offset]]] = {}
        self._network.join(me, self.post)
        self._beat()

    def hello(self) -> Hello:
        """First on every connection."""
        return self.core.hello(self.id)

    def step(self, now: Timestamp, events: Sequence[Event]) -> Sequence[a.Action]:
        """One pass of the core."""
        for event in events:
            self._seen(event)
        return self.core.step(now, events)

    def crash(self) -> None:
        """Killed."""
        if self.alive:
            self.world.trace.note(self.world.now, self.name, "crash")
            self._close()

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
                if self.link is not None:
                    self.link.tell_coordinator(action.message)
            case a.Deliver():
                self._consumers[action.sink].deliver(action)
            case a.Pull():
                if not action.records:
                    self.world.trace.cover("front.out of credit")
                self._producers[action.front].pull(action)
            case a.Append():
                entry = action.entry
                self._appended.setdefault(action.front, []).append((entry.time, entry.partition, Offset(entry.first + entry.count)))
                self._journal.append(action)
            case a.Wake():
                self.post_later(1, Woken())
            case _:
                self._carry_out_rarely(action)

    def _carry_out_rarely(self, action: a.Action) -> None:
        self.world.trace.cover(f"worker.{type(action).__name__}")
        match action:
            case a.LinkPeers():
                self._network.link(self.id, action.fence, action.addresses)
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
            case a.Exit():
                self.exit = action
                self._close()
            case _:
                raise AssertionError(f"unknown action {action}")

    def _seen(self, event: Event) -> None:
        """What the shell itself does with an event; and what readers of a trace want to know."""
        self.world.trace.note(self.world.now, self.name, f"<- {type(event).__name__}", event)
        if isinstance(event, FromCoordinator):
            self.world.trace.cover(f"heard.{type(event.message).__name__}")
            if isinstance(event.message, Recover):
                self._appended.clear()
                if self.core.fence != NO_FENCE:
                    self.world.trace.cover("recovery.of a survivor")
        if isinstance(event, JournalAppended):
            waiting = self._appended.get(event.front, [])
            while waiting and waiting[0][0] <= event.time:
                time, partition, upto = waiting.pop(0)
                self._producers[event.front].durable(event.time, partition, upto)

    def _beat(self) -> None:
        if self.alive:
            self.post(Woken())
            self.world.after(self._heartbeat, self._beat)

    def _close(self) -> None:
        self.alive = False
        self._inbox.clear()
        self._network.leave(self.id)
        ports = (self._journal, self._snapshots, *self._consumers.values(), *self._producers.values())
        for port in ports:
            port.close()
        if self.link is not None:
            self.link.close()
        self._ended(self)


class CoordinatorNode(Process):
    """One life of one coordinator process."""

    crash_in_step = Fault.COORDINATOR_CRASH_IN_STEP

    def __init__(self, world: World, nonce: str, settings: c.Settings, outside: Outside, finished: Callable[["CoordinatorNode", c.Finish], None]) -> None:
        super().__init__(world, nonce, outside.turn)
        self.links: dict[WorkerId, ControlLink] = {}
        self.status: c.Status | None = None
        self.session_lost_until = 0
        self.core = Coordinator(settings, "secret", nonce)
        self._outside = outside
        self._finished = finished
        self._alarm = 0
        self._recovered = False
        self.post(c.Woken())

    def step(self, now: Timestamp, events: Sequence[c.Event]) -> Sequence[c.Action]:
        """One pass of the core."""
        for event in events:
            self.world.trace.note(self.world.now, self.name, f"<- {type(event).__name__}", event)
        return self.core.step(now, events)

    def crash(self) -> None:
        """Killed."""
        if self.alive:
            self.world.trace.note(self.world.now, self.name, "crash")
            self.close()

    def close(self) -> None:
        """The process ends; its connections break."""
        self.alive = False
        self._inbox.clear()
        for link in list(self.links.values()):
            link.close()

    def carry_out(self, action: c.Action) -> None:
        """Hand it to the simulated outside."""
        self.world.trace.note(self.world.now, self.name, type(action).__name__, action)
        self.world.trace.cover(f"coordinator.{type(action).__name__}")
        records = self._outside.records
        match action:
            case c.Tell():
                self._recovered = self._recovered or isinstance(action.message, Recover)
                if (link := self.links.get(action.worker)) is not None:
                    link.tell_worker(action.message)
            case c.WakeAt():
                self._alarm = action.time
                self.world.after(max(1, action.time - self.clock), self._ring, action.time)
            case c.ReadRecord():
                self._ask(records.read)
            case c.WriteRecord():
                self._ask(lambda answer: records.compare_and_set(action.record, action.version, answer))
                if self.world.hits(Fault.COORDINATOR_PAUSE_AT_WRITE):
                    self.pause(self.world.between(1_000, 150_000))
            case c.WriteManifest():
                self._write(action)
            case c.ReadManifest():
                self._read(action)
            case c.DeleteObjects():
                for name in action.names:
                    self._outside.store.delete(name)
            case c.Disconnect():
                if (link := self.links.pop(action.worker, None)) is not None:
                    link.close()
            case c.Report():
                self._report(action.status)
            case c.Finish():
                self.close()
                self._finished(self, action)

    def _report(self, status: c.Status) -> None:
        if status.phase == "running" and not self._recovered:
            self.world.trace.cover("coordinator.adopted a running job")
        self.status = status

    def _ring(self, time: Timestamp) -> None:
        if self.alive and self._alarm == time:
            self.post(c.Woken())

    def _ask(self, request: Callable[[Callable[[c.Event], None]], None]) -> None:
        """Of the job record. Without a session nothing gets through."""
        if self.world.now < self.session_lost_until:
            self.post_later(self.session_lost_until - self.world.now, c.RecordUnknown("session expired"))
        else:
            request(self.post)

    def _write(self, action: c.WriteManifest) -> None:
        data = msgspec.msgpack.encode(action.manifest)
        digest = checksum(data)

        def done(problem: str) -> None:
            self.post(c.ManifestFailed(action.name, problem) if problem else c.ManifestWritten(action.name, digest))

        store_surely(self._outside.store, action.name, data, done)

    def _read(self, action: c.ReadManifest) -> None:
        def done(result: bytes | StoreError) -> None:
            self.post(_manifest_read(action, result))

        fetch_surely(self._outside.store, action.name, done)


def _manifest_read(action: c.ReadManifest, result: bytes | StoreError) -> c.Event:
    if isinstance(result, StoreError):
        return c.ManifestBroken(action.name, "corrupt" if result.corrupt else "retryable", result.message)
    if not hash_matches(action, result):
        return c.ManifestBroken(action.name, "corrupt", "its bytes are not those that were committed")
    return c.ManifestLoaded(action.name, _manifests.decode(result))


def hash_matches(action: c.ReadManifest, data: bytes) -> bool:
    """Whether a manifest is the one that was committed."""
    return checksum(data) == action.hash
