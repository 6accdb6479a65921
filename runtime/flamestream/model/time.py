"""Global time: a total order on runs that is the same at every replay.

A time is one unsigned 64-bit number: a timestamp in microseconds (52 bits) and, below it, the front that
stamped it (12 bits). Two fronts can therefore never stamp the same time, and comparing two times is comparing
two integers.

>>> t = time_of(Timestamp(1_000), FrontId(3))
>>> timestamp_of(t), front_of(t)
(1000, 3)
>>> timestamp_of(next_time(t, FrontId(2)))      # front 2 sorts before front 3, so it needs the next microsecond
1001
>>> timestamp_of(next_time(t, FrontId(4)))
1000

Keeps: strictly growing times per front when stamps come from `next_time`. Does not: read a clock (the shell
does). Source: EDBT 2018, section 3.1.
"""

from typing import Final, NewType

Time = NewType("Time", int)
Timestamp = NewType("Timestamp", int)
"""Microseconds since 1970 for journalled fronts; any growing number for timed ones."""
Instant = NewType("Instant", int)
"""Microseconds of one process's clock that nobody sets: only how far two of them are apart means something.
All durations are of these."""
FrontId = NewType("FrontId", int)

FRONT_BITS: Final = 12
MAX_FRONTS: Final = 1 << FRONT_BITS
# One less than END's own timestamp, or a stamp could be END.
MAX_TIMESTAMP: Final = (1 << 52) - 2
CLOCKS_BEGIN: Final = Timestamp(1_000_000_000_000_000)
"""Microseconds (in 2001): what is below counts the runs of a source that is read in an order of its own."""
ROOM: Final = 1 << 14
"""Timestamps from a run of a timed front to its next, in a job with calls: answers enter in between."""
START: Final = Time(0)
"""Before every run."""
END: Final = Time((1 << 64) - 1)
"""After every run: what a front that has ended promises."""


def time_of(timestamp: Timestamp, front: FrontId) -> Time:
    """The time that `front` stamps at `timestamp`."""
    assert 0 <= front < MAX_FRONTS, f"front {front} does not fit {FRONT_BITS} bits"
    assert 0 <= timestamp <= MAX_TIMESTAMP, f"timestamp {timestamp} us is out of range"
    return Time(timestamp << FRONT_BITS | front)


def timestamp_of(time: Time) -> Timestamp:
    """The timestamp of `time`, in microseconds."""
    return Timestamp(time >> FRONT_BITS)


def moment(timestamp: int) -> str:
    """A timestamp in digits, or `end`: there is nothing after it."""
    return "end" if timestamp >= timestamp_of(END) else str(timestamp)


def front_of(time: Time) -> FrontId:
    """The front that stamped `time`."""
    return FrontId(time & (MAX_FRONTS - 1))


def next_time(after: Time, front: FrontId) -> Time:
    """The smallest time of `front` that is greater than `after`."""
    same = Time(after >> FRONT_BITS << FRONT_BITS | front)
    return same if same > after else Time(same + MAX_FRONTS)


def step_after(after: Time, front: FrontId, step: int) -> Time:
    """The time of a timed front's run behind the one at `after`: its runs are `step` timestamps apart."""
    return Time(next_time(after, front) + (step - 1) * MAX_FRONTS)


def last_below(cut: Time, front: FrontId) -> Time:
    """The last stamp of a front that goes on behind `cut`: its next one is at or above that."""
    return time_of(Timestamp(timestamp_of(cut) - 1), front)
