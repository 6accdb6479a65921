"""The floor of transactions: transfers as a loop over sockets and a dict in one thread. No guarantee, nothing kept.

python benchmarks/peers/bank_loop.py SOURCE SINK
"""

import gc
import sys
from collections.abc import Iterable, Iterator

import msgspec
from text import connect


class Transfer(msgspec.Struct):
    id: int
    source: int
    target: int
    amount: int


def outcomes(lines: Iterable[bytes]) -> Iterator[bytes]:
    """A line for each."""
    balances: dict[int, int] = {}
    decode, encode = msgspec.json.Decoder(Transfer).decode, msgspec.json.Encoder().encode
    for line in lines:
        t = decode(line)
        left = balances.get(t.source, 100_000) - t.amount
        if left < 0:
            yield encode((t.id, "a check", "accounts", t.source)) + b"\n"
            continue
        balances[t.source] = left
        balances[t.target] = right = balances.get(t.target, 100_000) + t.amount
        yield encode((t.id, left, right)) + b"\n"


def main() -> None:
    source, sink = connect(sys.argv[1]), connect(sys.argv[2])
    source.sendall(b"0\n")
    gc.disable()
    for outcome in outcomes(source.makefile("rb")):
        sink.sendall(outcome)


if __name__ == "__main__":
    main()
