"""The job record as a file, for one machine: tests, and use without ZooKeeper.

Compare-and-set holds a lock on a file beside the record, compares the version, and puts a new file in place with an atomic rename.
Readers need no lock. The kernel lets go of a dead process's lock.

>>> from tempfile import mkdtemp
>>> records = RecordFile(Path(mkdtemp()) / "record.json")
>>> records.read() is None
True

Keeps: a version is given out once; what compare_and_set reported survives a crash of the machine. Does not: work across machines.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from flamestream.model.decoding import from_json
from flamestream.model.errors import ClusterStateUnavailable, Corrupt
from flamestream.ports import JobRecord
from flamestream.store.folder import sync_folder, write_all

LOCK_TRIES: Final = 250
LOCK_PAUSE: Final = 0.02


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    record: JobRecord


class RecordFile:
    """`ports.JobRecords` on the file `path`, whose folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[JobRecord, int] | None:
        """The record and its version, or None before the first attempt."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._check_folder()
            return None
        except OSError as error:
            raise self._unavailable("read", error) from error
        try:
            stored = from_json(data, _Stored)
        except msgspec.DecodeError as error:
            raise Corrupt(f"job record {self._path} is damaged: {error}; restore it from a backup") from error
        return stored.record, stored.version

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        """Write if the version is still `version`. The new version, or None on a conflict."""
        try:
            with self._locked():
                found = self.read()
                if (found[1] if found else None) != version:
                    return None
                new = 0 if version is None else version + 1
                self._replace(msgspec.json.encode(_Stored(new, record)))
                return new
        except OSError as error:
            raise self._unavailable("write", error) from error

    def _replace(self, data: bytes) -> None:
        temporary = self._path.with_name(self._path.name + ".new")
        fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, self._path)
        sync_folder(self._path.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self._path.with_name(self._path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            self._lock(fd)
            yield
        finally:
            os.close(fd)

    def _lock(self, fd: int) -> None:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(LOCK_PAUSE)
        raise ClusterStateUnavailable(
            f"job record {self._path}: its lock was held for {LOCK_TRIES * LOCK_PAUSE:.0f} s; is a process of this job stopped (SIGSTOP)?"
        )

    def _check_folder(self) -> None:
        if not self._path.parent.is_dir():
            raise ClusterStateUnavailable(f"job record {self._path}: its folder is missing; create it, or mount the volume that holds it")

    def _unavailable(self, verb: str, error: OSError) -> ClusterStateUnavailable:
        return ClusterStateUnavailable(f"cannot {verb} job record {self._path}: {error.strerror}; whether a write took effect is unknown")
