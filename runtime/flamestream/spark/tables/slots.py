"""Which slots a query wants: the option `slots`, or filters on the column `slot` that Spark pushes down.

Pushing down is asked for by the option `pushDown` and is for a DataFrame that one query uses. Spark 4.3 keeps
what a source said to the first pushed filter for every other query over the same DataFrame:
`d.filter(a).union(d.filter(b))` reads the slots of one of them twice, and an unfiltered query after a
filtered one only its slots (decision 032). The option `slots` has no such memory.

>>> sorted(slots_in("0-2,7"))
[0, 1, 2, 7]

Keeps: a filter that is taken is applied exactly; all others are Spark's. Does not: look at other columns.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from flamestream.model.errors import UserError

_TESTS: Final[dict[type, Callable[[Any], Callable[[int], bool]]]] = {
    EqualTo: lambda f: lambda slot: slot == f.value,
    EqualNullSafe: lambda f: lambda slot: slot == f.value,
    In: lambda f: lambda slot: slot in f.value,
    GreaterThan: lambda f: lambda slot: slot > f.value,
    GreaterThanOrEqual: lambda f: lambda slot: slot >= f.value,
    LessThan: lambda f: lambda slot: slot < f.value,
    LessThanOrEqual: lambda f: lambda slot: slot <= f.value,
}


def slots_in(text: str) -> frozenset[int]:
    """The slots that the option `slots` names: numbers and ranges. Raises UserError."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise UserError(f"option 'slots': {part!r} is no slot and no range; write it like 0-63,200")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


class WantedSlots:
    """The slots that one query asks for. Picklable."""

    def __init__(self, count: int, slots: frozenset[int] | None) -> None:
        self.slots = frozenset(range(count)) if slots is None else slots
        self.all = slots is None

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Keep the slots that pass; give back what Spark has to filter itself."""
        for each in filters:
            test = _TESTS.get(type(each))
            if test is None or getattr(each, "attribute", None) != ("slot",):
                yield each
                continue
            passes = test(each)
            self.slots = frozenset(slot for slot in self.slots if passes(slot))
            self.all = False

    def __contains__(self, slot: int) -> bool:
        return self.all or slot in self.slots
