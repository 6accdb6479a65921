"""Shapes: which windows an event time belongs to, for windows that are the same for every key.

    tumbling("10m")               |---------|---------|---------|
    sliding("10m", every="5m")    |---------|---------|
                                       |---------|---------|
    tumbling("1d", zone=Berlin)   |------|-----|------|            23 h where summer time begins

Does not: know sessions, whose windows depend on what comes (sessions.py), or read a zone's rules
(flamestream/zones.py).
"""

from dataclasses import dataclass
from typing import Final

from flamestream.model.duration import UNITS, Duration, Micros, micros, shown
from flamestream.model.errors import GraphError
from flamestream.model.windows.zone import Zone

DAY: Final = UNITS["d"]
HOUR: Final = UNITS["h"]
MOST_OF_ONE: Final = 10_000
"""Windows that one item may be in."""
Bounds = tuple[int, int]
"""Start and end of a window in microseconds; the end does not belong to it."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Windows of `size` microseconds that begin every `every`, at multiples of it counted from `offset`."""

    size: int
    every: int
    offset: int
    written: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """All of its durations."""
        return self.size, self.every, self.offset

    @property
    def form(self) -> str:
        """Which windows these are."""
        return f"{shown(self.size)} every {shown(self.every)} from {shown(self.offset)}"

    def windows(self, time: int) -> list[Bounds]:
        """Windows that `time` belongs to, in order."""
        # Python's % is never negative, so this holds before 1970 too.
        last = time - (time - self.offset) % self.every
        if self.size == self.every:
            return [(last, last + self.size)]
        first = last - (last - time + self.size - 1) // self.every * self.every
        return [(start, start + self.size) for start in range(first, last + 1, self.every)]

    def start(self, end: int) -> int:
        """Where the window begins that ends at `end`."""
        return end - self.size


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows that begin when the clocks of a zone show a multiple of `size`, `offset` later. A time that
    clocks show twice begins its window the first time, so an hour that comes twice makes one window of two
    hours, and that day one of 25."""

    zone: Zone
    size: int
    offset: int
    written: str

    @property
    def form(self) -> str:
        """Which windows these are."""
        return f"{shown(self.size)} from {shown(self.offset)} in {self.zone.name}"

    def windows(self, time: int) -> list[Bounds]:
        """The one that `time` belongs to."""
        number = (self.zone.local(time) - self.offset) // self.size
        start, end = self._start(number), self._start(number + 1)
        while end <= time:  # clocks were put back behind a boundary that they had shown
            number, start, end = number + 1, end, self._start(number + 2)
        return [(start, end)]

    def start(self, end: int) -> int:
        """Where the window begins that ends at `end`."""
        return self.windows(end - 1)[0][0]

    def _start(self, number: int) -> int:
        return self.zone.first(number * self.size + self.offset)


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when a key has been silent for `gap` microseconds."""

    gap: int
    written: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """All of its durations."""
        return (self.gap,)


Shape = Grid | Calendar | Session


def check_shape(shape: object, where: str) -> None:
    """Raises GraphError, which begins with `where`, for what is no shape."""
    if not isinstance(shape, Shape):
        raise GraphError(
            f'{where}: {shape!r} is no shape of windows: say fs.tumbling("1m"), '
            'fs.sliding("10m", every="1m") or fs.session("30m")'
        )


def tumbling(size: Duration, *, offset: Duration = "0s", zone: Zone | None = None) -> Grid | Calendar:
    """Windows of length `size`, one behind the other. They begin at multiples of it since 1970 in UTC,
    `offset` later.

    `zone`: they begin where its clocks show these multiples: whole days, or hours that divide a day. Raises
    GraphError.
    """
    length, start = micros(size, "size", least=1), micros(offset, "offset")
    if zone is None:
        return Grid(length, length, start, f"tumbling({size!r})")
    if length % DAY and (length % HOUR or DAY % length):
        raise GraphError(
            f"tumbling({size!r}, zone={zone.name!r}): windows by the clocks of a zone are whole days, or "
            "hours that divide a day; for any other length leave zone out"
        )
    return Calendar(zone, length, start, f"tumbling({size!r}, zone={zone.name!r})")


def sliding(size: Duration, *, every: Duration, offset: Duration = "0s") -> Grid:
    """Windows of length `size` that begin every `every`: each item is in several, if that is less. Raises
    GraphError."""
    length, step = micros(size, "size", least=1), micros(every, "every", least=1)
    if step > length:
        raise GraphError(
            f"sliding({size!r}, every={every!r}): items between two windows would be in none; "
            "every is at most the size"
        )
    if length > MOST_OF_ONE * step:
        raise GraphError(
            f"sliding({size!r}, every={every!r}): each item would be in {length // step:,} windows; at most "
            f"{MOST_OF_ONE:,} are kept"
        )
    return Grid(length, step, micros(offset, "offset"), f"sliding({size!r}, every={every!r})")


def session(gap: Duration) -> Session:
    """Windows that begin with an item and end `gap` after the last one. An item exactly `gap` later begins a
    new one."""
    return Session(Micros(micros(gap, "gap", least=1)), f"session({gap!r})")
