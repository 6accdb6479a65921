"""A cut drops all at a pod's devices without a word, leaves the loopback alone, and is undone. Needs root,
`unshare`, `ip`, `nft`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.installing import install, one_at_a_time


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """As the image has them."""
    with one_at_a_time():
        if not shutil.which("nft"):
            install("nftables")
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("ip", "unshare", "nft")):
        pytest.skip("needs root, ip, unshare and nft")


CUTTER = f"{sys.executable} -m flamestream_operator.drills.cut"
INSIDE = """
import os, socket, subprocess, sys
from flamestream_operator.drills import cut

def ip(*words): subprocess.run(["ip", *words], check=True)

def reaches(address):
    try:
        socket.create_connection((address, 9), 0.5)
    except TimeoutError:
        return "nothing comes back"
    except ConnectionRefusedError:
        return "refused"

def answers(address):  # on a busy machine not at the first try
    return next((said for said in (reaches(address) for _ in range(40)) if said == "refused"), "never")

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
    print(answers("10.99.0.2"), flush=True)
    cut.cut(cut.devices())
    print(reaches("10.99.0.2"), answers("127.0.0.1"), flush=True)
    cut.heal()
    print(answers("10.99.0.2"), flush=True)
finally:
    far.kill()
"""


def test_a_cut_is_silent_and_is_undone() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", INSIDE], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if "Operation not permitted" in done.stderr and "unshare" in done.stderr:
        pytest.skip("this machine lets nobody have a network of its own")
    assert done.stdout.splitlines() == ["['eth0']", "refused", "nothing comes back refused", "refused"], (
        done.stderr
    )


def in_a_network_of_its_own(script: str) -> subprocess.CompletedProcess[str]:
    """With a device that leads nowhere."""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f"ip link add eth0 type veth peer name far0 && {script}"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if "unshare" in done.stderr and "Operation not permitted" in done.stderr:
        pytest.skip("this machine lets nobody have a network of its own")
    return done


def test_a_cutter_says_that_it_has_cut_when_the_kernel_has_and_not_before() -> None:
    """A drill counts the fault from this word on."""
    done = in_a_network_of_its_own(f"exec {CUTTER} 0.1")
    assert (done.returncode, done.stdout) == (0, "cut far0 eth0\n")
    done = in_a_network_of_its_own(
        f"exec setpriv --bounding-set -net_admin --inh-caps -net_admin {CUTTER} 0.1"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the kernel did not take" in done.stderr.splitlines()[-1], (
        "a drill's status has the end of the log"
    )


def test_a_cutter_that_is_stopped_heals(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    stopped = f"{{ {CUTTER} 60 >{log} & }} && read word <{log} && nft list tables && kill $! && wait $!"
    done = in_a_network_of_its_own(f"{stopped}; nft list tables")
    assert done.stdout == "table netdev flamestream_drill\n", (
        "listed before it was stopped, and not behind that"
    )
