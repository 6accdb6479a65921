"""The jobs that a page shows, as a port: those of this machine (local_jobs.py), or of a cluster.

Keeps: figures are those that `flamestream status` and its kin print; a source computes none of its own. Does not: know
HTTP (server.py).
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from flamestream.job.status import JobStatus
from flamestream.node.samples import Sample
from flamestream.ui.marks import Mark

Kind = Literal["graph", "snapshots", "audit", "item", "drill"]
"""A command whose answer a view shows: `plan`, `snapshots list`, `audit`, `trace` and `drill`, each with --json."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the list of all. What has a default is what a coordinator says."""

    job: str
    phase: str
    """The coordinator's word for a job that runs, else its outcome."""
    running: bool
    guarantee: str
    workers: int = 0
    wanted: int = 0
    standbys: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    """To acknowledgments, of the last minute."""
    epoch: int = 0
    epoch_at: int = 0
    """Microseconds since 1970: its cut; 0: there is none."""
    unsaved_since: int = 0
    recovery: str = ""
    """The cause of the last one; "": none but the start."""
    recovery_ms: float = 0
    audit: str = ""
    """The verdict of the last audit: clean, differs, or ""."""
    problems: int = 0
    updated: int = 0


def row_of(job: str, status: JobStatus, *, phase: str, running: bool, guarantee: str, audit: str) -> Row:
    """The row of a job whose coordinator has said `status`."""
    recovery = status.last_recovery
    recovered = recovery if recovery is not None and recovery.kind != "start" else None
    latency = status.latency if status.latency is not None and status.latency.calls else None
    return Row(
        job=job,
        phase=phase,
        running=running,
        guarantee=guarantee,
        workers=len(status.workers),
        wanted=status.wanted,
        standbys=len(status.standbys),
        p50_ms=latency.p50_ms if latency else None,
        p99_ms=latency.p99_ms if latency else None,
        epoch=status.epoch,
        epoch_at=status.cut_time,
        unsaved_since=status.unsaved_since,
        recovery=recovered.cause if recovered else "",
        recovery_ms=recovered.duration_ms if recovered else 0,
        audit=audit,
        problems=len(status.problems),
        updated=status.updated,
    )


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was started from the page, or its answer."""

    state: Literal["never", "running", "done"] = "never"
    began: int = 0
    ended: int = 0
    code: int = 0
    """Its exit code."""
    answer: Any = None
    """The document that it printed."""


class Refused(Exception):
    """There is no such thing, or it may not be done. `status` is HTTP's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class JobSource(Protocol):
    """Jobs that are looked at. Raises Refused (404) for a job that is not there."""

    actions: bool
    """Whether a drill may be started."""
    namespaced: bool
    """Whether jobs are of a cluster, and called NAMESPACE.NAME."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """The commands that it answers."""
        ...

    @property
    def victims(self) -> Sequence[str]:
        """The parts that a drill can kill, in the words of its parameter `kill`."""
        ...

    def look(self) -> None:
        """Read what is new. Called a few times a second, before anything else is asked."""
        ...

    def rows(self) -> Sequence[Row]:
        """All jobs, by name."""
        ...

    def status(self, job: str) -> dict[str, Any]:
        """All that `flamestream status --json` says."""
        ...

    def version(self, job: str) -> int:
        """A number that is another when `status` is."""
        ...

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        """Those of the last hour behind a moment, in microseconds since 1970."""
        ...

    def marks(self, job: str) -> list[Mark]: ...
    async def logs(self, job: str, asked: dict[str, str]) -> list[dict[str, Any]]: ...

    async def answer(self, job: str, kind: Kind, asked: dict[str, str]) -> Ran:
        """The answer of a command that takes no time to speak of; of one that takes its time all the same, how far it
        is. Raises Refused."""
        ...

    async def start(self, job: str, kind: Kind, asked: dict[str, str], *, by: str) -> Ran:
        """Start a command that takes its time. `by`: the caller's name. Raises Refused (409) while one runs."""
        ...

    def ran(self, job: str, kind: Kind) -> Ran:
        """The last one that was started."""
        ...

    async def close(self) -> None:
        """End what was started."""
        ...
