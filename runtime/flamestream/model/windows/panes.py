"""Panes: windows of a fixed length, which all keys have at the same times: tumbling and sliding ones.

Does not: know windows that depend on what comes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flamestream.model.payload import payload_type
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.program import Answer, Late, Now


@payload_type
@dataclass(frozen=True, slots=True)
class Pane:
    """A window of a key that is open, in microseconds."""

    end: int
    start: int
    accumulator: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Windowed:
    """The result of a window: `start` belongs to it, `end` does not."""

    key: Any
    start: Any
    end: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Panes:
    """The program of windows of `size` microseconds that begin every `every`, at multiples of it counted from `offset`."""

    size: int
    every: int
    offset: int
    aggregate: Aggregate
    each: bool
    """A result for each item too, not only when the window is final."""
    written: str
    shown: Callable[[int], Any]
    """microseconds -> a time as items say it."""

    def on_item(self, key: Any, state: tuple[Pane, ...] | None, item: Any, now: Now) -> Answer:
        panes, results, in_time = list(state or ()), list[Any](), False
        for start in self._starts(now.time):
            end = start + self.size
            if now.mark is not None and end <= now.mark:
                continue
            in_time = True
            place = _place(panes, end)
            found = place < len(panes) and panes[place].end == end
            before = panes[place].accumulator if found else self.aggregate.initial()
            pane = Pane(end, start, self.aggregate.combine(before, item))
            panes[place : place + found] = [pane]
            if self.each:
                results.append(self._result(key, pane))
        return tuple(panes) or None, results if in_time else (Late(item),)

    def on_time(self, key: Any, state: tuple[Pane, ...], time: int) -> Answer:
        pane, *others = state
        assert pane.end == time, "the first pane is the one that is due"
        return tuple(others) or None, () if self.each else (self._result(key, pane),)

    def due(self, state: tuple[Pane, ...]) -> int | None:
        return state[0].end

    def _starts(self, time: int) -> Iterator[int]:
        """Of the windows that `time` belongs to, in order."""
        last = time - (time - self.offset) % self.every
        first = last - (last - time + self.size - 1) // self.every * self.every
        return iter(range(first, last + 1, self.every))

    def _result(self, key: Any, pane: Pane) -> Windowed:
        return Windowed(key, self.shown(pane.start), self.shown(pane.end), self.aggregate.result(pane.accumulator))


def _place(panes: list[Pane], end: int) -> int:
    """Where the pane is that ends at `end`, or belongs. Most items are of the last one."""
    place = len(panes)
    while place and panes[place - 1].end >= end:
        place -= 1
    return place
