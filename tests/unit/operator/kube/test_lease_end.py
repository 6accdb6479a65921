"""A lost Lease ends everything that ran, at once, and the program begins anew without its container's
exit."""

import os
import subprocess
import sys

PROGRAM = """
import os, socket, threading, time
from flamestream_operator.kube.lease import end_process

if "BEFORE" in os.environ:
    pid, inode = os.environ["BEFORE"].split()
    held = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}
    print(int(pid) == os.getpid(), threading.active_count(), f"socket:[{inode}]" in held)
else:
    mine = socket.socket()
    os.environ["BEFORE"] = f"{os.getpid()} {os.fstat(mine.fileno()).st_ino}"
    threading.Thread(target=time.sleep, args=(60,)).start()
    end_process("the Lease ran out")
"""  # noqa: E501


def test_nothing_runs_on_and_the_program_begins_anew() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "1", "False"]), done.stderr
