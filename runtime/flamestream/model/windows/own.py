"""Own programs: state and times in users' own functions, which stay pure.

They see times as their items say them, datetimes or ints; below that they are programs like all others.

Does not: check that they are deterministic (the debug mode does).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.model.errors import GraphError, UserError
from flamestream.model.event_time import TimeOf
from flamestream.model.failure import called
from flamestream.model.state_names import Named
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function, name_of
from flamestream.model.windows.program import Answer, Now, OfKeys
from flamestream.model.windows.stream import Results, results_of, time_of


class Here:
    """Where an item stands in event time."""

    __slots__ = ("_now", "_shown")

    def __init__(self, now: Now, shown: Callable[[int], Any]) -> None:
        self._now, self._shown = now, shown

    @property
    def time(self) -> Any:
        """The item's own time."""
        return self._shown(self._now.time)

    @property
    def mark(self) -> Any:
        """Everything older that is in time has come; None: nothing is known yet."""
        return None if self._now.mark is None else self._shown(self._now.mark)

    @property
    def late(self) -> bool:
        """Whether the item is older than the mark."""
        return self._now.late


@dataclass(frozen=True, slots=True)
class Own(OfKeys):
    """The program of a user's functions."""

    item: Function
    time: Function | None
    next: Function | None
    event_time: TimeOf
    written: str

    @property
    def keeps(self) -> str:
        return "a state a key, until your functions return None for it"

    def on_item(self, key: Any, state: Any, item: Any, now: Now) -> Answer:
        return _answer(self.item, called(self.item, state, item, Here(now, self.event_time.shown)))

    def on_time(self, key: Any, state: Any, time: int) -> Answer:
        assert self.time is not None, "without it nothing is due"
        return _answer(self.time, called(self.time, state, self.event_time.shown(time)))

    def due(self, key: Any, state: Any) -> int | None:
        if self.next is None:
            return None
        time = called(self.next, state)
        return None if time is None else self.event_time.read(time, self.next)


def processed_by(
    stream: Stream[Any], key: Function, on_item: Function, on_time: Function | None, due: Function | None,
    named: Named,
) -> Results[Any]:  # fmt: skip
    """Results that a user's functions make of a stream. Raises GraphError."""
    written = f"process({name_of(on_item)})"
    if (on_time is None) != (due is None):
        raise GraphError(
            f"{written} in graph {stream.graph.name!r}: on_time and due go together: due(state) says when "
            "on_time is called"
        )
    time = time_of(stream, written)
    return results_of(Own(on_item, on_time, due, time, written), (stream, key), event_time=time, named=named)


def _answer(function: Function, answer: Any) -> Answer:
    if type(answer) is tuple and len(answer) == 2 and isinstance(answer[1], tuple | list):
        return answer
    raise UserError(
        f"{name_of(function)} returned {answer!r}: it must return (state, results), "
        "the results as a tuple or list"
    )
