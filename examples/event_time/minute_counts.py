"""How many events each user had in each minute, in event time, and which events came too late to be counted.

An event is a line `SECONDS USER`. Events come in any order, up to 30 seconds late. A count leaves when its
minute is over; an event that comes later changes no count, and goes to `late`.
"""

import flamestream as fs


@fs.event
class Event:
    at: int
    user: str


def parsed(line: str) -> Event:
    seconds, user = line.split()
    return Event(int(seconds), user)


graph = fs.Graph("minute-counts")
events = graph.source("events", parsed, at="at", unit="s", late="30s")
counts = events.window(fs.tumbling("1m"), key="user").count()
counts.sink("users", key=fs.field("key"))
counts.late.sink("late", key=fs.field("user"))
