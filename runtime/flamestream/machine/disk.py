"""Durable writes whose caller goes on: one thread in native code, which never waits for the interpreter.

A helper thread of Python's takes the interpreter before a write and behind it, and waits for that as long as
a pass of the loop lasts: a millisecond of each result's way, for a disk that takes a third of it. Without the
kernel there is no other way: see `Disk.here`.

Keeps: writes in the order given, one at a time; an answer for each, in the loop. Does not: open, or tidy up
behind a write that failed.
"""

import os
from collections import deque
from collections.abc import Callable

from flamestream.machine.processors import freely
from flamestream.model.kernel import kernel
from flamestream.ports import Reactor

Done = Callable[[OSError | None], None]


class Disk:
    """The writes of one thread, for as long as the loop lives."""

    def __init__(self, reactor: Reactor) -> None:
        """Start the thread. Only where `here`."""
        assert kernel is not None
        with freely():  # its thread must not share the loop's processor
            self._native = kernel.Disk()
        self._waiting: deque[Done] = deque()
        reactor.watch(self._native.fd, readable=self._answered)

    @staticmethod
    def here() -> bool:
        """Whether this installation has the kernel."""
        return kernel is not None

    def write(self, fd: int, data: bytes, done: Done) -> None:
        """Write all of `data`, then fdatasync; `done` is told in a later turn what went wrong. `fd` stays
        open until then."""
        self._waiting.append(done)
        self._native.write(fd, data)

    def _answered(self) -> None:
        for code in self._native.answers():
            self._waiting.popleft()(OSError(code, os.strerror(code)) if code else None)
