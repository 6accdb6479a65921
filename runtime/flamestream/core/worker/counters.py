"""Counters: what a worker counts for people, over all attempts of its life.

    entered -> released (minimal time has passed the run) -> acknowledged (its consumer has the results)

Keeps: a fixed size, but for runs that are not released yet; a run that is replayed although it was released
is not timed again. Does not: decide anything; count what a timed source's stamps say of time (they are no
clock's).
"""

from collections import Counter, deque
from collections.abc import Set
from typing import TypedDict

from flamestream.core.protocol.latency import Latency
from flamestream.core.protocol.output_gaps import OutputGaps
from flamestream.model.ids import SourceName
from flamestream.model.time import END, START, FrontId, Instant, Time, Timestamp, front_of, timestamp_of


class Counted(TypedDict):
    """The fields of a Progress that are counted."""

    items_in: int
    items_out: int
    runs: int
    bundles: int
    latency: list[int]
    latency_us: int
    release: list[int]
    release_us: int
    replayed: int
    invalidated: int
    given: list[tuple[int, int]]
    late: dict[SourceName, int]
    late_since: dict[SourceName, int]
    replay_us: int


class Counters:
    """The counts of one life of one worker. `clocked`: fronts whose stamps are the clock's."""

    def __init__(self, clocked: Set[FrontId]) -> None:
        self.replayed = self.invalidated = 0
        """Counts of attempts that are over; whoever reports adds those of the present one."""
        self._clocked = clocked
        self.items_in = self.items_out = self.runs = self.bundles = 0
        self._waiting: deque[Time] = deque()
        self._released_to = START
        self._late = Counter[tuple[Time, SourceName]]()
        """Items that came too late, of runs above the committed cut: a recovery processes them once more, on
        whatever worker."""
        self._late_below = Counter[SourceName]()
        """Those of runs below it."""
        self._bound, self._replay_began, self._replay_us = END, Instant(0), 0
        """Where the replay under way ends (END: there is none), since when it is; and what the last one took."""
        self._release, self._acknowledgment = Latency(), Latency()
        self._gave = OutputGaps()
        self._told_to = 0
        """Microseconds up to which the coordinator knows when something was given."""

    def begin(self, replayed: int, invalidated: int, cut: Time, clocked: Set[FrontId]) -> None:
        """An attempt is over: it replayed and invalidated so many items, and the next one begins at `cut`, where
        the stamps of `clocked` are the clock's."""
        self._clocked = clocked
        self._bound, self._replay_us = END, 0
        self.replayed += replayed
        self.invalidated += invalidated
        self._waiting.clear()
        # Before the rest is forgotten: no worker processes again what is below the cut, of which this one may
        # not have heard yet.
        self.committed(cut)
        self._late.clear()

    def replays(self, bound: Time, instant: Instant) -> None:
        """The attempt runs: what was stamped up to `bound` comes once more."""
        self._bound, self._replay_began = bound, instant

    def passed(self, minimal: Time, instant: Instant) -> None:
        """Minimal time is at `minimal`. The first one above a replay's bound ends the replay."""
        if minimal > self._bound:
            self._replay_us, self._bound = max(1, instant - self._replay_began), END

    def entered(self, time: Time, items: int) -> None:
        """A run of a front of this worker has entered."""
        self.items_in += items
        self.runs += 1
        # a replayed run was timed when it first entered
        if front_of(time) in self._clocked and time >= self._released_to:
            self._waiting.append(time)

    def late(self, time: Time, source: SourceName, number: int) -> None:
        """So many items of the run at `time` came too late; fewer than none: that many did not, after all."""
        self._late[time, source] += number

    def committed(self, cut: Time) -> None:
        """Nothing below `cut` is processed again."""
        for run in [run for run in self._late if run[0] < cut]:
            self._late_below[run[1]] += self._late.pop(run)

    def released(self, minimal: Time, results: int, now: Timestamp) -> None:
        """Minimal time has come to `minimal`, which makes so many results of this worker final."""
        self.items_out += results
        # Never back, though minimal time is behind a recovery: those runs were timed.
        self._released_to = max(self._released_to, minimal)
        waiting = self._waiting
        while waiting and waiting[0] < minimal:
            self._release.observe(now - timestamp_of(waiting.popleft()))

    def acknowledged(self, stamped: Time, bundles: int, now: Timestamp) -> None:
        """A call of so many bundles is durable at its consumer; its oldest result is of the run at
        `stamped`."""
        self.bundles += bundles
        if bundles:
            self._gave.gave(now, now)
        if stamped != END and front_of(stamped) in self._clocked:
            self._acknowledgment.observe(now - timestamp_of(stamped))

    def tell_anew(self) -> None:
        """The next report goes to a coordinator that may know nothing of this worker."""
        self._told_to = 0

    def report(self, replayed: int, invalidated: int) -> Counted:
        """The counts so far, with those of the present attempt. When something was given is said once to each
        coordinator."""
        # What a report says that is lost with its connection is said again: the next begins with `tell_anew`.
        known, self._told_to = self._told_to, self._gave.last
        given = [(max(first, known), last) for first, last in self._gave.recent() if last > known]
        return {
            "items_in": self.items_in, "items_out": self.items_out, "runs": self.runs,
            "bundles": self.bundles, "latency": list(self._acknowledgment.counts),
            "latency_us": self._acknowledgment.total, "release": list(self._release.counts),
            "release_us": self._release.total, "replayed": self.replayed + replayed,
            "invalidated": self.invalidated + invalidated, "given": given,
            "late": dict(self._late_below), "late_since": self._late_since(), "replay_us": self._replay_us,
        }  # fmt: skip

    def _late_since(self) -> dict[SourceName, int]:
        """Late items above the committed cut, of released runs: what speculation may still take back is not
        told."""
        late = Counter[SourceName]()
        for (time, source), number in self._late.items():
            if time < self._released_to:
                late[source] += number
        # `+`: what was taken back altogether is left out
        return dict(+late)
