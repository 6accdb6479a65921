"""Which process something belongs to, told apart from any other that ever had its pid.

A pid alone is not enough: pids are used again, and mean something else on another machine or in another
container. So it comes with the machine's boot, the pid namespace, and the process's start time.
"""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

_PAGE: Final = os.sysconf("SC_PAGESIZE")


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process, from its start to its end. `host` and `started` are for people, `place` and `ticks` for
    comparing."""

    host: str
    pid: int
    started: str
    place: str
    ticks: int

    @classmethod
    def of_this_process(cls) -> Self:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), os.getpid(), now, _place(), start_ticks(os.getpid()))

    @property
    def here(self) -> bool:
        """Whether its pid means something to this process."""
        return self.place == _place()

    @property
    def alive(self) -> bool:
        """Whether it still runs. Only to be asked of a process that is `here`."""
        return start_ticks(self.pid) == self.ticks


def _place() -> str:
    """The place in which a pid means something: a boot of a machine, and a namespace of pids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def start_ticks(pid: int) -> int:
    """The start of a process, in clock ticks since boot; 0 if there is none, or only its remains that nobody
    waited for."""
    try:
        # behind the name, which may hold anything: brackets, and bytes that are no text
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # proc(5): the state is field 3, which is the first here, and the start field 22.
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def resident_bytes() -> int:
    """Memory that this process has in RAM now."""
    with open("/proc/self/statm", "rb") as file:  # ten times a second
        return int(file.read().split()[1]) * _PAGE
