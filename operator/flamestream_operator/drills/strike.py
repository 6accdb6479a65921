"""Run inside a pod by a drill: kills or pauses processes there, and says what it saw of that.

`python3 -m flamestream_operator.drills.strike worker|daemon kill`, `... worker|pod pause SECONDS`. Prints one
JSON document: the pids with what was seen of them (`gone`, `paused`), or why not. A `worker` is Spark's
Python worker, the `daemon` the process that forks it, the `pod` everything but its first process, which the
kernel lets nobody inside stop.

Keeps: a signal that was sent is not taken for its effect: the process must be seen gone or standing still.
Who was paused goes on after that time, whatever becomes of whoever asked. Does not: decide when
(drills/reconciler.py).
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

DAEMON: Final = b"flamestream.spark.streaming.daemon"
FIRST: Final = 1
SEEN_WITHIN: Final = 5.0
POLL: Final = 0.01
PROC: Final = Path("/proc")


def processes(proc: Path = PROC) -> dict[int, int]:
    """pid and parent of every process that is the daemon or a fork of it."""
    found = {}
    for pid in everything(proc):
        try:
            if DAEMON in (proc / str(pid) / "cmdline").read_bytes():
                found[pid] = int(_stat(pid, proc)[1])
        except OSError:  # it has just ended
            continue
    return found


def everything(proc: Path = PROC) -> list[int]:
    """Every process but this one."""
    return sorted(
        int(folder.name)
        for folder in proc.iterdir()
        if folder.name.isdigit() and int(folder.name) != os.getpid()
    )


def victims(role: str, proc: Path = PROC) -> list[int]:
    """The daemon is the one whose parent is not one of them; workers are its children."""
    if role == "pod":
        return [pid for pid in everything(proc) if pid != FIRST and state(pid, proc) not in ("", "Z", "X")]
    found = processes(proc)
    workers = [pid for pid, parent in found.items() if parent in found]
    chosen = workers if role == "worker" else [pid for pid in found if pid not in workers]
    return sorted(chosen)[:1]


def state(pid: int, proc: Path = PROC) -> str:
    """The process's state, the kernel's letter for it; "": there is no such process."""
    try:
        return _stat(pid, proc)[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _stat(pid: int, proc: Path) -> list[str]:
    # The name in brackets may hold spaces and brackets: the last one ends it.
    return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()


def killed(pids: Sequence[int]) -> bool:
    """Whether all were seen gone; what nobody has waited for is gone too."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return _all(pids, lambda pid: state(pid) in ("", "Z", "X"))


def paused(pids: Sequence[int], seconds: float) -> bool:
    """Whether all were seen standing still. They go on after so many seconds."""
    for pid in pids:
        # The list is older than the fork below, so who ends the pause is not on it.
        os.kill(pid, signal.SIGSTOP)
    if os.fork() == 0:  # (!) ends the pause, whatever becomes of who asked
        os.setsid()
        for number in (0, 1, 2):  # whoever asked does not wait for the end of the pause
            os.close(number)
        time.sleep(seconds)
        for pid in pids:
            # Only who stands still: the pid may be another process's by now.
            if state(pid) == "T":
                os.kill(pid, signal.SIGCONT)
        os._exit(0)
    return _all(pids, lambda pid: state(pid) == "T")


def _all(pids: Sequence[int], good: Callable[[int], bool]) -> bool:
    deadline = time.monotonic() + SEEN_WITHIN
    while not all(good(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def main(arguments: list[str]) -> int:
    """The exit code: 3 if there is nothing to strike, or it was not seen to be struck."""
    role, how = arguments[0], arguments[1]
    pids = victims(role)
    if not pids:
        what = (
            "nothing but its first process, which nobody inside can stop: `cut` it"
            if role == "pod"
            else f"no {role}"
        )
        return _said({"problem": f"there is {what}"})
    try:
        seen = killed(pids) if how == "kill" else paused(pids, float(arguments[2]))
    except OSError as error:
        return _said({"problem": f"{how} of {role}: {error}"})
    if not seen:
        return _said(
            {
                "problem": f"{how} of {role}: a signal was sent to {pids}, and nothing was seen of it within "
                f"{SEEN_WITHIN:g} s"
            }
        )
    return _said({"pids": pids, "seen": "gone" if how == "kill" else "paused"})


def _said(answer: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(answer) + "\n")
    return 3 if "problem" in answer else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
