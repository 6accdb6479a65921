"""Watches how the files of a job's sinks grow, from outside: how long was there no output around a fault?

Does not: read what is written, or know when output was due: a gap of a job without input says nothing.
"""

import contextlib
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from flamestream.core.protocol.output_gaps import OutputGaps

LOOK: Final = 0.004
"""Seconds between two looks: the error of a gap."""


class OutputWatch:
    """A thread that notes when the sinks' folders grew."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)
        self.gaps = OutputGaps()
        """Gaps by the clock of this machine, in microseconds."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="output-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        size = self._size()
        while not self._stop.wait(LOOK):
            now = self._size()
            if now > size:
                moment = int(time.time() * 1e6)
                self.gaps.gave(moment, moment)
            size = now

    def _size(self) -> int:
        return sum(_size(file) for folder in self._folders for file in folder.rglob("*.log"))


def _size(file: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # it was tidied away meanwhile
        return file.stat().st_size
    return 0
