"""Join: pairs of items of two streams whose times are near each other.

    left    l1        l2              within=("-5s", "10s"): right's time less left's is from -5 s to 10 s,
    right        r1           r2      both included; pairs: (l1, r1), (l2, r1), (l2, r2)

An item waits for partners until the mark says that none can come any more. One that has met none leaves with
None then, if `how` keeps its side. An item older than the mark is late, for partners of it may be gone.

Keeps: a pair is a result once, when the second of it comes; an item meets partners in the order of their
times.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from flamestream.model import fields
from flamestream.model.duration import Duration, micros, shown
from flamestream.model.errors import GraphError
from flamestream.model.event_time import ARRIVAL, EventTime, TimeOf
from flamestream.model.payload import payload_type
from flamestream.model.state_names import Named
from flamestream.model.stream import On, Stream
from flamestream.model.vertex import Function, call_site, name_of
from flamestream.model.windows.program import Answer, Late, Now, OfKeys
from flamestream.model.windows.stream import Results, results_of, time_of

Row = tuple[int, Any, bool]
"""An item that waits: (its time, itself, whether it has met a partner)."""
LEFT, RIGHT = 0, 1
HOW: Final = {"inner": (), "left": (LEFT,), "full": (LEFT, RIGHT)}
"""Sides of which every item leaves."""
FOR_EVER: Final = 1 << 61
"""Less than to the end of time. Events are further apart only if one is more than 36,000 years from 1970."""


@payload_type
@dataclass(frozen=True, slots=True)
class Waiting:
    """The items of a key that wait, ascending by time, then as they came."""

    left: tuple[Row, ...]
    right: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Join(OfKeys):
    """The program of a join. Right's time less left's is from `low` to `high`."""

    low: int
    high: int
    kept: tuple[int, ...]
    """Sides whose items leave with None."""
    written: str
    bound: bool = True
    """False: nothing is ever too late, for nothing goes."""

    @property
    def keeps(self) -> str:
        if not self.bound:
            return "every item of both sides, for ever"
        left, right = (shown(max(0, reach)) for reach in (self.high, -self.low))
        return f"the left's items until the mark is {left} past them, the right's {right}"

    @property
    def form(self) -> str:
        # When a state is due follows from it, and is noted in the shard; whether an item has met one is not kept
        # up where it is not asked for.
        how = next(how for how, kept in HOW.items() if kept == self.kept)
        return f"{how} join within {f'{shown(self.low)} to {shown(self.high)}' if self.bound else 'any time'}"

    def on_item(self, key: Any, state: Waiting | None, item: Any, now: Now) -> Answer:
        if self.bound and now.late:
            return state, (Late(item),)
        mine, others = ((), ()) if state is None else (state.left, state.right)
        low, high = self.low, self.high
        if now.side == RIGHT:
            mine, others, low, high = others, mine, -high, -low
        first, last = since(others, now.time + low), since(others, now.time + high + 1)
        met = others[first:last]
        # Whether an item has met one matters only where it would leave with None; else nothing is made anew.
        if met and 1 - now.side in self.kept and not all(row[2] for row in met):
            others = (*others[:first], *((time, other, True) for time, other, _ in met), *others[last:])
        place = since(mine, now.time + 1)
        mine = (*mine[:place], (now.time, item, bool(met)), *mine[place:])
        if now.side == LEFT:
            return Waiting(mine, others), [(item, row[1]) for row in met]
        return Waiting(others, mine), [(row[1], item) for row in met]

    def on_time(self, key: Any, state: Waiting, time: int) -> Answer:
        gone, left = _parted(state.left, time - self.high)
        results: list[Any] = [(item, None) for _, item, met in gone if not met] if LEFT in self.kept else []
        gone, right = _parted(state.right, time + self.low)
        if RIGHT in self.kept:
            results += [(None, item) for _, item, met in gone if not met]
        return Waiting(left, right) if left or right else None, results

    def due(self, key: Any, state: Waiting) -> int | None:
        # One behind the last time that an item could meet, for `within` has both its ends.
        if not state.right:
            return state.left[0][0] + self.high + 1
        if not state.left:
            return state.right[0][0] - self.low + 1
        return min(state.left[0][0] + self.high, state.right[0][0] - self.low) + 1


@dataclass(frozen=True, slots=True)
class TimeOfPair(TimeOf):
    """(left, right) -> the later of both times; of an item that met none, the last moment at which it could
    have. What a map makes of a pair says its time as left's items do."""

    join: Join
    times: tuple[TimeOf, TimeOf]
    of_pairs: ClassVar[bool] = True

    def __call__(self, item: Any) -> EventTime:
        if not is_pair(item):
            return self.times[LEFT](item)
        left, right = item
        if right is None:
            return EventTime(self.times[LEFT](left) + max(0, self.join.high))
        if left is None:
            return EventTime(self.times[RIGHT](right) + max(0, -self.join.low))
        return max(self.times[LEFT](left), self.times[RIGHT](right))


def is_pair(item: Any) -> bool:
    """Whether an item may be what a join gave; if not, a map has made something of it."""
    return type(item) is tuple and len(item) == 2


def joined(
    left: Stream[Any],
    right: Stream[Any],
    on: On[Any, Any],
    within: tuple[Duration, Duration] | None,
    how: str,
    unbounded: bool,
    named: Named,
) -> Results[Any]:
    """The pairs of two streams. Raises GraphError."""
    where = f"join in graph {left.graph.name!r}"
    written = f"join(on={on_written(on)})"
    if how not in HOW:
        raise GraphError(f"{where}: how={how!r} is none of {', '.join(HOW)}")
    if (within is None) != unbounded:
        raise GraphError(
            f'{where} needs a bound, or it keeps every item for ever: say within=("-5s", "5s") (right\'s '
            "time less left's), "
            "or unbounded=True if that is meant; not both"
        )
    low, high = (-FOR_EVER, FOR_EVER) if within is None else bounds_of(within, where)
    keys = keys_of(on, left, right)
    times = same_times(left, right, written)
    join = Join(low, high, HOW[how], written, bound=not unbounded)
    of_pair = ARRIVAL if ARRIVAL in times else TimeOfPair(times[LEFT].at, times[LEFT].unit, join, times)
    return results_of(
        join, (left, keys[LEFT]), (right, keys[RIGHT]), event_time=of_pair, items=tuple, named=named
    )


def bounds_of(within: tuple[Duration, Duration], where: str) -> tuple[int, int]:
    """Both ends in microseconds. Raises GraphError."""
    if not isinstance(within, tuple) or len(within) != 2:
        raise GraphError(f'{where}: within={within!r}: two durations are wanted, as in ("-5s", "5s")')
    low, high = (micros(each, f"{where}: within", least=-FOR_EVER) for each in within)
    if low > high:
        raise GraphError(f"{where}: within={within!r} holds no time: the first is the earlier one")
    return low, high


def same_times(left: Stream[Any], right: Stream[Any], written: str) -> tuple[TimeOf, TimeOf]:
    """The event times of both. Raises GraphError if there is none, or if they are counted in different
    ways."""
    check_graph(left, right, written)
    times = time_of(left, written), time_of(right, written)
    if times[LEFT].unit != times[RIGHT].unit:
        raise GraphError(
            f"{written} in graph {left.graph.name!r}: its streams say their times in different units, so no "
            "common one is known"
        )
    return times


def check_graph(left: Stream[Any], right: Stream[Any], written: str) -> None:
    """Raises GraphError if the streams are not of one graph."""
    if left.graph is not right.graph:
        raise GraphError(
            f"{written}: its streams are of two graphs, {left.graph.name!r} and {right.graph.name!r}: "
            "build both in one"
        )


def keys_of(on: On[Any, Any], left: Stream[Any], right: Stream[Any]) -> tuple[Function, Function]:
    """The key of each side. Raises GraphError if items of a side have no such field."""
    of_left, of_right = on if isinstance(on, tuple) else (on, on)
    where = call_site()
    return fields.key_of(left.items, of_left, where), fields.key_of(right.items, of_right, where)


def on_written(on: On[Any, Any]) -> str:
    """The keys as they stand in a graph, for messages."""
    return " and ".join(
        dict.fromkeys(
            repr(each) if isinstance(each, str) else name_of(each)
            for each in (on if isinstance(on, tuple) else (on,))
        )
    )


def since(rows: tuple[Any, ...], time: int) -> int:
    """The place where rows of `time` or later begin."""
    # (time,) is less than any row of that time, so the items behind it are never compared
    return bisect_left(rows, (time,))


def _parted(rows: tuple[Row, ...], before: int) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows older than `before`, and the others."""
    place = since(rows, before)
    return rows[:place], rows[place:]
