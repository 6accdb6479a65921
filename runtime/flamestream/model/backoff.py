"""Pauses between tries: each is twice the one before, up to a longest.

>>> again = Backoff(0.5, 3.0)
>>> [again.after(failures) for failures in range(5)]
[0.0, 0.5, 1.0, 2.0, 3.0]

Keeps: whole numbers (microseconds) stay whole. Does not: wait, count the tries, or draw: where many must not
come at the same moment, the retries are tenacity's (store/s3_answers.py, store/zookeeper.py).
"""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Span = TypeVar("Span", int, float)
_MOST_DOUBLINGS: Final = 62
"""Whoever fails for years gets no number of a thousand digits."""


@dataclass(frozen=True, slots=True)
class Backoff(Generic[Span]):
    """The first pause and the longest, and so every pause between, in one unit of the caller's choice."""

    first: Span
    longest: Span

    def after(self, failures: int) -> Span:
        """The pause after `failures` failed tries in a row; zero after none."""
        if failures <= 0:
            return self.first * 0
        return min(self.first * (1 << min(failures - 1, _MOST_DOUBLINGS)), self.longest)
