"""Rows of a figure: lines of JSON that are added to a file as they are measured, and a table of all that are there.

    parser = parser_of(__doc__, OUT)
    options = parser.parse_args()
    tell(options, (measure(kind) for kind in options.only.split(",")), table)

Does not: say where and when a row was measured (drive.py).
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.results import Row, load


def parser_of(about: str | None, out: Path) -> argparse.ArgumentParser:
    """The options that `tell` knows; a figure adds its own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, help="lines of JSON, which are added")
    parser.add_argument("--again", action="store_true", help="set an older file aside")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    return parser


def tell(
    options: argparse.Namespace,
    rows: Iterable[Row],
    table: Callable[[list[Row]], str],
    shown: Callable[[Row], object] = lambda row: row,
) -> None:
    """Measure the rows as they are taken from `rows`, unless only the table is wanted; then print it."""
    if options.again:
        set_aside(options.out)
    for row in () if options.table else rows:
        keep(options.out, row)
        print(shown(row), flush=True)
    print(table(load(options.out) if options.out.exists() else []))


def keep(file: Path, row: dict[str, Any]) -> None:
    """At once: a run that dies keeps what it has."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(json.dumps(row) + "\n")


def set_aside(file: Path) -> None:
    """Under a name with its time; figures of several days, or of several versions, do not mix."""
    if file.exists():
        file.rename(
            file.with_stem(f"{file.stem}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(file.stat().st_mtime))}")
        )
