"""Watchdog: ends a worker's process whose loop does not turn, since a function of the user's does not return.

The coordinator drops a worker that is silent for a few seconds, and others take its slots. But the process
would go on in its function, eat memory, and never be there again. So it ends itself: Python's fault handler
waits in a thread of its own that needs no interpreter (a function in native code may hold that), writes down
where each thread stands, and ends the process. Whoever starts the worker starts it again; the next life reads
what was written, and tells the coordinator, which names it if the job fails for it.

Before the loop there is the application's file, which may take long to load, and has `LOADING` for that.

Keeps: `SECONDS` are more than the coordinator's patience, so nobody is ended who was not dropped before. Does
not: watch batches, which nobody waits for.
"""

import faulthandler
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from flamestream.ports import Reactor, Timer

SECONDS: Final = 12.0
"""How long the loop may stand still: more than a drill pauses a worker for."""
LOADING: Final = 600.0
"""How long the application's file may load, while nobody waits for this worker: enough for a great model from
a slow store."""
AGAIN: Final = 1.0
"""Seconds between renewals; each costs a thread's start, some 50 us."""
STDERR: Final = 2
MAX_READ: Final = 64 << 10
SHOWN: Final = 3
"""How many of the innermost calls are named."""
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Watchdog:
    """The watchdog of one process, and of one loop in it."""

    def __init__(self, reactor: Reactor, words: str, seconds: float = SECONDS) -> None:
        """`words`: the file that its end is written to; "" or one that cannot be made: standard error."""
        self._reactor, self._words, self._seconds = reactor, words, seconds
        # a descriptor, open from now on: the handler's thread writes to it without the interpreter
        self._file = _opened(words)
        self._timer: Timer | None = None

    def begin(self) -> None:
        """The loop has turned, and has to turn again in time."""
        # Replaces the one before, so an end comes only if the loop does not get here again.
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)
        self._timer = self._reactor.later(min(AGAIN, self._seconds / 4), self.begin)

    def end(self) -> None:
        """The loop has ended: nothing is watched any more."""
        faulthandler.cancel_dump_traceback_later()
        if self._timer is not None:
            self._timer.cancel()
        _closed(self._file, self._words)


@contextmanager
def limited(seconds: float, words: str) -> Iterator[None]:
    """The body has `seconds`, or the process ends as by its watchdog."""
    file = _opened(words)
    faulthandler.dump_traceback_later(seconds, exit=True, file=file)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        _closed(file, words)


def _opened(words: str) -> int:
    try:
        return (
            # no link is followed: whoever may write beside it must not choose what is overwritten
            os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600) if words else STDERR
        )
    except OSError:
        return STDERR


def _closed(file: int, words: str) -> None:
    if file != STDERR:
        os.close(file)
        Path(words).unlink(missing_ok=True)  # nothing is in it


def last_words(words: str) -> str:
    """The words that the life before left if its watchdog ended it, in a sentence; "" otherwise. They are
    read once."""
    try:
        with open(words, encoding="utf-8", errors="replace") as file:
            dump = file.read(MAX_READ)
        os.unlink(words)
    except OSError:
        return ""
    return explained(dump)


def explained(dump: str) -> str:
    """A fault handler's dump in a sentence: where the loop's thread stood, which is named last in it."""
    calls = [(Path(file), line, name) for file, line, name in _FRAME.findall(dump.rpartition("Thread 0x")[2])]
    if not calls:
        return ""
    users: list[str] = []
    for file, line, name in calls:
        if "flamestream" in file.parts:
            break
        users.append(f"{file.name}:{line} in {name}")
    ours = [f"{file.name}:{line} in {name}" for file, line, name in calls]
    where = ", called from ".join((users or ours)[:SHOWN])
    return (
        "a worker's watchdog ended it: "
        f"{'a function did not return' if users else 'its loop stood still'}: {where}"
    )
