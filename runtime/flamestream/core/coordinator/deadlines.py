"""Deadlines: time as the coordinator has lived it, and the next moment it waits for.

A coordinator may be paused, which says nothing about the workers. So if a step comes later than the alarm
that was set by more than a tolerance, time stops short of the alarm by as much: what has been waiting to be
heard is heard first. (Only once in a row, so that a shell with coarse timers gets on.) Whoever asks `due` and
hears "not yet" has thereby asked to be woken.

>>> deadlines = Deadlines(tolerance_us=10)
>>> deadlines.advance(Instant(1_000))
>>> deadlines.due(Instant(1_500))
False
>>> deadlines.alarm()
1500
>>> deadlines.advance(Instant(9_000))     # paused
>>> deadlines.now
1490

Keeps: `now` never goes back; no deadline is missed for want of an alarm. Does not: read a clock (the shell
does).
"""

from flamestream.model.time import Instant


class Deadlines:
    """Ask `due(time)`; set the clock of the shell to `alarm()` at the end of a step."""

    def __init__(self, tolerance_us: int) -> None:
        self.now = Instant(0)
        self._tolerance = tolerance_us
        self._read: Instant | None = None
        self._next: Instant | None = None
        """The earliest time asked for in this step."""
        self._set: Instant | None = None
        """The alarm that the shell has, in lived time."""
        self._shown: Instant | None = None
        """The alarm that the shell has, on the shell's clock."""
        self._overslept = False

    def advance(self, reading: Instant) -> None:
        """A step begins at `reading`, on the shell's clock."""
        if self._read is None:
            self.now = reading
        else:
            self.now = Instant(self.now + self._lived(reading - self._read))
        # whoever still waits asks again in this step; what nobody waits for wakes nobody
        self._read, self._next = reading, None
        if self._shown is not None and reading >= self._shown:
            self._set = self._shown = None

    def _lived(self, elapsed: int) -> int:
        """The part that counts of what has passed on the shell's clock."""
        if self._set is None or elapsed <= self._set - self.now + self._tolerance:
            self._overslept = False
            return elapsed
        left = max(0, self._set - self.now)
        # twice in a row is a coarse timer and no pause: now time goes past the deadline
        counts = left + self._tolerance if self._overslept else max(0, left - self._tolerance)
        self._overslept = not self._overslept
        return counts

    def due(self, time: Instant) -> bool:
        """Whether `time` has come; if not, be woken then."""
        if self.now >= time:
            return True
        if self._next is None or time < self._next:
            self._next = time
        return False

    def due_in(self, since: Instant, duration_us: int) -> bool:
        """Whether `duration_us` have passed since then; if not, be woken then."""
        return self.due(Instant(since + duration_us))

    def alarm(self) -> Instant | None:
        """The moment at which the shell must call again, on its clock; None if it knows already."""
        if self._next is None or self._read is None:
            return None
        alarm = Instant(self._read + self._next - self.now)
        # the one that is set rings early enough, and waking too early does no harm
        if self._shown is not None and self._shown <= alarm:
            return None
        self._set, self._shown = self._next, alarm
        return alarm
