"""A coordinator process: the real core, with every action carried out on the simulated outside.

A node is one life: `flamestream.core.coordinator.coordinator.Coordinator`, as the launcher or the operator
runs it.

Does not: decide who is started again when (cluster.py).
"""

from collections.abc import Callable, Sequence

import msgspec

from flamestream.core.coordinator import coordination as c
from flamestream.core.coordinator.coordinator import Coordinator
from flamestream.core.protocol.messages import Recover
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.ids import WorkerId
from flamestream.model.time import Instant
from flamestream.simulation.faults import Fault
from flamestream.simulation.outside.control import ControlLink
from flamestream.simulation.outside.outside import Outside
from flamestream.simulation.outside.stores import StoreError, checksum, fetch_surely, store_surely
from flamestream.simulation.process import Process
from flamestream.simulation.world import World

_indexes = msgspec.msgpack.Decoder(SnapshotIndex)


class CoordinatorNode(Process):
    """The life of one coordinator process."""

    crash_in_step = Fault.COORDINATOR_CRASH_IN_STEP
    stall_in_step = Fault.COORDINATOR_STALL_IN_STEP

    def __init__(
        self,
        world: World,
        nonce: str,
        settings: c.Settings,
        outside: Outside,
        finished: Callable[["CoordinatorNode", c.Finish], None],
    ) -> None:
        super().__init__(world, nonce, outside.turn)
        self.links: dict[WorkerId, ControlLink] = {}
        self.status: c.Status | None = None
        self.settings = settings
        self.asked = 0
        """The newest version of the code that it was asked to go on with."""
        self.session_lost_until = 0
        self.core = Coordinator(settings, "secret", nonce)
        self._outside = outside
        self._finished = finished
        self._alarm = 0
        self._recovered = False
        self._asked = False
        self.post(c.Woken())

    def step(self, events: Sequence[c.Event]) -> Sequence[c.Action]:
        """Take a pass of the core."""
        for event in events:
            self.world.trace.note(self.world.now, self.name, f"<- {type(event).__name__}", event)
        return self.core.step(self.instant, events)

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
        match action:
            case c.Tell():
                self._recovered = self._recovered or isinstance(action.message, Recover)
                if (link := self.links.get(action.worker)) is not None:
                    link.tell_worker(action.message)
            case c.WakeAt():
                # The newest alarm counts: `_ring` drops those that it replaces.
                self._alarm = action.time
                self.world.after(max(1, action.time - self.instant), self._ring, action.time)
            case c.Disconnect():
                if (link := self.links.pop(action.worker, None)) is not None:
                    link.close()
            case c.Report():
                self._report(action.status)
            case c.Finish():
                self.alive = False
                for link in list(self.links.values()):
                    # not closed: the Stop that was told just before still arrives
                    link.finish()
                self._finished(self, action)
            case _:
                self._store(action)

    def _store(
        self, action: c.ReadRecord | c.WriteRecord | c.WriteIndex | c.ReadIndex | c.DeleteObjects
    ) -> None:
        """Carry out an action on the job record or the object store."""
        match action:
            case c.ReadRecord():
                self._ask(lambda answer: self._outside.records.read(self.name, answer))
            case c.WriteRecord():
                self._ask(
                    lambda answer: self._outside.records.compare_and_set(
                        self.name, action.record, action.version, answer
                    )
                )
                # Asked already: the write takes effect while nobody is there to hear of it.
                if self.world.hits(Fault.COORDINATOR_PAUSE_AT_WRITE):
                    self.pause(self.world.between(1_000, 150_000))
            case c.WriteIndex():
                self._write(action)
            case c.ReadIndex():
                self._read(action)
            case c.DeleteObjects():
                for name in action.names:
                    self._outside.store.delete(name)

    def _report(self, status: c.Status) -> None:
        if status.phase == "running" and not self._recovered:
            self.world.trace.cover("coordinator.adopted a running job")
        if status.kind == "moved" and status.duration_us:
            self.world.trace.cover("recovery.moved")
        if dict(status.steps).get("replay"):
            self.world.trace.cover("recovery.replayed")
        before = self.status.wanted if self.status is not None else 0
        if before and status.wanted != before:
            self.world.trace.cover(f"coordinator.wants {'more' if status.wanted > before else 'fewer'}")
        self.status = status

    def _ring(self, time: Instant) -> None:
        if self.alive and self._alarm == time:
            self.post(c.Woken())

    def _ask(self, request: Callable[[Callable[[c.Event], None]], None]) -> None:
        """Ask the job record, one request at a time. Without a session nothing gets through."""
        self.world.require(
            not self._asked,
            "8 bounds",
            f"{self.name} asks for the job record before the last answer is there",
        )
        self._asked = True
        # Also this is answered: every request is, once, and the core asks for nothing else before.
        if self.world.now < self.session_lost_until:
            self.world.after(
                self.session_lost_until - self.world.now, self._answered, c.RecordUnknown("session expired")
            )
        else:
            request(self._answered)

    def _answered(self, event: c.Event) -> None:
        self._asked = False
        self.post(event)

    def _write(self, action: c.WriteIndex) -> None:
        data = msgspec.msgpack.encode(action.index)
        digest = checksum(data)

        def done(problem: str) -> None:
            self.post(c.IndexFailed(action.name, problem) if problem else c.IndexWritten(action.name, digest))

        store_surely(self._outside.store, action.name, data, done)

    def _read(self, action: c.ReadIndex) -> None:
        def done(result: bytes | StoreError) -> None:
            self.post(_index_read(action, result))

        fetch_surely(self._outside.store, action.name, done)


def _index_read(action: c.ReadIndex, result: bytes | StoreError) -> c.Event:
    if isinstance(result, StoreError):
        return c.IndexBroken(action.name, "corrupt" if result.corrupt else "retryable", result.message)
    if checksum(result) != action.hash:
        return c.IndexBroken(action.name, "corrupt", "its bytes are not those that were committed")
    return c.IndexLoaded(action.name, _indexes.decode(result))
