"""A cut drops everything at a pod's devices without a word, leaves the loopback alone, and is undone. Needs root, `unshare` and `ip`."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"), reason="needs root, ip and unshare"
)
INSIDE = """
import os, socket, subprocess, sys
from flamestream_operator import cut

def ip(*words): subprocess.run(["ip", *words], check=True)

def reaches(address):
    try:
        socket.create_connection((address, 9), 0.5)
    except TimeoutError:
        return "nothing comes back"
    except ConnectionRefusedError:
        return "refused"

far = subprocess.Popen(["unshare", "--net", "sleep", "60"])
try:
    while os.readlink(f"/proc/{far.pid}/ns/net") == os.readlink("/proc/self/ns/net"): pass
    ip("link", "set", "lo", "up")
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "far0", "netns", str(far.pid))
    ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    beyond = ["nsenter", f"--net=/proc/{far.pid}/ns/net", "ip"]
    subprocess.run([*beyond, "addr", "add", "10.99.0.2/24", "dev", "far0"], check=True)
    subprocess.run([*beyond, "link", "set", "far0", "up"], check=True)
    print(cut.devices())
    print(reaches("10.99.0.2"), flush=True)
    cut.cut(cut.devices())
    print(reaches("10.99.0.2"), reaches("127.0.0.1"), flush=True)
    cut.heal()
    print(reaches("10.99.0.2"), flush=True)
finally:
    far.kill()
"""


def test_a_cut_is_silent_and_is_undone() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", INSIDE], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if "Operation not permitted" in done.stderr and "unshare" in done.stderr:
        pytest.skip("this machine lets nobody have a network of its own")
    assert done.stdout.splitlines() == ["['eth0']", "refused", "nothing comes back refused", "refused"], done.stderr
