"""Sessions: windows that last as long as a key's items come one soon after the other.

    items of a key      x  x    x                  x   x
    gap="30m"           |---------------|          |--------|    from the first item to `gap` behind the last
                                     y             y comes late, and may join two that are open to one

An item belongs to `[time, time + gap)`; open sessions that it meets become one with it. It comes too late if
that has passed and it meets none, so what is closed never changes.

Does not: remember closed ones. An item that is late, but whose own window is open, begins a session even
where it would have met a closed one (as in Flink and Beam).
"""

from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any

from flamestream.model.collections import Vector
from flamestream.model.duration import shown
from flamestream.model.failure import called
from flamestream.model.payload import payload_type
from flamestream.model.windows.panes import Closing, Windowed
from flamestream.model.windows.program import Answer, Late, Now, OfKeys

_NUMBER = itemgetter(0)


@payload_type
@dataclass(frozen=True, slots=True)
class Open:
    """A session that is open, in microseconds."""

    end: int
    start: int
    folded: Any
    """The accumulator; or, without `merge`, an fs.Vector of (number, item) pairs: numbers are the order in
    which a key's items came."""


@dataclass(frozen=True, slots=True)
class Sessions(Closing, OfKeys):
    """The program of sessions. A state is a tuple of those of the key that are open, in the order of time;
    they never meet."""

    gap: int

    @property
    def keeps(self) -> str:
        what = "the items" if self.aggregate.merge is None else "a value"
        return f"{what} a key and open session, until the mark is {shown(self.gap)} past its last item"

    @property
    def form(self) -> str:
        return "sessions of items" if self.aggregate.merge is None else "sessions"

    def on_item(self, key: Any, state: tuple[Open, ...] | None, item: Any, now: Now) -> Answer:
        opened, end = state or (), now.time + self.gap
        first = 0
        while first < len(opened) and opened[first].end <= now.time:
            first += 1
        behind = first
        while behind < len(opened) and opened[behind].start < end:
            behind += 1
        met = opened[first:behind]
        if not met and now.mark is not None and end <= now.mark:
            return state, (Late(item),)
        session = self._with(met, opened, item, now.time)
        after = (*opened[:first], session, *opened[behind:])
        return after, (self._result(key, session),) if self.each else ()

    def on_time(self, key: Any, state: tuple[Open, ...], time: int) -> Answer:
        first, *others = state
        assert first.end == time, "the first session is the one that is due"
        return tuple(others) or None, () if self.each else (self._result(key, first),)

    def due(self, key: Any, state: tuple[Open, ...]) -> int | None:
        return state[0].end

    def _result(self, key: Any, session: Open) -> Windowed[Any, Any]:
        return self.windowed(key, session.start, session.end, self._folded(session))

    def _with(self, met: tuple[Open, ...], opened: tuple[Open, ...], item: Any, time: int) -> Open:
        """The session that an item makes of those that it meets."""
        start, end, merge = time, time + self.gap, self.aggregate.merge
        if met:
            start, end = min(start, met[0].start), max(end, met[-1].end)
        if merge is None:
            # Over all that are open: their items may come to stand in one session.
            number = max((each.folded[-1][0] for each in opened), default=-1) + 1
            return Open(end, start, _in_order([each.folded for each in met]).append((number, item)))
        if not met:
            return Open(end, start, self.aggregate.begun(item))
        folded = met[0].folded
        for other in met[1:]:
            folded = called(merge, folded, other.folded)
        return Open(end, start, self.aggregate.folded(folded, item))

    def _folded(self, session: Open) -> Any:
        """The accumulator of a session."""
        if self.aggregate.merge is not None:
            return session.folded
        return reduce(
            self.aggregate.folded, (item for _, item in session.folded), called(self.aggregate.initial)
        )


def _in_order(parts: list[Vector[Any]]) -> Vector[Any]:
    """Numbered items of several sessions by their number."""
    if len(parts) == 1:
        return parts[0]
    return Vector(sorted((pair for part in parts for pair in part), key=_NUMBER))
