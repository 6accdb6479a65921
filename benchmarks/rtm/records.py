"""The records of the three jobs, each from its number alone, and how many of them a result has in it.

One in five is an older record once more, the same bytes, up to two seconds behind it: a producer that got no
answer. Records say when they were due for the first time, and come at a fixed rate.

Does not: send anything (outside.py).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

USERS: Final = 1000
MINUTE: Final = 60_000
"""Milliseconds of a window."""
REPEATED: Final = 5
FURTHEST: Final = 2000
"""Numbers between a record and its repetition, at most."""
PILOT: Final = "pilot"
"""The id and the user of a record that comes before all others, and counts nowhere."""
Group = tuple[Any, ...]
"""What results are told for: an id, a user, or a user and the start of a window."""


def origin(number: int) -> int:
    """The number of the record that `number` repeats, or itself.

    >>> [origin(number) for number in (3, 4, 2003)], origin(2004) < 2004
    ([3, 4, 2003], True)
    """
    if number % REPEATED != REPEATED - 1 or number < FURTHEST + REPEATED - 1:
        return number
    older = number - 1 - number * 7919 % FURTHEST
    return older - 1 if older % REPEATED == REPEATED - 1 else older


@dataclass(frozen=True, slots=True)
class Schedule:
    """When records are due: `number` at start + number / rate, in seconds since 1970."""

    start: float
    rate: float

    def due(self, number: int) -> float:
        return self.start + number / self.rate

    def fields(self, number: int) -> dict[str, Any]:
        """What the record says; `at` are milliseconds since 1970."""
        first = origin(number)
        return {"id": f"e{first}", "user": f"u{first % USERS}", "at": int(self.due(first) * 1000)}

    def value(self, number: int) -> bytes:
        return json.dumps(self.fields(number)).encode()


def pilot(now: float) -> bytes:
    """A record whose result says that a system has started."""
    return json.dumps({"id": PILOT, "user": PILOT, "at": int(now * 1000)}).encode()


def is_pilot(result: Mapping[str, Any]) -> bool:
    return PILOT in (result.get("id"), result.get("user"))


@dataclass(frozen=True, slots=True)
class Job:
    """One of the three: what is counted together, of a record and of a result."""

    of_record: Callable[[Mapping[str, Any]], Group]
    of_result: Callable[[Mapping[str, Any]], tuple[Group, int]]
    """And how many records of the group are in it."""
    once: bool = False
    """Only the first record of a group gives a result."""


JOBS: Final = {
    "dedup": Job(lambda record: (record["id"],), lambda result: ((result["id"],), 1), once=True),
    "window": Job(
        lambda record: (record["user"], record["at"] // MINUTE * MINUTE),
        lambda result: ((result["user"], result["start"]), result["count"]),
    ),
    "count": Job(lambda record: (record["user"],), lambda result: ((result["user"],), result["count"])),
}
