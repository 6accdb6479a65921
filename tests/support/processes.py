"""Processes as a test sees them: by pid, through /proc. Kills only what the test was told the pid of."""

import contextlib
import os
import signal
from pathlib import Path

from support.eventually import eventually

LISTENS = "0A"
"""A state in /proc/net/tcp."""


def dead(pid: int) -> bool:
    return not alive(pid)


def alive(pid: int) -> bool:
    """True while any of its threads runs; a zombie that nobody waited for is dead."""
    try:
        return _state(Path(f"/proc/{pid}")) not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid: int) -> int:
    """The pid of its parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    """Pids of the processes that `pid` started and that still run."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end at any moment
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in task.read_text().split()]
    return sorted(child for child in found if alive(child))


def descendants(pid: int) -> list[int]:
    """Pids of all processes below `pid`."""
    below = children(pid)
    return below + [further for child in below for further in descendants(child)]


def command_of(pid: int) -> str:
    """The words that it was started with; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(pid: int) -> None:
    """SIGKILL, and back when it is dead."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid), f"process {pid} dies of SIGKILL")


def suspend(pid: int) -> None:
    """SIGSTOP, and back when each of its threads stands: until then one may still answer."""
    os.kill(pid, signal.SIGSTOP)
    eventually(
        lambda: all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()),
        f"process {pid} stands",
    )


def _state(of: Path) -> str:
    return (of / "stat").read_text().rpartition(")")[2].split()[0]


def listening(pid: int) -> list[int]:
    """TCP ports that it listens on."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(fd).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sorted(int(row[1].partition(":")[2], 16) for row in rows if row[3] == LISTENS and row[9] in inodes)
