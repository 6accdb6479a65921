"""Zone: how far a place's clocks are from UTC, and since when, as plain data.

Whoever builds a graph reads it once from the machine's files (flamestream/zones.py), so folding items needs
none (!): a pure function of a table gives the same windows at every replay.

>>> berlin = Zone("Berlin", (0, 100), (10, 20), 1_000)       # at 100 clocks go from 110 to 120
>>> berlin.local(99), berlin.local(100), berlin.first(115)
(109, 120, 100)
"""

from bisect import bisect_right
from dataclasses import dataclass

from flamestream.model.errors import UserError


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone's clocks, in microseconds."""

    name: str
    since: tuple[int, ...]
    """When each offset begins, ascending."""
    offsets: tuple[int, ...]
    """The time that clocks show then, less UTC."""
    until: int
    """The table ends here."""

    def local(self, time: int) -> int:
        """Local time that clocks show at `time`. Raises UserError outside of the table."""
        return time + self.offsets[self._place(time)]

    def first(self, local: int) -> int:
        """When clocks first show `local` or more."""
        # No clock is more than a day off, so no earlier offset can have shown it.
        place = max(0, bisect_right(self.since, local - 86_400_000_000) - 1)
        while place + 1 < len(self.since) and self.since[place + 1] + self.offsets[place] <= local:
            place += 1
        return max(self.since[place], local - self.offsets[place])

    def _place(self, time: int) -> int:
        if not self.since[0] <= time < self.until:
            raise UserError(
                f"the event time {time / 1e6} s since 1970 is outside of what is known of the zone "
                f"{self.name!r}"
            )
        return bisect_right(self.since, time) - 1
