"""Latest: each item of a stream with the version of another that held at its time.

    rates    1.10         1.12          1.15
    orders         o1             o2

    (o1, 1.10), (o2, 1.12): final when the mark passes the order's time

A version holds from its time until the next one's. An order waits until the mark has passed it, for a version
of its time may still come.

Keeps: the newest version that is not younger than the mark, and all younger ones: no order in time can ask
for another. Of versions with one time the last that came holds. Does not: take what is older than the mark:
it is late.
"""

from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final

from flamestream.model.errors import GraphError
from flamestream.model.event_time import ARRIVAL, EventTime, TimeOf
from flamestream.model.payload import payload_type
from flamestream.model.state_names import Named
from flamestream.model.stream import On, Stream
from flamestream.model.windows.join import LEFT, RIGHT, is_pair, keys_of, on_written, same_times
from flamestream.model.windows.program import Answer, Late, Now, OfKeys
from flamestream.model.windows.stream import Results, results_of

Row = tuple[int, Any]
"""(time, item)."""
HOW: Final = ("inner", "left")
_TIME = itemgetter(0)


@payload_type
@dataclass(frozen=True, slots=True)
class Versions:
    """State of one key: the items that wait, and the versions, both ascending by time."""

    waiting: tuple[Row, ...]
    versions: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Latest(OfKeys):
    """The program of a join with the latest version."""

    outer: bool
    """An item without a version leaves with None."""
    written: str

    @property
    def keeps(self) -> str:
        return (
            "the left's items until the mark is past them, and of each key the right's item at the mark and "
            "all younger ones, for ever"
        )

    def on_item(self, key: Any, state: Versions | None, item: Any, now: Now) -> Answer:
        if now.late:
            return state, (Late(item),)
        waiting, versions = ((), ()) if state is None else (state.waiting, state.versions)
        if now.side == LEFT:
            return Versions(_with(waiting, now.time, item), versions), ()
        place = bisect_right(versions, now.time, key=_TIME)
        before = place - 1 if place and versions[place - 1][0] == now.time else place
        versions = (*versions[:before], (now.time, item), *versions[place:])
        return Versions(waiting, versions if now.mark is None else _asked(versions, now.mark)), ()

    def on_time(self, key: Any, state: Versions, time: int) -> Answer:
        place = bisect_right(state.waiting, time - 1, key=_TIME)
        found = [(item, _held(state.versions, at)) for at, item in state.waiting[:place]]
        results = [(item, version) for item, version in found if version is not None or self.outer]
        waiting = state.waiting[place:]
        versions = _asked(state.versions, time)
        return Versions(waiting, versions) if waiting or versions else None, results

    def due(self, key: Any, state: Versions) -> int | None:
        # One behind: at a mark of its own time a version of that time may still come.
        return state.waiting[0][0] + 1 if state.waiting else None


@dataclass(frozen=True, slots=True)
class TimeOfLeft(TimeOf):
    """(left, right) -> left's event time. What a map makes of a pair says it as left does."""

    left: TimeOf
    of_pairs: ClassVar[bool] = True

    def __call__(self, item: Any) -> EventTime:
        return self.left(item[LEFT] if is_pair(item) else item)


def joined_latest(
    left: Stream[Any], right: Stream[Any], on: On[Any, Any], how: str, named: Named
) -> Results[Any]:  # fmt: skip
    """Each item of `left` with the version of `right` at its time. Raises GraphError."""
    if how not in HOW:
        raise GraphError(f"join_latest in graph {left.graph.name!r}: how={how!r} is none of {', '.join(HOW)}")
    written, keys = f"join_latest(on={on_written(on)})", keys_of(on, left, right)
    time, _ = same_times(left, right, written)
    program = Latest(how == "left", written)
    of_pair = ARRIVAL if time is ARRIVAL else TimeOfLeft(time.at, time.unit, time)
    return results_of(
        program, (left, keys[LEFT]), (right, keys[RIGHT]), event_time=of_pair, items=tuple, named=named
    )


def _with(rows: tuple[Row, ...], time: int, item: Any) -> tuple[Row, ...]:
    place = bisect_right(rows, time, key=_TIME)
    return (*rows[:place], (time, item), *rows[place:])


def _held(versions: tuple[Row, ...], time: int) -> Any:
    place = bisect_right(versions, time, key=_TIME)
    return versions[place - 1][1] if place else None


def _asked(versions: tuple[Row, ...], mark: int) -> tuple[Row, ...]:
    """The versions that an item which is not older than the mark can ask for: no other waits."""
    return versions[max(0, bisect_right(versions, mark, key=_TIME) - 1) :]
