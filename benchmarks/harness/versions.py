"""Versions of the index's code that tell themselves apart: each adds its number to every result, far above what a
result can be, and what it keeps is that of the others.

>>> due = Ticks("40:1,90:2")
>>> due.version_at(39), due.version_at(40), due.version_at(100)
(0, 1, 2)

Does not: know an application by name (jobs/workload.py is one that fits).
"""

from bisect import bisect_right
from typing import Any, Final

import msgspec

STEP: Final = 1_000_000
"""More than a word's documents."""
_CODE: Final = """

_made = Change


def Change(word, document, positions, documents):
    return _made(word, document, positions, documents + {more})
"""


def code_of(version: int) -> str:
    """Lines behind the application's, for it to be this version."""
    return _CODE.format(more=version * STEP)


def unmarked(change: Any) -> tuple[int, Any]:
    """The version that made a change, and the change as every version would have made it."""
    version, documents = divmod(change.documents, STEP)
    return version, msgspec.structs.replace(change, documents=documents) if version else change


class Ticks:
    """The version that has to make what comes of a record, by that one's time."""

    def __init__(self, written: str = "") -> None:
        """As `CUT:VERSION,...`, by their cuts. Before the first it is version 0."""
        pairs = [each.split(":") for each in written.split(",") if each]
        self._cuts: Final = [int(cut) for cut, _ in pairs]
        self._versions: Final = [0, *(int(version) for _, version in pairs)]

    def version_at(self, time: int) -> int:
        """The one whose cut is the newest at or below `time`."""
        return self._versions[bisect_right(self._cuts, time)]
