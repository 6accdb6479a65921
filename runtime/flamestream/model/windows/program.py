"""Program: what is done in event time: pure functions of one state. A key has a state, or several in places
of their own.

| function                           | answer           |  |
|------------------------------------|------------------|-----|
| `places(key, now)`                 | places           | where its states are; none: it is late |
| `on_item(place, state, item, now)` | a state, results | an item of the place; its state, None at the beginning |
| `on_time(place, state, time)`      | a state, results | the mark has passed the time that `due` asked for |
| `due(place, state)`                | a time or None   | the next time it wants to be called at |

`written` names a program in messages; `keeps` says what states it has and until when (`flamestream plan`);
`form` says what they mean: those of a program of another form are no states of this one (state_names.py).

A state of None is forgotten: neither memory nor snapshots have it then. Windows, joins and users' own
functions are programs.

Does not: keep states or find what is due (process.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flamestream.model.payload import payload_type

Answer = tuple[Any, Sequence[Any]]
"""(the state after it, results in order)."""


@dataclass(slots=True)  # one is made an item: frozen it would take three times as long
class Now:
    """Where an item stands in event time."""

    time: int
    """The item's own."""
    mark: int | None
    """Everything older that is in time has come; None: nothing is known yet."""
    side: int = 0
    """The stream it came on, of programs with several."""

    @property
    def late(self) -> bool:
        """Whether the item is older than the mark."""
        return self.mark is not None and self.time < self.mark


class Program(Protocol):
    """A program."""

    @property
    def written(self) -> str: ...
    @property
    def keeps(self) -> str: ...
    @property
    def form(self) -> str: ...
    def places(self, key: Any, now: Now, /) -> Sequence[Any]: ...
    def on_item(self, place: Any, state: Any, item: Any, now: Now, /) -> Answer: ...
    def on_time(self, place: Any, state: Any, time: int, /) -> Answer: ...
    def due(self, place: Any, state: Any, /) -> int | None: ...


class OfKeys:
    """A program with one state a key, whose place is the key itself."""

    __slots__ = ()

    @property
    def form(self) -> str:
        """Any program of its kind goes on from its states."""
        return type(self).__name__

    def places(self, key: Any, now: Now) -> Sequence[Any]:
        """The key alone."""
        return (key,)


@payload_type
@dataclass(frozen=True, slots=True)
class Late:
    """A result that is an item which came too late, for the stream `late`."""

    item: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Failed:
    """A result in whose place a user's function raised."""

    function: str
    error: str
    message: str
