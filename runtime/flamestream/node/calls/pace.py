"""Pace: how often a worker tries a call, where it says a rate.

>>> pace = Pace(10.0)
>>> [pace.turn(now) for now in (0.0, 0.0, 0.5)]
[0.0, 0.1, 0.0]

Keeps: a turn for whoever asks, in that order. Does not: wait, or read the clock.
"""


class Pace:
    """Turns, evenly apart; `rate` a second."""

    def __init__(self, rate: float) -> None:
        self._apart, self._next = 1 / rate, 0.0

    def turn(self, now: float) -> float:
        """The seconds until the next turn, which is taken."""
        begins = max(now, self._next)
        self._next = begins + self._apart
        return begins - now
