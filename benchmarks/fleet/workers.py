"""Workers that agree to everything over real control links: what the operator hears, without the work behind it.

    python -m fleet.workers           # told on standard input what to do, a line of JSON each

| told | does |
|---|---|
| begin | a worker dials, as the process in a pod of this address would |
| die | all links of this address break at once |
| lead | a shard's leader is at another address from now on, as its Service would say |

It says on standard output, a line each as well: `{"committed": N}` twice a second, the epochs of all jobs that were
committed so far.

An epoch of such a worker is accepted at once, with the name of a segment that nobody has written: the operator's part
of the epoch is real, the worker's is not.

Keeps: what a real worker sends and how often (Hello, Opened, Sealed, a heartbeat, CutTaken, Accepted). Does not:
process anything.
"""

import json
import logging
import os
import secrets
import sys
from collections.abc import Callable
from typing import Any, Final

from flamestream.core.protocol import messages as m
from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import Event, FromCoordinator
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef
from flamestream.job.settings import REPORT
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, Epoch, WorkerId
from flamestream.model.layout import Assignment
from flamestream.model.time import END, Time
from flamestream.net.control_link import ControlClient
from flamestream.net.route import Route

BEAT: Final = REPORT / 1e6
SEGMENT: Final = 4096
"""Bytes that a segment is said to have."""
TOLD_EVERY: Final = 0.5


class Services:
    """Where each shard's leader is."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}


class ThroughService(Route):
    """To a Service, which leads to another pod whenever it is dialled behind a change."""

    def __init__(self, services: Services, shard: str) -> None:
        super().__init__(services.addresses[shard])
        self._services, self._shard = services, shard

    @property
    def address(self) -> str:
        """Of who leads now."""
        return self._services.addresses[self._shard]


class FalseWorker:
    """Agrees to everything, and has nothing to do."""

    def __init__(
        self, reactor: EpollReactor, job: str, name: str, address: str, token: str, coordinator: Route
    ) -> None:
        self._fence, self._ready, self._epoch = NO_FENCE, False, Epoch(0)
        self._assignment: Assignment | None = None
        self._reactor, self._name, self._address, self._job = reactor, WorkerId(name), address, job
        self._closed = False
        self.committed = 0
        """Epochs that were committed while it was the acker."""
        self._control = ControlClient(reactor, self._hear, job, coordinator, token, self._hello)
        reactor.later(BEAT * (secrets.randbelow(1000) / 1000), self._beat)

    @property
    def takes_part(self) -> bool:
        """Whether it has slots."""
        return self._ready and self._assignment is not None and bool(self._slots)

    def die(self) -> None:
        """As a process that is killed: its link breaks, and nobody dials again."""
        self._closed = True
        self._control.close(0)

    @property
    def _slots(self) -> tuple[Any, ...]:
        layout = self._assignment.layout if self._assignment is not None else None
        owners = layout.owners if layout is not None else ()
        return tuple(slot for slot, owner in enumerate(owners) if owner == self._name)

    def _hello(self) -> m.Hello:
        return m.Hello(self._name, self._address, self._fence, self._ready, "3.11", "graph")

    def _hear(self, event: Event) -> None:
        assert isinstance(event, FromCoordinator)
        match event.message:
            case m.Recover(assignment=assignment, epoch=epoch):
                self._fence, self._ready, self._epoch = assignment.fence, False, epoch
                self._assignment = assignment
                self._tell(m.Opened(self._fence, b"", []))
            case m.Seal():
                self._tell(m.Sealed(self._fence, Time(0)))
            case m.Replay():
                self._ready = True
            case m.Announce() as announce:
                self._accept(announce)
            case m.Committed():
                self.committed += self._is_acker
            case _:
                pass

    @property
    def _is_acker(self) -> bool:
        return self._assignment is not None and self._assignment.layout.acker == self._name

    def _accept(self, announce: m.Announce) -> None:
        self._epoch, cut = announce.epoch, _cut(announce.epoch)
        if self._is_acker:
            self._tell(m.CutTaken(self._fence, announce.epoch, cut))
        slots = self._slots
        name = f"{self._job}/segments/{announce.epoch:012d}-{self._fence.attempt}-{self._name}-x.parquet"
        assert self._assignment is not None, "an epoch before an attempt"
        fronts = [
            FrontPosition(front, cut, {"0": announce.epoch})  # type: ignore[dict-item]
            for front in self._assignment.layout.fronts_of(self._name)
        ]
        segments = [SegmentRef(name, SEGMENT, "0" * 64, len(slots), slots)]
        replaced = [ref.name for ref in announce.compact]
        self._tell(m.Accepted(self._fence, announce.epoch, cut, segments, replaced, fronts, []))

    def _beat(self) -> None:
        if self._closed:
            return
        minimal = _cut(Epoch(self._epoch + 1)) if self._ready else Time(0)
        self._tell(m.Progress(self._fence, minimal, minimal, END, self._epoch, self._epoch))
        self._reactor.later(BEAT, self._beat)

    def _tell(self, message: Any) -> None:
        self._control.tell(ToldCoordinator(message))


def _cut(epoch: Epoch) -> Time:
    """Where each epoch is cut: its workers need not tell each other."""
    return Time((epoch + 1) << 12)


class Workers:
    """All of one process, by address."""

    def __init__(self, reactor: EpollReactor, say: Callable[[dict[str, Any]], None]) -> None:
        self._reactor, self._say = reactor, say
        self._by_address: dict[str, FalseWorker] = {}
        self._services = Services()
        self._gone = 0
        """Epochs that workers counted which are dead."""
        reactor.later(TOLD_EVERY, self._tell)

    def told(self, line: dict[str, Any]) -> None:
        """Do one line."""
        address = line["address"]
        if line["do"] == "lead":
            self._services.addresses[line["shard"]] = address
        elif line["do"] == "die":
            worker = self._by_address.pop(address)
            self._gone += worker.committed
            worker.die()
        else:
            self._by_address[address] = FalseWorker(
                self._reactor, line["job"], line["name"], f"{address}:1", line["token"],
                ThroughService(self._services, line["shard"]),
            )  # fmt: skip

    def _tell(self) -> None:
        workers = list(self._by_address.values())
        self._say({
            "committed": self._gone + sum(worker.committed for worker in workers),
            "ready": [address for address, worker in self._by_address.items() if worker.takes_part],
        })  # fmt: skip
        self._reactor.later(TOLD_EVERY, self._tell)


class Lines:
    """Lines of JSON that come in on a file descriptor."""

    def __init__(self, reactor: EpollReactor, fd: int, told: Callable[[dict[str, Any]], None]) -> None:
        self._reactor, self._fd, self._told, self._rest = reactor, fd, told, b""
        os.set_blocking(fd, False)
        reactor.watch(fd, readable=self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._reactor.stop()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._told(json.loads(line))


def main() -> None:
    # Real ones have processors of their own: here they go before the operators, who would take them for dead.
    if os.geteuid() == 0:
        os.nice(-10)
    logging.disable(logging.WARNING)
    reactor = EpollReactor()
    workers = Workers(reactor, lambda said: print(json.dumps(said), flush=True))
    lines = Lines(reactor, sys.stdin.fileno(), workers.told)
    assert lines
    reactor.run(lambda: None)


if __name__ == "__main__":
    main()
