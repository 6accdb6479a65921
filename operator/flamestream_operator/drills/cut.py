"""Run in a container of its own inside a worker's pod by a drill: nothing comes in or goes out for a while,
and nobody is told.

`python3 -m flamestream_operator.drills.cut SECONDS`. It needs NET_ADMIN in the pod's network and nothing on
the node: every device but the loopback gets nftables' chains at its door whose policy is to drop, by the
image's `nft`.

Keeps: it says that it has cut when the kernel has said so. The table is removed at the end, also by SIGTERM;
a pod that dies takes it along. Does not: touch the node's network, or a rule of somebody else's.
"""

import signal
import socket
import subprocess
import sys
import time
from typing import Final

TABLE: Final = "netdev flamestream_drill"
"""Its family, which is that of chains at a device's door, and its name."""
CUT: Final = "cut"
"""The first word of its log, once nothing passes: only then has the fault taken place."""
_FIRST: Final = -500
"""Before every other chain."""
_HOOKS: Final = ("ingress", "egress")
_SECONDS: Final = 5


def cut(devices: list[str]) -> None:
    """Drop all that these devices send and receive. Raises OSError or SubprocessError."""
    places = [(f"{hook}{number}", hook, device) for number, device in enumerate(devices) for hook in _HOOKS]
    chains = "".join(
        f'chain {name} {{ type filter hook {hook} device "{device}" priority {_FIRST}; policy drop; }}\n'
        for name, hook, device in places
    )
    _tell(f"table {TABLE} {{\n{chains}}}\n")


def heal() -> None:
    """Let everything pass again. Raises OSError or SubprocessError."""
    _tell(f"delete table {TABLE}\n")


def devices() -> list[str]:
    """The network's devices to the outside, by name."""
    # A worker and its JVM talk over the loopback: a cut between them would be another fault (decision 041).
    return [name for _, name in socket.if_nameindex() if name != "lo"]


def _tell(commands: str) -> None:
    """Give `commands` to nft as one transaction: all or nothing. Its own words of what is wrong stand in the
    log."""
    subprocess.run(["nft", "-f", "-"], input=commands, text=True, timeout=_SECONDS, check=True)


def _stop(*_: object) -> None:
    raise SystemExit(143)


def main(arguments: list[str]) -> int:
    """The exit code."""
    # Before the cut (!): a container's first process does not get a SIGTERM that it has no handler for.
    signal.signal(signal.SIGTERM, _stop)
    names = devices()
    cut(names)
    sys.stdout.write(f"{CUT} {' '.join(names)}\n")
    # A pipe is buffered, and this line is the only sight of the fault.
    sys.stdout.flush()
    try:
        time.sleep(float(arguments[0]))
    finally:
        heal()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, subprocess.SubprocessError) as problem:
        sys.exit(f"the kernel did not take nftables' chains at the pod's devices: {problem}")
