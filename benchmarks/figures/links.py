"""What TLS costs a frame on a link, beside the same frame in the clear: there and back between two ends of
one loop, on one machine.

    python benchmarks links

By turns, and in microseconds of a processor, so a busy machine matters little. A line a size: medians of a
frame's way there and back, and what TLS adds to one of the two; then what making a link costs both ends
together.
"""

import socket
import statistics
import time
from collections.abc import Callable

from flamestream.loop.reactor import EpollReactor
from flamestream.net.framing import FrameConnection
from flamestream.net.tls import LinkKey

SIZES = (100, 300, 1_000, 4_000, 16_000, 64_000, 256_000)
ROUNDS, FRAMES, LINKS = 20, 50, 20


class Pair:
    """Two ends; the far one sends back what it gets."""

    def __init__(self, loop: EpollReactor, key: LinkKey | None) -> None:
        self._loop = loop
        self._back = 0
        near, far = socket.create_server(("127.0.0.1", 0)), socket.socket()
        far.connect(near.getsockname())
        accepted, _ = near.accept()
        near.close()
        self.near = FrameConnection(loop, accepted, 1 << 26, self._came, _ended)
        self.far = FrameConnection(loop, far, 1 << 26, self._echo, _ended)
        if key is not None:
            proved: list[None] = []
            self.near.secure(key.dialling(b"bench"), lambda: proved.append(None))
            self.far.secure(key.accepting(b"bench"), lambda: proved.append(None))
            self._turn(lambda: len(proved) == 2)

    def _echo(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.far.send(frame)

    def _came(self, frames: list[bytes]) -> None:
        self._back += len(frames)

    def _turn(self, until: Callable[[], bool]) -> None:
        while not until():
            self._loop.turn()

    def there_and_back(self, frame: bytes) -> float:
        """Microseconds of a processor: nothing else is done meanwhile, so this is what it takes."""
        self._back = 0
        began = time.process_time()
        self.near.send(frame)
        self._turn(lambda: self._back == 1)
        return (time.process_time() - began) * 1e6

    def close(self) -> None:
        self.near.close()
        self.far.close()


def main() -> None:
    loop = EpollReactor()
    pairs = {"clear": Pair(loop, None), "tls": Pair(loop, LinkKey(b"key"))}
    for size in SIZES:
        taken: dict[str, list[float]] = {name: [] for name in pairs}
        for _ in range(ROUNDS):
            for name, pair in pairs.items():
                taken[name] += [pair.there_and_back(bytes(size)) for _ in range(FRAMES)]
        clear, tls = (statistics.median(taken[name]) for name in ("clear", "tls"))
        print(f"{size:>9} bytes  clear {clear:7.1f}  tls {tls:7.1f}  a hop more {(tls - clear) / 2:6.1f}")
    print(f"making a link: {statistics.median(_made(loop) for _ in range(LINKS)):.0f} us of a processor")


def _made(loop: EpollReactor) -> float:
    """Microseconds of processor time, both ends together, of the first connection under a key."""
    began = time.process_time()
    Pair(loop, LinkKey(b"another key")).close()
    return (time.process_time() - began) * 1e6


def _ended(reason: str) -> None:
    raise SystemExit(reason)


if __name__ == "__main__":
    main()
