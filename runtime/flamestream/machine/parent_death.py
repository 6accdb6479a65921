"""Processes that end when their parent does.

Linux sends a process a signal of its choice when the thread that forked it ends (prctl PR_SET_PDEATHSIG). The
choice survives `exec`, so it works for a JVM too. A parent that died before the choice was made shows as a
changed parent pid.

Does not: help against a parent that hangs (heartbeats do), or on a system that is not Linux.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from flamestream.model.errors import Bug

_PR_SET_PDEATHSIG: Final = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent(parent: int, sign: signal.Signals = signal.SIGKILL) -> None:
    """Have this process get `sign` when `parent`, which must be its parent, ends; at once if it has ended
    already."""
    if _prctl(_PR_SET_PDEATHSIG, sign, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    if os.getppid() != parent:  # it ended before the choice was made, so no signal would come
        os.kill(os.getpid(), sign)


def start_child(
    command: Sequence[str | Path],
    output: Path | None,
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` as a process that ends with this one. What it prints goes to the file `output`, which
    begins empty; None: to our own standard error.

    It is in a session of its own, so Ctrl-C reaches only us. Only from the main thread: the kernel counts the
    end of the forking thread as the parent's death.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Bug("start_child called outside the main thread: the child would end with the calling thread")
    parent = os.getpid()
    with ExitStack() as stack:
        file = stack.enter_context(output.open("wb")) if output else sys.stderr
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=file,
            stderr=file,
            env=dict(environment),
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  one system call, bound at import: no lock is needed after the fork
        )
