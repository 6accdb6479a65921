"""Dedup: the first item of a key, without those whose times are near it.

    within="1h"     10:00 passes    10:40 goes    11:00 goes    11:01 passes     (then none until 12:01)

Keeps: of two items that pass, the times are more than `within` apart. A time is forgotten when no item in
time can be near it, so an item older than the mark is late: what it repeats may be forgotten.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from flamestream.model.duration import Duration, micros, shown
from flamestream.model.state_names import Named
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function
from flamestream.model.windows.join import on_written
from flamestream.model.windows.program import Answer, Late, Now, OfKeys
from flamestream.model.windows.stream import Results, results_of, time_of


@dataclass(frozen=True, slots=True)
class Dedup(OfKeys):
    """The program. A state is the times of the items that passed, ascending."""

    within: int
    written: str

    @property
    def keeps(self) -> str:
        return f"the times of what passed, until the mark is {shown(self.within)} past them"

    @property
    def form(self) -> str:
        # When a state is due follows from it, and is noted in the shard (process.py).
        return f"times within {shown(self.within)}"

    def on_item(self, key: Any, state: tuple[int, ...] | None, item: Any, now: Now) -> Answer:
        if now.late:
            return state, (Late(item),)
        passed = state or ()
        place = bisect_left(passed, now.time - self.within)
        if place < len(passed) and passed[place] <= now.time + self.within:
            return state, ()
        return (*passed[:place], now.time, *passed[place:]), (item,)

    def on_time(self, key: Any, state: tuple[int, ...], time: int) -> Answer:
        return state[1:] or None, ()

    def due(self, key: Any, state: tuple[int, ...]) -> int | None:
        # one behind: what comes at exactly `within` still repeats it
        return state[0] + self.within + 1


def deduplicated(stream: Stream[Any], key: Function, within: Duration, named: Named) -> Results[Any]:
    """The stream without what repeats. Raises GraphError."""
    written = f"dedup({on_written(key)})"
    program = Dedup(micros(within, f"dedup in graph {stream.graph.name!r}: within"), written)
    return results_of(
        program, (stream, key), event_time=time_of(stream, written), items=stream.items, named=named
    )
