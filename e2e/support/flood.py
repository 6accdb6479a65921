"""What a hostile tenant's pod throws at every port that it finds: `python3 flood.py SECONDS HOST:PORT...`;
the image's own Python alone.

By turns and on each place: connections that say nothing (64 held at most), random bytes, half an HTTP head,
ZooKeeper's own greeting, the beginning of a large frame. Bounded: 200 a second in all, and the seconds that
it is given. Prints how often each place took a connection.
"""

import json
import random
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable

A_SECOND, HELD = 200, 64
CHANCE = random.Random(15)
GREETING = struct.pack(">iqiq", 0, 0, 30_000, 0) + struct.pack(">i", 16) + bytes(16) + b"\0"
THROWN: list[Callable[[], bytes]] = [
    lambda: b"",
    lambda: CHANCE.randbytes(CHANCE.choice((1, 40, 3000))),
    lambda: b"GET /metrics HTTP/1.1\r\nHost: x\r\na: ",
    lambda: b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    lambda: struct.pack(">i", len(GREETING)) + GREETING,
    lambda: struct.pack(">I", 63 << 20) + bytes(100_000),
]


def main(seconds: float, places: list[str]) -> None:
    held: deque[socket.socket] = deque()
    taken: Counter[str] = Counter()
    start, number = time.monotonic(), 0
    while (now := time.monotonic()) < start + seconds:
        time.sleep(max(0.0, start + number / A_SECOND - now))
        host, _, port = places[number % len(places)].rpartition(":")
        try:
            connection = socket.create_connection((host, int(port)), 0.2)
            connection.settimeout(0.2)
            taken[places[number % len(places)]] += 1
            held.append(connection)
            connection.sendall(THROWN[number // len(places) % len(THROWN)]())
        except OSError:
            pass
        if len(held) > HELD:
            held.popleft().close()
        number += 1
    sys.stdout.write(json.dumps(taken))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
