"""What tests fetch for themselves, once a checkout or a machine, though several processes of tests need it at the same moment."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
SECONDS = 900


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of all processes that fetch: who comes second looks again whether it is there."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "installing.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(package: str) -> None:
    """Debian's, if this is root on a Debian; what failed shows in that it is not there. Within `one_at_a_time`."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # 1: servers of it are not started
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)
