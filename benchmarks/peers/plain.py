"""The floor: the job as a loop over sockets, dicts and lists in one thread. No guarantee, no second worker,
nothing kept.

python benchmarks/peers/plain.py SOURCE SINK
"""

import gc
import sys
from collections.abc import Iterable, Iterator

from text import change, connect, words


def index(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The changes of each document."""
    postings: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for line in lines:
        out = []
        for word, document, positions in words(line.decode()):
            its = postings.setdefault(word, [])
            its.append((document, positions))
            out.append(change(word, document, len(its), positions))
        yield b"".join(out)


def main() -> None:
    source, sink = connect(sys.argv[1]), connect(sys.argv[2])
    source.sendall(b"0\n")
    # The collector walks all postings again and again; a loop that makes no cycles needs none.
    gc.disable()
    for changes in index(source.makefile("rb")):
        sink.sendall(changes)


if __name__ == "__main__":
    main()
