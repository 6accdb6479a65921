"""The floor: the job as a loop over sockets, dicts and lists in one thread. No guarantee, no second worker, nothing kept.

python benchmarks/peers/plain.py SOURCE SINK
"""

import gc
import sys

from text import change, connect, words


def main() -> None:
    source, sink = connect(sys.argv[1]), connect(sys.argv[2])
    source.sendall(b"0\n")
    postings: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    # The collector walks all postings again and again; a loop that makes no cycles needs none.
    gc.disable()
    for line in source.makefile("rb"):
        out = []
        for word, document, positions in words(line.decode()):
            its = postings.setdefault(word, [])
            its.append((document, positions))
            out.append(change(word, document, len(its), positions))
        sink.sendall(b"".join(out))


if __name__ == "__main__":
    main()
