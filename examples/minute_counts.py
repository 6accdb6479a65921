"""Two windowed counts over one stream of events, in event time: how many events each user had in a minute, and all users together.

An event is a line `SECONDS USER`. Events come in any order. Time is what the events say: the newest time seen so far is itself an item,
which goes round a cycle and waits for the next event (as the running total of `word_count.py` does). A minute stays open until the newest
time is LATENESS seconds behind its end. An event that comes later changes no count, and is counted as late, minute by minute: so every
event is in exactly one of the counts, and a count whose minute has closed never changes.

Each event changes a count of each kind, and every change is a result; the last one of a (user, minute) is its count.
"""

from dataclasses import dataclass

import flamestream as fs

MINUTE, LATENESS = 60, 30


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Event:
    at: int
    user: str

    @property
    def minute(self) -> int:
        return self.at // MINUTE


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Clock:
    """The newest time of all events so far."""

    at: int


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Judged:
    """An event, and whether its minute was closed when it came."""

    event: Event
    late: bool


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Count:
    """Of one user in one minute; of all users where `user` is empty."""

    minute: int
    user: str
    events: int


def parsed(line: str) -> Event:
    seconds, user = line.split()
    return Event(int(seconds), user)


def together(item: Event | Clock) -> int:
    """One group for all: the order of events matters, whoever's they are."""
    return 0


def clock_before(window: tuple[Event | Clock, ...]) -> Clock | None:
    """(Clock, Event), or a first (Event,): what the clock said then. None: nothing to do, or still to be corrected."""
    if not isinstance(window[-1], Event):
        return None
    before = window[-2] if len(window) == 2 else Clock(0)
    return before if isinstance(before, Clock) else None


def ticks(window: tuple[Event | Clock, ...]) -> list[Clock]:
    before = clock_before(window)
    return [] if before is None else [Clock(max(before.at, window[-1].at))]


def judged(window: tuple[Event | Clock, ...]) -> list[Judged]:
    before, event = clock_before(window), window[-1]
    if before is None or not isinstance(event, Event):
        return []
    return [Judged(event, late=(event.minute + 1) * MINUTE + LATENESS <= before.at)]


def one_more(count: int, item: Judged) -> int:
    return count + 1


def user_and_minute(item: Judged) -> tuple[str, int]:
    return item.event.user, item.event.minute


def minute(item: Judged) -> int:
    return item.event.minute


def of_user(count: int, item: Judged) -> Count:
    return Count(item.event.minute, item.event.user, count)


def of_all(count: int, item: Judged) -> Count:
    return Count(item.event.minute, "", count)


graph = fs.Graph("minute-counts")
clock = graph.loop("clock", max_iterations=1)
in_order = graph.source("events").map(parsed).merge(clock).group(2, key=together)
clock.close(in_order.flat_map(ticks))
events = in_order.flat_map(judged)
in_time, late = events.filter(lambda item: not item.late), events.filter(lambda item: item.late)
in_time.reduce(key=user_and_minute, initial=int, combine=one_more, emit=of_user).sink("users", key=lambda count: (count.user, count.minute))
in_time.reduce(key=minute, initial=int, combine=one_more, emit=of_all).sink("all", key=lambda count: count.minute)
late.reduce(key=minute, initial=int, combine=one_more, emit=of_all).sink("late", key=lambda count: count.minute)
