"""Up time: how long a service could be asked. It stands still while the call's breaker is open.

So what measures the tries of a request by it takes an outage for no time, as it is no try (decision 066).

>>> time = UpTime()
>>> time.set_down(10.0)
>>> time.at(3610.0)
10.0
>>> time.set_up(3610.0)
>>> time.at(3615.0)
15.0

Keeps: it never goes back, if the clock does not. Does not: read the clock, or say what an outage is (breaker.py).
"""


class UpTime:
    """Seconds of a clock, without those of outages."""

    def __init__(self) -> None:
        self._outages = 0.0
        """Seconds of those that are over."""
        self._down: float | None = None
        """When the one that is not began."""

    def set_down(self, now: float) -> None:
        """An outage begins, if there is none."""
        if self._down is None:
            self._down = now

    def set_up(self, now: float) -> None:
        """There is none any more."""
        self._outages, self._down = now - self.at(now), None

    def at(self, now: float) -> float:
        """Its seconds when the clock tells `now`."""
        return (now if self._down is None else self._down) - self._outages
