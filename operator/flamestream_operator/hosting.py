"""The coordinators, as the operator sees them: a Protocol of what `coordinators.Coordinators` offers, so that a test can stand in.

Does not: host one (coordinators.py).
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from flamestream.adapters.status_file import JobStatus


class JobToCoordinate(msgspec.Struct, frozen=True, kw_only=True):
    """See docs/kubernetes.md."""

    job: str
    token: str
    workers: int
    fronts: int
    slots: int
    interval: float | None
    store: str
    access_key: str = ""
    secret_key: str = ""
    graph: str = ""
    drain_seconds: float = 60.0


class Hosting(Protocol):
    """Thread-safe; every method returns at once."""

    def start(self, job: Any) -> None: ...
    def stop(self, job: str) -> None: ...
    def status(self, job: str) -> JobStatus | None: ...
    def members(self, job: str) -> Sequence[Any]: ...
    def suspend(self, job: str) -> None: ...
    def end(self, job: str) -> None: ...
    def gone(self, job: str, ip: str) -> None: ...
    def retire(self, job: str, ip: str) -> None: ...
    def record(self, job: str) -> Future[Any]: ...
    def savepoint(self, job: Any, name: str) -> Future[Any]: ...
    def restore(self, job: Any, savepoint: Any) -> Future[Any]: ...
    def delete_savepoint(self, job: Any, savepoint: Any) -> Future[None]: ...
    def forget(self, job: Any) -> Future[None]: ...
    def healthy(self) -> bool: ...
