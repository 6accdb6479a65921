"""A time limit for the user's functions where somebody waits in front of a terminal for what they make of a
few records.

>>> with within(5.0, "two functions"):
...     1 + 1
2

Does not: limit functions in a worker (loop/watchdog.py), or stop native code that never looks for signals.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from flamestream.model.errors import UserError


class _Late(BaseException):
    """No Exception, which a user's function might catch."""


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Raises UserError with the line that hangs. Only in the main thread of a process; elsewhere it waits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_: int, frame: FrameType | None) -> None:
        raise _Late(_where(frame))

    before = signal.signal(signal.SIGALRM, late)
    # again and again: native code between may swallow what a handler raises
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    except _Late as error:
        raise UserError(f"{what} did not come to an end within {seconds:g} s: it was at {error}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _where(frame: FrameType | None) -> str:
    return (
        "?"
        if frame is None
        else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_qualname}"
    )
