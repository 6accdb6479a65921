"""Losing the Lease: the process begins anew, in its place, with nothing of what it was."""

import os
import subprocess
import sys

LIVES = """
import os, socket, threading, time
from flamestream_operator.shell.lease import end_process

life = int(os.environ.get("LIFE", "0"))
port = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0"))))
print(life, os.getpid(), threading.active_count(), flush=True)
if life < 2:
    os.environ |= {"LIFE": str(life + 1), "PORT": str(port.getsockname()[1])}
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    end_process("the Lease ran out")
"""


def test_who_loses_the_lease_begins_anew_without_its_threads_and_sockets() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", LIVES], capture_output=True, text=True, timeout=60, check=True, env=environment)
    lives = [line.split() for line in done.stdout.splitlines()]
    assert [life for life, _, _ in lives] == ["0", "1", "2"], done.stderr
    assert len({pid for _, pid, _ in lives}) == 1, "the same container process"
    assert {threads for _, _, threads in lives} == {"1"}
