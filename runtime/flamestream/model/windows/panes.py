"""Panes: windows that all keys have at the same times: tumbling and sliding ones, and those of a calendar.

Does not: know windows that depend on what comes (sessions.py).
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flamestream.model.event_time import TimeOf
from flamestream.model.payload import payload_type
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.program import Answer, Now
from flamestream.model.windows.shapes import Calendar, Grid

K = TypeVar("K")
V = TypeVar("V")
Place = tuple[int, Any]
"""The end of a window in microseconds, and its key."""


@payload_type
@dataclass(frozen=True, slots=True)
class Windowed(Generic[K, V]):
    """The result of a window: `start` belongs to it, `end` does not. Both are as the items' times are:
    datetimes in UTC, or ints."""

    key: K
    start: Any
    end: Any
    value: V


@dataclass(frozen=True, slots=True)
class Closing:
    """Base of the programs of windows: how a window's result is made."""

    aggregate: Aggregate
    each: bool
    """A result for each item too, not only when the window is final."""
    written: str
    time: TimeOf
    """The items', which a window's bounds are shown as."""

    def windowed(self, key: Any, start: int, end: int, accumulator: Any) -> Windowed[Any, Any]:
        """Result of a window as it is now."""
        return Windowed(
            key, self.time.shown(start), self.time.shown_end(end), self.aggregate.result(accumulator)
        )


@dataclass(frozen=True, slots=True)
class Panes(Closing):
    """The program of windows of a shape. Each window of a key has a place of its own, (end, key), so an item
    costs the same however many are open; its state is a tuple of its accumulator, which may be None."""

    shape: Grid | Calendar

    @property
    def keeps(self) -> str:
        return "a value a key and window, until the mark is at the window's end"

    @property
    def form(self) -> str:
        # A place is a window's end: of another shape's, it would begin elsewhere than what is in it.
        return f"windows of {self.shape.form}"

    def places(self, key: Any, now: Now) -> list[Place]:
        mark = now.mark
        return [(end, key) for _, end in self.shape.windows(now.time) if mark is None or end > mark]

    def on_item(self, place: Place, state: tuple[Any] | None, item: Any, now: Now) -> Answer:
        after = self.folded(state, item)
        return after, (self.result(place, after[0]),) if self.each else ()

    def on_time(self, place: Place, state: tuple[Any], time: int) -> Answer:
        return None, () if self.each else (self.result(place, state[0]),)

    def due(self, place: Place, state: tuple[Any]) -> int | None:
        return place[0]

    def folded(self, state: tuple[Any] | None, item: Any) -> tuple[Any]:
        """A window's state with one more item."""
        return (self.aggregate.begun(item) if state is None else self.aggregate.folded(state[0], item),)

    def result(self, place: Place, accumulator: Any) -> Windowed[Any, Any]:
        """Result of the window in a place."""
        end, key = place
        return self.windowed(key, self.shape.start(end), end, accumulator)
