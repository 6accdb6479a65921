"""Panes: windows that all keys have at the same times: tumbling and sliding ones, and those of a calendar.

Does not: know windows that depend on what comes (sessions.py).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from flamestream.model.payload import payload_type
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.program import Answer, Late, Now
from flamestream.model.windows.shapes import Calendar, Grid

_END = attrgetter("end")

K = TypeVar("K")
V = TypeVar("V")


@payload_type
@dataclass(frozen=True, slots=True)
class Pane:
    """A window of a key that is open, in microseconds."""

    end: int
    start: int
    accumulator: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Windowed(Generic[K, V]):
    """The result of a window: `start` belongs to it, `end` does not. Both are as the items' times are: datetimes in UTC, or ints."""

    key: K
    start: Any
    end: Any
    value: V


@dataclass(frozen=True, slots=True)
class Closing:
    """What programs of windows have in common. A state is a tuple of the windows that are open, in the order of time."""

    aggregate: Aggregate
    each: bool
    """A result for each item too, not only when the window is final."""
    written: str
    shown: Callable[[int], Any]
    """microseconds -> a time as items say it."""

    def on_time(self, key: Any, state: tuple[Any, ...], time: int) -> Answer:
        window, *others = state
        assert window.end == time, "the first window is the one that is due"
        return tuple(others) or None, () if self.each else (self.result(key, window),)

    def due(self, state: tuple[Any, ...]) -> int | None:
        end: int = state[0].end
        return end

    def result(self, key: Any, window: Any) -> Windowed[Any, Any]:
        """What a window gives, as it is now."""
        return Windowed(key, self.shown(window.start), self.shown(window.end), self.aggregate.result(self.folded(window)))

    def folded(self, window: Any) -> Any:
        """The accumulator of a window."""
        return window.accumulator


@dataclass(frozen=True, slots=True)
class Panes(Closing):
    """The program of windows of a shape."""

    shape: Grid | Calendar

    def on_item(self, key: Any, state: tuple[Pane, ...] | None, item: Any, now: Now) -> Answer:
        panes, results, in_time = list(state or ()), list[Any](), False
        for start, end in self.shape.windows(now.time):
            if now.mark is not None and end <= now.mark:
                continue
            in_time = True
            place = _place(panes, end)
            found = place < len(panes) and panes[place].end == end
            folded = self.aggregate.folded(panes[place].accumulator, item) if found else self.aggregate.begun(item)
            pane = Pane(end, start, folded)
            panes[place : place + found] = [pane]
            if self.each:
                results.append(self.result(key, pane))
        return tuple(panes) or None, results if in_time else (Late(item),)


def _place(panes: list[Pane], end: int) -> int:
    """Where the pane is that ends at `end`, or belongs. Most items are of the last one."""
    if not panes or panes[-1].end < end:
        return len(panes)
    return len(panes) - 1 if panes[-1].end == end else bisect_left(panes, end, key=_END)
