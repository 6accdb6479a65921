"""Run inside a worker's pod by a drill: stops its Python worker or Spark's Python daemon.

`python3 -m flamestream_operator.strike worker|daemon kill` or `... worker pause SECONDS`. Prints the pid that it struck.

Keeps: only processes of Spark's Python daemon are touched, by pid. Does not: decide when (shell/drills.py).
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

DAEMON: Final = b"flamestream.spark.daemon"


def processes(proc: Path = Path("/proc")) -> dict[int, int]:
    """pid and parent of every process that is the daemon or a fork of it."""
    found = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if DAEMON in (folder / "cmdline").read_bytes():
                    found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
    return found


def victim(role: str, found: dict[int, int]) -> int | None:
    """The daemon is the one whose parent is not one of them; workers are its children."""
    workers = [pid for pid, parent in found.items() if parent in found]
    daemons = [pid for pid in found if pid not in workers]
    return min(workers if role == "worker" else daemons, default=None)


def main(arguments: list[str]) -> int:
    """The exit code: 3 if there is nothing to strike."""
    role, how = arguments[0], arguments[1]
    pid = victim(role, processes())
    if pid is None:
        sys.stdout.write(f"no {role} runs here\n")
        return 3
    if how == "kill":
        os.kill(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGSTOP)
        if os.fork() == 0:
            os.setsid()
            for number in (0, 1, 2):  # whoever asked does not wait for the end of the pause
                os.close(number)
            time.sleep(float(arguments[2]))
            os.kill(pid, signal.SIGCONT)
            os._exit(0)
    sys.stdout.write(f"{pid}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
