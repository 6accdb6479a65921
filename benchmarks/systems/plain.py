"""The floor: a loop in one thread of one Python process (peers/plain.py)."""

import platform
import sys
from pathlib import Path

from systems.base import NONE, Cell, Command, Places, Setting

PEERS = Path(__file__).resolve().parent.parent / "peers"


class Plain:
    """What the same functions cost with no engine around them."""

    name = "plain loop"
    form = "lines"
    guarantees = (NONE,)
    pace = None
    settles = 0.0

    def prepare(self) -> None:
        """Nothing: the standard library only."""

    def versions(self) -> dict[str, str]:
        return {"python": platform.python_version()}

    def settings(self, cell: Cell) -> list[Setting]:
        return [Setting("gc", "off", "the loop makes no cycles, and the collector walking the postings makes pauses of up to a second")]

    def command(self, cell: Cell, places: Places) -> Command:
        return Command([sys.executable, str(PEERS / "plain.py"), places.source, places.sink])
