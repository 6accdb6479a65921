"""Program: what is done for one key in event time: three pure functions of the key's state.

| function                         | answer           |                                                          |
|----------------------------------|------------------|----------------------------------------------------------|
| `on_item(key, state, item, now)` | a state, results | an item of the key; its state, None at the beginning     |
| `on_time(key, state, time)`      | a state, results | the mark has passed the time that `due` asked for        |
| `due(state)`                     | a time or None   | the next time it wants to be called at                   |

A state of None is forgotten: neither memory nor snapshots have it then. Windows, joins and users' own functions are programs.

Does not: keep states or find what is due (process.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flamestream.model.payload import payload_type

Answer = tuple[Any, Sequence[Any]]
"""(the state after it, results in order)."""


@dataclass(frozen=True, slots=True)
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
    """A program. `written` names it in messages."""

    @property
    def written(self) -> str: ...
    def on_item(self, key: Any, state: Any, item: Any, now: Now, /) -> Answer: ...
    def on_time(self, key: Any, state: Any, time: int, /) -> Answer: ...
    def due(self, state: Any, /) -> int | None: ...


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
