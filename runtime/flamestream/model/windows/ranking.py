"""Ranking: which keys had the most items in a window: a window over the results of windows.

Counts of one window have one end, so they meet under it. They come before the mark that closes the ranking,
because what a mark leads to comes before the same mark of a later vertex (marks.py).

Does not: count (panes.py).
"""

from dataclasses import dataclass
from typing import Any

from flamestream.model.payload import payload_type
from flamestream.model.payloads.codec import encode
from flamestream.model.windows.panes import Windowed
from flamestream.model.windows.program import Answer, Now, OfKeys


@payload_type
@dataclass(frozen=True, slots=True)
class Best:
    """The keys with the most items so far, as (key, count) pairs."""

    end: int
    keys: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ranking(OfKeys):
    """The program of one window of all keys; its key is (start, end) as items say times. Ties are by the
    encoding of keys, so the order in which shards tell their counts does not matter (!)."""

    count: int
    written: str

    @property
    def keeps(self) -> str:
        return f"the best {self.count} keys a window, until the mark is at the window's end"

    @property
    def form(self) -> str:
        return f"the best {self.count}"

    def on_item(self, key: Any, state: Best | None, item: Windowed[Any, Any], now: Now) -> Answer:
        pairs = (*(state.keys if state else ()), (item.key, item.value))
        # (!) Sorted with ties by key: shards tell their counts in any order.
        # The window's end in microseconds, in whatever unit items say theirs: a count's time is one less.
        return Best(now.time + 1, tuple(sorted(pairs, key=_rank)[: self.count])), ()

    def on_time(self, key: Any, state: Best, time: int) -> Answer:
        start, end = key
        return None, (Windowed(None, start, end, state.keys),)

    def due(self, key: Any, state: Best) -> int | None:
        return state.end


def _rank(pair: tuple[Any, int]) -> tuple[int, bytes]:
    key, count = pair
    return -count, encode(key)


def bounds(windowed: Windowed[Any, Any]) -> tuple[Any, Any]:
    """The key of a ranking."""
    return windowed.start, windowed.end
