"""A journal's folder from within: its logs, and attempts that write to them without a process."""

import os
from pathlib import Path

from flamestream.journal.folder import _Log
from flamestream.journal.seal import Counted, FrontFolder
from flamestream.model.errors import Fenced
from flamestream.model.ids import Attempt
from flamestream.model.time import START
from support.journals.folder import FRONT, entry, fence


def logs(root: Path) -> list[Path]:
    """Files of the front's entries, the oldest first."""
    return sorted((root / f"front-{FRONT}").glob("*.log"))


def times(counted: Counted) -> list[int]:
    """Of what counts."""
    return [e.time for e in counted.entries]


class Writer:
    """One attempt's log."""

    def __init__(self, folder: FrontFolder, attempt: int, counted: Counted) -> None:
        self.log = _Log(folder, fence(attempt), counted, fsync=False, rotate=200)

    def append(self, time: int) -> bool:
        """True if it may be reported as durable."""
        self.log.add(entry(time))
        if not self.log.begin():
            return False
        try:
            self.log.write()
        except Fenced:
            self.log.end(failed=True)
            self.log.abandon()
            return False
        self.log.end(failed=False)
        return True

    def tear(self, length: int) -> None:
        """It dies in the middle of a write."""
        if self.log.fd >= 0:
            os.write(self.log.fd, b"".join([b"\x30\0\0\0", bytes(100)])[: length % 19])


def write(root: Path, folder: FrontFolder, attempt: int, written: list[int]) -> Path:
    """A sealed attempt that wrote entries; the file."""
    counted = folder.seal(Attempt(attempt), START)
    return append_raw(root, folder, attempt, counted, written)


def append_raw(root: Path, folder: FrontFolder, attempt: int, counted: Counted, written: list[int]) -> Path:
    """An attempt writes entries behind its seal, whatever others have sealed; the newest file."""
    writer = Writer(folder, attempt, counted)
    for time in written:
        writer.append(time)
    writer.log.abandon()
    return logs(root)[-1]
