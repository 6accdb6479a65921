"""Watches how the files of a job's sinks grow, from outside: how long was there no output around a fault?

Does not: read what is written, or know when output was due: a gap of a job without input says nothing.
"""

import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

LOOK: Final = 0.004
MAX_KEPT: Final = 200_000


class OutputWatch:
    """A thread that notes when the sinks' folders grew. `gap_ms` answers about the past."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)
        self._grown: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="output-watch", daemon=True)

    def gap_ms(self, since: float, until: float) -> float | None:
        """The longest time without growth that ended between two moments of the monotonic clock; None if there was no growth."""
        moments = [moment for moment in self._grown if moment <= until]
        gaps = [after - before for before, after in pairwise(moments) if after > since]
        return max(gaps) * 1000 if gaps else None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        size = -1
        while not self._stop.wait(LOOK):
            now = sum(file.stat().st_size for folder in self._folders for file in folder.rglob("*.log"))
            if now != size and len(self._grown) < MAX_KEPT:
                self._grown.append(time.monotonic())
            size = now
