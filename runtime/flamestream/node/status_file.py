"""status.json: what `flamestream status` shows, written by the coordinator's process.

The file appears whole (written beside, then renamed), at most five times a second, and a last time at the
end.

Keeps: the newest state is in the file at most `PAUSE` after it changed. Does not: survive a crash of the
machine; nothing rests on it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from flamestream.job.status import JobStatus
from flamestream.ports import Reactor

PAUSE: Final = 0.2


class StatusFile:
    """Asks `look` when it is time to write."""

    def __init__(self, reactor: Reactor, path: Path, look: Callable[[], JobStatus]) -> None:
        self._reactor, self._path, self._look = reactor, path, look
        self._resting = False
        self._changed = False

    def changed(self) -> None:
        """Write it now, or when the pause after the last time is over."""
        if self._resting:
            self._changed = True
        else:
            self._resting = True
            self.write()
            self._reactor.later(PAUSE, self._rested)

    def write(self) -> None:
        """Write it, whatever the pause."""
        self._changed = False
        # by pid: a predecessor that is not gone yet may be writing too
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self._look()), indent=1))
        os.replace(fresh, self._path)

    def _rested(self) -> None:
        self._resting = False
        if self._changed:
            self.changed()
