"""The port to the coordinators: what may be asked of them, and what is said of a job, a worker and a
savepoint on the way.

Does not: host one (coordination/coordinators.py).
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
from msgspec.structs import replace as replaced

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Hello
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.status import JobStatus
from flamestream.node.samples import Sample
from flamestream.store.zookeeper_leave import Leave


class JobToCoordinate(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its coordinator must know it. See docs/operations/kubernetes.md."""

    settings: Settings
    """Its graph and its Python may be "": then those of the first worker count."""
    store: str
    name: str = ""
    """NAMESPACE.NAME of the job itself, under which it is hosted; "": its identity."""
    token: str = ""
    keys: tuple[str, str] = ("", "")
    """Access key and secret key of the store; empty: none, and the store is not opened."""
    before: Settings | None = None
    """Those of the code that it has gone on from, as long as its workers are kept; None: none are."""

    @property
    def job(self) -> str:
        """The name under which it is hosted."""
        return self.name or self.settings.job

    @property
    def identity(self) -> str:
        """The name under which its record, journal and snapshots are kept, and which its workers say."""
        return self.settings.job

    def is_like(self, other: "JobToCoordinate") -> bool:
        """Whether it is the same, as far as both are known: which code runs may be heard of later."""
        codes = {self.settings.code, other.settings.code} - {""}
        return len(codes) < 2 and replaced(self, settings=replace(self.settings, code="")) == replaced(
            other, settings=replace(other.settings, code="")
        )

    @property
    def alone(self) -> "JobToCoordinate":
        """The job, whatever it has gone on from."""
        return replaced(self, before=None)

    @property
    def went_on_from(self) -> "JobToCoordinate | None":
        """The job as it was before it went on with other code; None: nothing of that is kept."""
        return None if self.before is None else replaced(self, settings=self.before, before=None)

    def settings_with(self, hello: Hello) -> Settings:
        """Settings of the coordinator, once there is a worker."""
        known = self.settings
        # an edited application was tried, and the stream stopped for it, before any worker could load it
        graph, python, fronts = (
            known.graph or hello.graph,
            known.python or hello.python,
            known.fronts + hello.clocks,
        )
        inventory = known.inventory or hello.inventory
        return replace(
            known,
            graph=graph,
            python=python,
            fronts=fronts,
            code=hello.code,
            code_changed=not known.code,
            code_told=bool(known.code),
            inventory=inventory,
        )


@dataclass(frozen=True, slots=True)
class ConnectedWorker:
    """A connected worker."""

    worker: str
    address: str
    """host:port of its link: the host is its pod's address."""
    since: float
    """Seconds of a clock that nobody sets."""
    standby: bool
    warm: bool = True
    """It has the committed snapshot at hand, or slots."""

    @property
    def ip(self) -> str:
        return host_of(self.address)


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint: its place, and what a restore must know. `index` and its hash are the savepoint's
    own."""

    job: str
    name: str
    store: str
    epoch: int
    cut: int
    index: str
    index_hash: str
    graph: str
    size: int
    objects: int


class Hosting(Protocol):
    """Thread-safe; every method returns at once."""

    def open(self) -> None: ...
    def start(self, job: JobToCoordinate) -> None: ...
    def stop(self, job: str) -> None: ...
    def status(self, job: str) -> JobStatus | None: ...
    def samples(self, job: str, behind: int = 0) -> list[Sample]: ...
    def members(self, job: str) -> Sequence[ConnectedWorker]: ...
    def suspend(self, job: str) -> None: ...
    def end(self, job: str) -> None: ...
    def gone(self, job: str, ip: str) -> None: ...
    def retire(self, job: str, ips: Sequence[str]) -> None: ...
    def upgrade(self, job: str, next_one: JobToCoordinate | None) -> None: ...
    def hand_over(self, job: str, to: str) -> None: ...
    def record(self, job: str) -> Future[JobRecord | None]: ...
    def leave(self, job: str) -> Future[Leave | None]: ...
    def give_leave(self, job: str, leave: Leave | None) -> Future[str]: ...
    def ask(self, job: str, to: str) -> Future[None]: ...
    def committed(self, job: str) -> Future[tuple[str, SnapshotIndex] | None]: ...
    def savepoint(self, job: JobToCoordinate, name: str) -> Future[Savepoint]: ...
    def restore(self, job: JobToCoordinate, savepoint: Savepoint) -> Future[JobRecord]: ...
    def delete_savepoint(self, keys: tuple[str, str], savepoint: Savepoint) -> Future[None]: ...
    def forget(self, job: JobToCoordinate, *, begins_anew: bool = False) -> Future[None]: ...
    def healthy(self) -> bool: ...
    def close(self) -> None: ...


def host_of(address: str) -> str:
    """The host of a host:port, without the brackets of IPv6."""
    return address.rpartition(":")[0].strip("[]")
