"""Runs the systems, in turns, and writes what came out as lines of JSON; report.py makes tables and figures
of them.

    python benchmarks suite                     # all, as `make bench`: some three hours; figures and tables
                                                at its end
    python benchmarks suite fig12               # what one figure needs, and that figure: fig9 to fig13,
                                                throughput, workers
    python benchmarks suite latency --systems flamestream,flink --intervals 50,1000 --documents 600 --rounds 1 --add
    python benchmarks suite list                # systems, versions, settings with reasons

A round measures every cell once; each round begins with another one, so that a busy machine is busy for all.
A system that cannot run here is left out, and says why.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from systems import OWN_INTERVALS, SAME_AT_FULL_RATE, SYSTEMS
from systems.base import NONE, Cell, Failed, NotHere, System

from harness import BENCHMARKS
from harness.drive import drive, noise, record
from harness.job import Outcome
from harness.results import BESIDE, FIGURES, PAPER_INTERVALS
from harness.rows import keep, set_aside

OUT = BENCHMARKS.parent / ".cache" / "bench" / "results.jsonl"
MINUTE = 60.0
TRIES = 5
"""Runs until one lasts long enough."""


def rotated(cells: list[Any], turn: int) -> list[Any]:
    """The same, beginning with another one."""
    at = turn % len(cells) if cells else 0
    return cells[at:] + cells[:at]


def cells(options: argparse.Namespace, systems: list[System]) -> list[tuple[System, Cell]]:
    """What a round measures. Without a guarantee there are no checkpoints, so no intervals."""
    wanted = options.guarantees.split(",") if options.guarantees else None
    found = []
    for system in systems:
        for guarantee in system.guarantees:
            if wanted is None or guarantee in wanted:
                asked = [int(each) for each in options.intervals.split(",")][
                    : 1 if guarantee == NONE else None
                ]
                own = OWN_INTERVALS.get((system.name, guarantee))
                intervals = asked if own is None else [own]
                made = [
                    Cell(guarantee, interval, *load(options, system), workers=options.workers)
                    for interval in intervals
                ]
                found += [(system, cell) for cell in made]
    return found


def load(options: argparse.Namespace, system: System) -> tuple[int, int, float]:
    """Documents, those to warm up, rate: less for a system that would never end (tables show it), a longer
    warm-up for a slow start."""
    if system.pace is None:
        more = max(0, int(system.settles * options.rate) - options.warm_up)
        return options.documents + more, options.warm_up + more, options.rate
    documents = min(options.documents, int(system.pace * MINUTE))
    return documents, min(options.warm_up, documents // 3), min(options.rate, system.pace)


def measure(kind: str, options: argparse.Namespace) -> None:
    """All rounds."""
    every = cells(options, ready(options.systems.split(","), SYSTEMS))
    todo = [
        (system, cell)
        for system, cell in every
        if re.search(options.cells, f"{system.name}, {cell.guarantee}, {cell.interval_ms}")
    ]
    sizes: dict[tuple[str, str], int] = {}
    for turn in range(options.rounds):
        for system, cell in rotated(todo, turn):
            before = noise()
            try:
                if kind == "throughput":
                    taken, outcome = long_enough(system, cell, sizes, options)
                else:
                    taken, outcome = cell, drive(system, cell, options.deadline)
            except Failed as reason:
                print(f"{system.name}, {cell.guarantee}: no result: {reason}", file=sys.stderr)
                continue
            keep(options.out, {"kind": kind, "round": turn} | record(system, taken, outcome, before))
            print(_line(system, taken, outcome.row() | before), flush=True)


def long_enough(
    system: System, cell: Cell, sizes: dict[tuple[str, str], int], options: argparse.Namespace
) -> tuple[Cell, Outcome]:
    """A run of at least five sixths of the wanted time, and its cell: shorter ones only tell how many
    documents that takes.

    Raises Failed if none was, in so many tries."""
    case = (system.name, cell.guarantee)
    for _ in range(TRIES):
        documents = sizes.get(case, options.probe)
        taken = replace(cell, documents=documents, warm_up=documents // 4)
        outcome = drive(system, taken, options.deadline)
        if outcome.seconds <= 0:
            raise Failed("nothing was delivered")
        sizes[case] = max(documents, int(documents * options.seconds / outcome.seconds))
        if outcome.seconds >= options.seconds * 5 / 6:
            return taken, outcome
    raise Failed(
        f"no run of {TRIES} lasted long enough: "
        f"the last one {outcome.seconds:.0f} s with {documents} documents"
    )


class Preparable(Protocol):
    def prepare(self) -> None:
        """Raises NotHere."""


Prepared = TypeVar("Prepared", bound=Preparable)


def ready(names: list[str], systems: Mapping[str, Prepared]) -> list[Prepared]:
    """Those of these systems that can run here."""
    found = []
    for name in names:
        try:
            systems[name].prepare()
            found.append(systems[name])
        except NotHere as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
    return found


def failures(options: argparse.Namespace) -> None:
    """Fig. 9: latency over time through kills of a worker, with the gap of each."""
    from figures.failing import failing

    before = noise()
    row = failing(options.kills, options.rate, options.standby, options.seed)
    keep(options.out, {"kind": "failures", "round": 0, "noise": before} | row)
    print(
        json.dumps({key: value for key, value in row.items() if key not in ("points", "settings")}),
        flush=True,
    )


def workers(options: argparse.Namespace) -> None:
    """EDBT Fig. 11 and 12: median and tail over 1, 2, 4, 8 workers, measured as far as cores carry, and
    modelled."""
    from figures.over_workers import rows

    (system,) = ready(["flamestream"], SYSTEMS)
    interval = int(options.intervals.split(",")[-1])
    for row in rows(
        system,
        Cell(interval_ms=interval, documents=options.documents, warm_up=options.warm_up, rate=options.rate),
        options.rounds,
        options.deadline,
        options.seed,
    ):
        keep(options.out, row)
        shown = {
            "workers": row["cell"]["workers"],
            "modelled": row["modelled"],
            **row["result"],
            "load": row["noise"]["load"],
        }
        print("  ".join(f"{key}={value}" for key, value in shown.items()), flush=True)


def listed() -> None:
    """Markdown, for docs/authors/benchmarks.md and for readers."""
    for system in SYSTEMS.values():
        print(
            f"**{system.name}** ({', '.join(system.guarantees)}): "
            f"{', '.join(f'{k} {v}' for k, v in system.versions().items())}\n"
        )
        for setting in system.settings(Cell()):
            print(f"- `{setting.name}` = `{setting.value}`: {setting.reason}")
        print()


def _line(system: System, cell: Cell, row: dict[str, Any]) -> str:
    head = (
        f"{system.name}, {cell.guarantee}{'' if cell.guarantee == NONE else f', every {cell.interval_ms} ms'}"
    )
    return head + "  " + "  ".join(f"{key}={value}" for key, value in row.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["all", "latency", "throughput", "failures", "list", *FIGURES],
    )
    parser.add_argument("--systems", default="", help="all, or those of the figure, if not said")
    parser.add_argument("--guarantees", default="", help="all that a system has, if not said")
    parser.add_argument(
        "--intervals",
        default="",
        help="between checkpoints, in ms; 50,500,1000, or the figure's, if not said",
    )
    parser.add_argument(
        "--cells",
        default="",
        help="only those whose 'system, guarantee, interval' has this regular expression in it",
    )
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument(
        "--warm-up", type=int, default=500, help="documents at the beginning that do not count"
    )
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second, for latency")
    parser.add_argument(
        "--seconds",
        type=float,
        default=36.0,
        help="that a throughput run is to last, the first quarter to warm up",
    )
    parser.add_argument(
        "--probe", type=int, default=3000, help="documents of the run that tells how many that takes"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--standby", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds of a run")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON; an older file is set aside")
    parser.add_argument("--add", action="store_true", help="add to an older file")
    return parser.parse_args()


def main() -> int:
    options = _options()
    if options.what == "list":
        listed()
        return 0
    if not options.add:
        set_aside(options.out)
    narrow(options)
    run(options)
    figure = ["--figure", options.what] if options.what in FIGURES else []
    report = [
        sys.executable,
        str(BENCHMARKS),
        "report",
        "--results",
        str(options.out),
        "--out",
        str(options.out.parent / "report"),
    ]
    return subprocess.run([*report, *figure], check=False).returncode


def narrow(options: argparse.Namespace) -> None:
    """To what the wanted figure shows, where the command line does not say otherwise."""
    both = ",".join(BESIDE) if options.what in PAPER_INTERVALS else ",".join(SYSTEMS)
    interval = {
        **{name: str(each) for name, each in PAPER_INTERVALS.items()},
        "fig13": "1000",
        "throughput": "1000",
        "workers": "1000",
    }
    options.systems = options.systems or both
    options.intervals = options.intervals or interval.get(options.what, "50,500,1000")


def run(options: argparse.Namespace) -> None:
    """Every kind of measurement that is wanted."""
    if options.what in ("all", "latency", "fig13", *PAPER_INTERVALS):
        measure("latency", options)
    if options.what in ("all", "throughput"):
        full = {"intervals": options.intervals.split(",")[-1], "rate": 0.0}
        systems = ",".join(name for name in options.systems.split(",") if name not in SAME_AT_FULL_RATE)
        measure("throughput", argparse.Namespace(**vars(options) | full | {"systems": systems}))
    if options.what in ("all", "failures", "fig9"):
        failures(options)
    if options.what in ("all", "workers"):
        workers(options)


if __name__ == "__main__":
    sys.exit(main())
