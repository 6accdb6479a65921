"""The consumer of a run of transactions: stamps what comes to its ports, and looks into it while nothing comes.

    python -m bank.outside consumer --form wire --port 7002,7003 --report FILE

The producer is Nexmark's (nexmark/outside.py). While nothing comes for some seconds, a line a second on standard output
says so, which whoever waits for the end takes as it.

Keeps: what came is reported as it came, in its order. Does not: know what it means (runs.py).
"""

import argparse
import contextlib
import gc
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from harness.lines import Stopped, _stop
from harness.wire import TICK, Consumer, LineConsumer, Wire

QUIET: Final = 2.0
"""Seconds without anything."""
AGAIN: Final = 0.5
AT_ONCE: Final = 16
"""Deliveries that are looked into before it is seen whether something came meanwhile."""
Received = list[tuple[float, list[bytes]]]
"""When what came: the items of bundles, or lines."""


class Still:
    """Says again and again that nothing has come for a while, once something had."""

    def __init__(self) -> None:
        self._next = float("inf")

    def heard(self, now: float, anything: bool) -> bool:
        """Whether it is to be said now."""
        if anything:
            self._next = now + QUIET
        if now < self._next:
            return False
        self._next = now + AGAIN
        return True


def consumed(ports: Sequence[int], form: str) -> Received:
    """All that comes to these ports until SIGTERM. Raises SystemExit for what may not come."""
    wire, still = Wire(), Still()
    make: Any = Consumer if form == "wire" else LineConsumer
    consumers = [make(wire, "127.0.0.1", port) for port in ports]
    signal.signal(signal.SIGTERM, _stop)
    # A consumer that is asked what it has by who takes over knows it: a search for cycles in all that came, or a
    # look into it, would be a part of the gap.
    gc.disable()
    print("ready", flush=True)
    with contextlib.suppress(Stopped):
        while True:
            heard = wire.turn(0.0 if any(each.is_behind for each in consumers) else TICK)
            if still.heard(time.monotonic(), heard):
                print("quiet", flush=True)
            if not heard:
                for each in consumers:
                    each.read(AT_ONCE)
    for each in consumers:
        each.read()
        if each.problem:
            raise SystemExit(each.problem)
    return sorted(
        (
            (when, what if form == "lines" else [bundle[3] for bundle in what])
            for each in consumers
            for when, what in each.deliveries
        ),
        key=lambda delivery: delivery[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["consumer"])
    parser.add_argument("--form", choices=["wire", "lines"], required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    found = consumed([int(port) for port in options.port.split(",")], options.form)
    options.report.write_bytes(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main()
