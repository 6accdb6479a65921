"""Expiry: a fold whose keys are forgotten when they have been silent for some event time.

A state holds its last time and an alarm. An item moves the last time alone; the alarm, when it rings, is set
again to what the last time asks for by then. So a touch costs no move among the times at which keys are due,
and a key is still forgotten at the mark that says so (!).

    item 10:00   alarm 11:00      item 10:40   alarm still 11:00      at 11:00 it is set to 11:40

Does not: depend on when a key was forgotten: an item more than `ttl` behind the last begins anew either way.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flamestream.model import fields
from flamestream.model.duration import Duration, micros, shown
from flamestream.model.failure import called
from flamestream.model.payload import payload_type
from flamestream.model.state_names import Named, within
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function, name_of
from flamestream.model.windows.program import Answer, Late, Now, OfKeys
from flamestream.model.windows.stream import Results, results_of, time_of


@payload_type
@dataclass(frozen=True, slots=True)
class Kept:
    """A key that is remembered."""

    accumulator: Any
    last: int
    """The greatest time of its items."""
    alarm: int
    """When to look at it: not behind `last` and the ttl."""


@dataclass(frozen=True, slots=True)
class Expiry(OfKeys):
    """The program of a fold with a ttl."""

    initial: Callable[[], Any]
    combine: Callable[[Any, Any], Any]
    emit: Callable[[Any, Any], Any] | None
    ttl: int
    written: str

    @property
    def keeps(self) -> str:
        return f"an accumulator a key, until the mark is {shown(self.ttl)} past its last item"

    def on_item(self, key: Any, state: Kept | None, item: Any, now: Now) -> Answer:
        time, ttl = now.time, self.ttl
        if state is None and now.late:
            return None, (Late(item),)  # its key may have been forgotten
        if state is None or time > state.last + ttl:
            before, last = called(self.initial), time
        else:
            before, last = state.accumulator, max(state.last, time)
        after = called(self.combine, before, item)
        result = after if self.emit is None else called(self.emit, after, item)
        return Kept(after, last, time + ttl + 1 if state is None else state.alarm), (result,)

    def on_time(self, key: Any, state: Kept, time: int) -> Answer:
        # (!) By the last time, which an item has moved alone: the key is due at the mark that this says.
        alarm = state.last + self.ttl + 1
        return (Kept(state.accumulator, state.last, alarm) if alarm > time else None), ()

    def due(self, key: Any, state: Kept) -> int | None:
        return state.alarm


def expiring(
    stream: Stream[Any], key: Function, initial: Function, combine: Function, emit: Function | None,
    ttl: Duration, named: Named,
) -> Results[Any]:  # fmt: skip
    """A reduce that forgets. Raises GraphError."""
    written = f"reduce({name_of(combine)}, ttl={ttl!r})"
    program = Expiry(
        initial, combine, emit, micros(ttl, f"reduce in graph {stream.graph.name!r}: ttl", least=1), written
    )
    made = fields.result_of(combine if emit is None else emit)
    return results_of(
        program,
        (stream, key),
        event_time=time_of(stream, written),
        items=made,
        named=within(named, OfAccumulators),
    )


class OfAccumulators:
    """Function from a kept accumulator to one that a user's function has made of it."""

    def __init__(self, up: Function) -> None:
        self._up, self.written = up, name_of(up)

    def __call__(self, state: Kept) -> Kept:
        return replace(state, accumulator=self._up(state.accumulator))
