"""What a door costs: bids through chains of functions of one's own, each behind a door, exactly once and with
strong productions, on one worker between two sockets.

    python benchmarks productions                       # all of it: some three minutes
    python benchmarks productions --doors 1,2           # a part
    python benchmarks productions --table               # what is there so far

A latency is from when an event was due to the receipt of its row, at one rate for all. Both guarantees run the
same functions; with strong productions what each chain gives is journalled before anything follows from it.
"""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from chain_graphs import DOORS
from harness.drive import machine, noise
from harness.productions_table import productions_table
from harness.report import CACHE, load
from harness.suite import keep, set_aside
from nexmark.causes import cause_of
from nexmark.figure import PACED, events_file
from nexmark.paced import paced
from systems.base import Command, Failed

from figures.calls import EVENTS, LATENCY, RATE, between_sockets

OUT: Final = CACHE / "productions.jsonl"
GUARANTEES: Final = ("exactly-once", "strong-productions")


class Chained:
    """`nexmark.sides.Side` of the graphs in jobs/chain_graphs.py."""

    name = "flamestream"
    form: Literal["wire", "lines"] = "wire"
    queries: Iterable[str] = tuple(f"chains{doors}" for doors in DOORS)

    def __init__(self, guarantee: str) -> None:
        self._guarantee = guarantee

    def versions(self) -> dict[str, str]:
        return {}

    def over_file(self, query: str, events: Path, folder: Path) -> Command:
        raise Failed("it is measured between sockets")

    def between(self, query: str, source: int, sink: int, folder: Path) -> Command:
        other = {"guarantee": self._guarantee}
        return between_sockets("chain_graphs.py", query, (source, sink), folder, other)


def measured(doors: int, guarantee: str) -> dict[str, Any]:
    """Latencies. Raises Failed."""
    events = events_file(EVENTS, PACED)
    side = Chained(guarantee)
    return paced(side, f"chains{doors}", events, RATE, lambda _, each: cause_of("q0", each), LATENCY)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--doors", default=",".join(map(str, DOORS)))
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    parser.add_argument("--again", action="store_true", help="set an older file aside")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.again:
        set_aside(options.out)
    for doors in () if options.table else map(int, options.doors.split(",")):
        for guarantee in GUARANTEES:
            before = noise()
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            row = {"doors": doors, "guarantee": guarantee, "result": measured(doors, guarantee)}
            keep(options.out, row | {"machine": machine(), "noise": before, "when": when})
            print(doors, guarantee, row["result"], flush=True)
    print(productions_table(load(options.out) if options.out.exists() else []))


if __name__ == "__main__":
    main()
