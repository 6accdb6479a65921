"""Run in a container of its own inside a worker's pod by a drill: nothing comes in or goes out for a while, and nobody is told.

`python3 -m flamestream_operator.drills.cut SECONDS`. It needs NET_ADMIN in the pod's network and nothing on the node: every device but the
loopback gets nftables' chains at its door whose policy is to drop, said to the kernel over netlink (the image has no `nft`).

Keeps: it says that it has cut when the kernel has said so. The table is removed at the end, also by SIGTERM; a pod that dies takes it
along. Does not: touch the node's network, or a rule of somebody else's.
"""

import signal
import socket
import struct
import sys
import time
from typing import Final

TABLE: Final = "flamestream_drill"
CUT: Final = "cut"
"""The first word of its log, once nothing passes: only then has the fault taken place."""
NETLINK_NETFILTER: Final = 12
NETDEV: Final = 5
"""The family of tables at a device's door."""
_NFTABLES: Final = 10 << 8
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN = _NFTABLES | 0, _NFTABLES | 2, _NFTABLES | 3
_BEGIN, _END = 0x10, 0x11
_REQUEST, _ACKNOWLEDGE, _CREATE = 0x1, 0x4, 0x400
_ERROR: Final = 2
_NESTED: Final = 0x8000
_FIRST: Final = -500
"""Before every other chain."""
_DROP: Final = 0
_HOOKS: Final = {"in": 0, "out": 1}


def cut(devices: list[str]) -> None:
    """Nothing passes these any more. Raises OSError."""
    chains = [_chain(f"{way}{number}", hook, device) for number, device in enumerate(devices) for way, hook in _HOOKS.items()]
    made = [(_NEW_TABLE, _CREATE, _attribute(1, _text(TABLE))), *((_NEW_CHAIN, _CREATE, chain) for chain in chains)]
    _carried_out(made)


def heal() -> None:
    """Everything passes. Raises OSError."""
    _carried_out([(_DELETE_TABLE, 0, _attribute(1, _text(TABLE)))])


def devices() -> list[str]:
    """Those to the outside."""
    return [name for _, name in socket.if_nameindex() if name != "lo"]


def _chain(name: str, hook: int, device: str) -> bytes:
    place = _attribute(1, struct.pack(">I", hook)) + _attribute(2, struct.pack(">i", _FIRST)) + _attribute(3, _text(device))
    parts = [(1, _text(TABLE)), (3, _text(name)), (4 | _NESTED, place), (5, struct.pack(">I", _DROP)), (7, _text("filter"))]
    return b"".join(_attribute(kind, data) for kind, data in parts)


def _carried_out(messages: list[tuple[int, int, bytes]]) -> None:
    """In one transaction: all or nothing."""
    body = [_message(kind, _REQUEST | _ACKNOWLEDGE | more, number, NETDEV, data) for number, (kind, more, data) in enumerate(messages, 1)]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as kernel:
        kernel.bind((0, 0))
        kernel.settimeout(5)
        kernel.send(_message(_BEGIN, _REQUEST, 0, 0, b"", 10) + b"".join(body) + _message(_END, _REQUEST, 0, 0, b"", 10))
        left = len(messages)
        while left:
            left -= _answers(kernel.recv(65_536))


def _answers(data: bytes) -> int:
    """How many; an OSError for one that says no."""
    count = 0
    while data:
        length, kind = struct.unpack_from("=IH", data)
        if kind == _ERROR:
            (number,) = struct.unpack_from("=i", data, 16)
            if number:
                raise OSError(-number, "the kernel refused nftables' chains at the pod's devices")
            count += 1
        data = data[(length + 3) & ~3 :]
    return count


def _message(kind: int, flags: int, number: int, family: int, data: bytes, resource: int = 0) -> bytes:
    body = struct.pack(">BBH", family, 0, resource) + data
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _stop(*_: object) -> None:
    raise SystemExit(143)


def main(arguments: list[str]) -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, _stop)
    names = devices()
    cut(names)
    sys.stdout.write(f"{CUT} {' '.join(names)}\n")
    sys.stdout.flush()
    try:
        time.sleep(float(arguments[0]))
    finally:
        heal()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
