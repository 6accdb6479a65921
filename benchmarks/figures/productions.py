"""What a door costs: bids through chains of functions of one's own, each behind a door, exactly once and with
strong productions, on one worker between two sockets.

    python benchmarks productions                       # all of it: some three minutes
    python benchmarks productions --doors 1,2           # a part
    python benchmarks productions --table               # what is there so far

A latency is from when an event was due to the receipt of its row, at one rate for all. Both guarantees run the
same functions; with strong productions what each chain gives is journalled before anything follows from it.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from chain_graphs import DOORS
from harness.drive import noise, where
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.productions import productions_table
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
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--doors", default=",".join(map(str, DOORS)))
    options = parser.parse_args()
    rows = rows_of(map(int, options.doors.split(",")))
    tell(options, rows, productions_table, lambda row: f"{row['doors']} {row['guarantee']} {row['result']}")


def rows_of(each: Iterable[int]) -> Iterator[dict[str, Any]]:
    """A row of each number of doors with each guarantee."""
    for doors, guarantee in product(each, GUARANTEES):
        about = {"noise": noise()} | where()
        yield {"doors": doors, "guarantee": guarantee, "result": measured(doors, guarantee)} | about


if __name__ == "__main__":
    main()
