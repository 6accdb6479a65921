"""The floors: a loop in one thread of one Python process, over objects (peers/plain.py) and over columns
(peers/columns.py)."""

import importlib.util
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from systems.base import NONE, Cell, Command, NotHere, Places, Setting, System

COLLECTOR = Setting("gc", "off", "no cycles are made, and looking for them holds a loop up")
"""Of peers in Python."""
PEERS = Path(__file__).resolve().parent.parent / "peers"


class Plain(System):
    """What the same functions cost with no engine around them."""

    name = "plain loop"
    form = "lines"
    guarantees: Sequence[str] = (NONE,)
    pace: float | None = None
    settles = 0.0

    def prepare(self) -> None:
        """Nothing: the standard library only."""

    def versions(self) -> dict[str, str]:
        return {"python": platform.python_version()}

    def settings(self, cell: Cell) -> list[Setting]:
        return [
            Setting(
                "gc",
                "off",
                "the loop makes no cycles, "
                "and the collector walking the postings makes pauses of up to a second",
            )
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        return Command([sys.executable, str(PEERS / "plain.py"), places.source, places.sink])


class Columns(System):
    """What the same job costs over numpy's and pyarrow's columns, with no engine around it."""

    name = "numpy loop"
    form = "lines"
    guarantees = (NONE,)
    pace = None
    settles = 0.0

    def prepare(self) -> None:
        """Nothing to fetch: the project's own environment has both."""
        if missing := [name for name in ("numpy", "pyarrow") if importlib.util.find_spec(name) is None]:
            raise NotHere(f"it needs {' and '.join(missing)} beside this Python")

    def versions(self) -> dict[str, str]:
        return {"python": platform.python_version(), "numpy": version("numpy"), "pyarrow": version("pyarrow")}

    def settings(self, cell: Cell) -> list[Setting]:
        return [
            Setting(
                "batch",
                "what the socket holds",
                "one document at a low rate, dozens at full rate: neither waits for the other",
            ),
            Setting("gc", "off", "as in the plain loop"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        return Command([sys.executable, str(PEERS / "columns.py"), places.source, places.sink])
